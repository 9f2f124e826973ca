"""What one trace says about its rank: besides the breakdown of its steps, where it met the others and what it did else.

A meeting is a collective that no rank can leave before all have come: an all-reduce, an all-gather, a barrier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from operator import or_

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.analysis import step_facts
from unified_profiler.analysis.columns import Flags, coded, ints
from unified_profiler.analysis.intervals import NEVER, Spans
from unified_profiler.analysis.step_facts import Lanes, Steps, facts, of_trace, parts, regions
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.spi import EventConventions

COLUMNS = (*step_facts.COLUMNS, "self_ns", "tid", "device", "framework", "op", "attributes")

SMALL = 0.01
"""An operator has facts if it took at least so much of one of the steps."""

_SYNCHRONIZING_OPS = frozenset({"x:AllReduce", "x:AllGather", "x:ReduceScatter", "x:AllToAll"})
_DATA_LOADING = (
    r"(?<![a-z])(data|dataset|data_?loader|data_?loading|load_?(data|batch)|(next|get|fetch)_?batch)(?![a-z])"
)
"""Matches words by which users name what loads data."""


def rank_facts(events: EventTable, conventions: Mapping[str, EventConventions]) -> pa.Table:
    """Return all facts that the analyses of ranks need, reading the events once.

    Args:
        events: The events of one trace.
        conventions: The conventions of each framework, by the name in the column `framework`.
    """
    lanes = Lanes(events)
    steps = lanes.steps()
    if not len(steps.number):
        return step_facts.FACTS.empty_table()
    loading = _data_loading(lanes, conventions)
    own, order = _order(lanes, reduce(or_, loading.values(), NEVER))
    met = _meetings(lanes, conventions)
    tables = [*parts(steps, order), *regions(lanes, steps), _operators(lanes, steps)]
    tables += [
        steps.facts("loading", spans.within(steps.start, steps.end), name=name) for name, spans in loading.items()
    ]
    tables += [_met(lanes, steps, met, conventions), _exposed(lanes.during(met) - own, steps)]
    return of_trace(events, tables)


def _order(lanes: Lanes, loading: Spans) -> tuple[Spans, list[tuple[str, Spans]]]:
    """Return when the rank did work of its own, and what a moment counts for.

    Its own work comes before what it moves, since only who does nothing else has to wait. Where there is a device, its
    work is what counts; what the host did counts for moments at which the device was idle.
    """
    device, host = lanes.busy(Kind.KERNEL), lanes.busy(Kind.OP, Kind.COMPILE)
    copies = ("copy", lanes.busy(Kind.COPY))
    collectives = ("collective", lanes.busy(Kind.COLLECTIVE))
    if len(device.start):
        order = [("compute", device), copies, collectives, ("data", loading), ("compute", host)]
        return device | copies[1], order
    return loading | host, [("data", loading), ("compute", host), copies, collectives]


def _data_loading(lanes: Lanes, conventions: Mapping[str, EventConventions]) -> dict[str, Spans]:
    """Return the names of the regions and operators that load data, and when they ran."""
    rows = lanes.rows(Kind.REGION, Kind.OP)
    events = lanes.events.select(["name", "framework"]).take(pa.array(rows))
    loads = _matching(events, "name", _DATA_LOADING)
    for framework, convention in conventions.items():
        loads |= _of(events, framework) & _matching(events, "name", convention.data_loading)
    rows, names = rows[loads], coded(events.filter(pa.array(loads)), "name")
    return {names.values[code]: lanes.during(rows[names.codes == code]) for code in np.unique(names.codes)}


def _of(events: EventTable, framework: str) -> Flags:
    return coded(events, "framework").where(framework.__eq__)


def _matching(events: EventTable, column: str, pattern: str | None, *, key: str | None = None) -> Flags:
    """Return the rows in which a column, or an attribute if a key is given, matches a pattern; none without one."""
    if pattern is None:
        return np.zeros(len(events), bool)
    search = re.compile(pattern, re.IGNORECASE).search
    return coded(events, column).where(lambda text: search(_attribute(text, key) if key else text) is not None)


def _attribute(attributes: str | None, key: str | None) -> str:
    """Return the attribute of that key as a text; empty without it."""
    if not key or not attributes or key not in attributes:
        return ""
    return str(msgspec.json.decode(attributes).get(key, ""))


def _operators(lanes: Lanes, steps: Steps) -> pa.Table:
    """Return the self time of each operator in each step, of those that matter in one of them."""
    names, step = coded(lanes.events, "name"), ints(lanes.events, "step")
    rows = lanes.rows(Kind.OP, Kind.COMPILE, Kind.KERNEL, Kind.COPY)
    place = np.full(int(steps.number[-1]) + 2, -1)  # the last one for events outside steps
    place[steps.number] = np.arange(len(steps.number))
    where = place[np.clip(step[rows], -1, len(place) - 2)]
    inside = where >= 0
    rows, where = rows[inside], where[inside]
    width = len(names.values)
    weights = ints(lanes.events, "self_ns")[rows]
    spent = np.bincount(where * width + names.codes[rows], weights=weights, minlength=len(steps.number) * width)
    table = spent.reshape(len(steps.number), width)
    matters = (table >= SMALL * (steps.end - steps.start)[:, None]).any(axis=0)
    number, code = np.nonzero((table > 0) & matters)
    texts = pa.array(names.values, pa.string()).take(pa.array(code))
    return facts("operator", steps.number[number], name=texts, spent=table[number, code].astype(np.int64))


def _meetings(lanes: Lanes, conventions: Mapping[str, EventConventions]) -> Ints:
    """Return the rows of the meetings themselves, not of the calls that only launch them.

    Those on devices, if there are; else those on threads that do nothing else; else all.
    """
    rows = lanes.rows(Kind.COLLECTIVE)
    few = lanes.events.take(pa.array(rows))
    meet = coded(few, "op").where(_SYNCHRONIZING_OPS.__contains__)
    for framework, convention in conventions.items():
        if (pattern := convention.synchronizing_collectives) is not None:
            key = convention.collective_name_key
            matches = _matching(few, "name", pattern) | _matching(few, "attributes", key and pattern, key=key)
            meet = np.where(_of(few, framework), matches, meet)
    rows, few = rows[meet], few.filter(pa.array(meet))
    device = coded(few, "device").where(lambda name: not name.startswith("cpu"))
    if device.any():
        return rows[device]
    apart = ~np.isin(ints(few, "tid"), _working(lanes, np.unique(ints(few, "tid"))))
    return rows[apart] if apart.any() else rows


def _working(lanes: Lanes, threads: Ints) -> list[int]:
    """Return those of some threads that run operators."""
    tid = ints(lanes.events, "tid")[lanes.rows(Kind.OP)]
    return [thread for thread in threads.tolist() if (tid == thread).any()]


def _met(lanes: Lanes, steps: Steps, met: Ints, conventions: Mapping[str, EventConventions]) -> pa.Table:
    """Return the meetings, numbered within their step among those of the same name and group."""
    step = ints(lanes.events.take(pa.array(met)), "step")
    met, step = met[np.isin(step, steps.number)], step[np.isin(step, steps.number)]
    order = np.lexsort((lanes.start[met], step))
    met, step = met[order], step[order]
    few = lanes.events.take(pa.array(met))
    keys = [_key(row, conventions) for row in few.select(["name", "framework", "attributes"]).to_pylist()]
    named = pa.array(keys, pa.string())
    return facts("meeting", step, name=named, nth=_numbered(step, keys), start=lanes.start[met], end=lanes.end[met])


def _key(event: Mapping[str, str | None], conventions: Mapping[str, EventConventions]) -> str:
    convention = conventions.get(event["framework"] or "", EventConventions())
    name = _attribute(event["attributes"], convention.collective_name_key) or event["name"]
    return f"{name} {_attribute(event['attributes'], convention.collective_ranks_key)}".strip()


def _numbered(step: Ints, keys: list[str]) -> Ints:
    seen: dict[tuple[int, str], int] = {}
    numbers = []
    for pair in zip(step.tolist(), keys, strict=True):
        numbers.append(seen.get(pair, 0))
        seen[pair] = numbers[-1] + 1
    return np.array(numbers, np.int64)


def _exposed(spans: Spans, steps: Steps) -> pa.Table:
    """Return when a meeting was under way and the rank itself computed nothing, cut at the borders of steps."""
    order = np.argsort(steps.start, kind="stable")
    frame, start, end = spans.cut(steps.start[order], steps.end[order])
    return facts("exposed", steps.number[order][frame], start=start, end=end)
