"""Measures the steps of one rank's trace: their parts, regions, operators, data loading and synchronizing collectives.

A synchronizing collective is one that no rank can leave before all have entered: an all-reduce, an all-gather, a
barrier. Names and attribute keys of a framework come from the `EventConventions` of its backend.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import reduce
from itertools import count
from operator import or_

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.analysis import step_facts
from unified_profiler.analysis.columns import Flags, coded, ints
from unified_profiler.analysis.data_loading import data_loading
from unified_profiler.analysis.intervals import EMPTY, IntervalSet
from unified_profiler.analysis.step_facts import KindTimeline, Steps
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.spi import EventConventions

COLUMNS = (*step_facts.COLUMNS, "self_ns", "tid", "device", "framework", "op", "attributes")

SMALL = 0.01
"""An operator has facts if it took at least this share of one of the steps."""

_SYNCHRONIZING_OPS = frozenset({"x:AllReduce", "x:AllGather", "x:ReduceScatter", "x:AllToAll"})


def rank_facts(events: EventTable, conventions: Mapping[str, EventConventions]) -> pa.Table:
    """Return all facts that the analyses of ranks need, reading the events once.

    Args:
        events: The events of one trace.
        conventions: The conventions of each framework, by the name in the column `framework`.
    """
    timeline = KindTimeline(events)
    steps = timeline.steps()
    if not len(steps.number):
        return step_facts.FACTS.empty_table()
    loading = data_loading(timeline, conventions)
    own_work, order = _part_order(timeline, reduce(or_, loading.values(), EMPTY))
    collectives = _synchronizing_collectives(timeline, conventions)
    tables = [*step_facts.part_facts(steps, order), *step_facts.region_facts(timeline, steps)]
    tables.append(_operator_facts(timeline, steps))
    tables += [
        steps.facts("loading", intervals.within(steps.start, steps.end), name=name)
        for name, intervals in loading.items()
    ]
    tables.append(_collective_facts(timeline, steps, collectives, conventions))
    tables.append(_exposed_facts(timeline.during(collectives) - own_work, steps))
    return step_facts.with_trace_columns(events, tables)


def _part_order(timeline: KindTimeline, loading: IntervalSet) -> tuple[IntervalSet, list[tuple[str, IntervalSet]]]:
    """Return when the rank did work of its own, and the parts of a step in order of precedence.

    Own work precedes communication, since only a rank that does nothing else has to wait. With a device, the device's
    work counts, and that of the host only while the device was idle.
    """
    device, host = timeline.busy(Kind.KERNEL), timeline.busy(Kind.OP, Kind.COMPILE)
    copies = ("copy", timeline.busy(Kind.COPY))
    collectives = ("collective", timeline.busy(Kind.COLLECTIVE))
    if len(device.start):
        order = [("compute", device), copies, collectives, ("data", loading), ("compute", host)]
        return device | copies[1], order
    return loading | host, [("data", loading), ("compute", host), copies, collectives]


def _is_of(events: EventTable, framework: str) -> Flags:
    return coded(events, "framework").where(framework.__eq__)


def _matching(events: EventTable, column: str, pattern: str | None, *, key: str | None = None) -> Flags:
    """Return the rows in which a column, or one of its attributes if a key is given, matches a pattern."""
    if pattern is None:
        return np.zeros(len(events), bool)
    search = re.compile(pattern, re.IGNORECASE).search
    return coded(events, column).where(lambda text: search(_attribute(text, key) if key else text) is not None)


def _attribute(attributes: str | None, key: str | None) -> str:
    """Return an attribute as text; empty if it is missing."""
    if not key or not attributes or key not in attributes:
        return ""
    return str(msgspec.json.decode(attributes).get(key, ""))


def _operator_facts(timeline: KindTimeline, steps: Steps) -> pa.Table:
    """Return the self time of each operator in each step, of those that matter in one of them."""
    names, step = coded(timeline.events, "name"), ints(timeline.events, "step")
    rows = timeline.rows(Kind.OP, Kind.COMPILE, Kind.KERNEL, Kind.COPY)
    index_of_step = np.full(int(steps.number[-1]) + 2, -1)  # the last entry is for events outside steps
    index_of_step[steps.number] = np.arange(len(steps.number))
    index = index_of_step[np.clip(step[rows], -1, len(index_of_step) - 2)]
    rows, index = rows[index >= 0], index[index >= 0]
    width = len(names.values)
    weights = ints(timeline.events, "self_ns")[rows]
    spent = np.bincount(index * width + names.codes[rows], weights=weights, minlength=len(steps.number) * width)
    table = spent.reshape(len(steps.number), width)
    matters = (table >= SMALL * (steps.end - steps.start)[:, None]).any(axis=0)
    number, code = np.nonzero((table > 0) & matters)
    texts = pa.array(names.values, pa.string()).take(pa.array(code))
    return step_facts.facts("operator", steps.number[number], name=texts, spent=table[number, code].astype(np.int64))


def _synchronizing_collectives(timeline: KindTimeline, conventions: Mapping[str, EventConventions]) -> Ints:
    """Return the rows of synchronizing collectives themselves, not of the calls that only launch them.

    These are the ones on devices, if there are any; else those on threads without operators; else all.
    """
    rows = timeline.rows(Kind.COLLECTIVE)
    events = timeline.events.take(pa.array(rows))
    synchronizes = coded(events, "op").where(_SYNCHRONIZING_OPS.__contains__)
    for framework, convention in conventions.items():
        if (pattern := convention.synchronizing_collectives) is not None:
            key = convention.collective_name_key
            matches = _matching(events, "name", pattern) | _matching(events, "attributes", key and pattern, key=key)
            synchronizes = np.where(_is_of(events, framework), matches, synchronizes)
    rows, events = rows[synchronizes], events.filter(pa.array(synchronizes))
    on_device = coded(events, "device").where(lambda name: not name.startswith("cpu"))
    if on_device.any():
        return rows[on_device]
    op_threads = np.unique(ints(timeline.events, "tid")[timeline.rows(Kind.OP)])
    separate = ~np.isin(ints(events, "tid"), op_threads)
    return rows[separate] if separate.any() else rows


def _collective_facts(
    timeline: KindTimeline, steps: Steps, rows: Ints, conventions: Mapping[str, EventConventions]
) -> pa.Table:
    """Return the synchronizing collectives, numbered within their step among those of the same name and group."""
    step = ints(timeline.events, "step")
    rows = rows[np.isin(step[rows], steps.number)]
    rows = rows[np.lexsort((timeline.start[rows], step[rows]))]
    events = timeline.events.select(["name", "framework", "attributes"]).take(pa.array(rows))
    keys = [_collective_key(event, conventions) for event in events.to_pylist()]
    return step_facts.facts(
        "synchronizing_collective",
        step[rows],
        name=pa.array(keys, pa.string()),
        nth=_occurrences(step[rows], keys),
        start=timeline.start[rows],
        end=timeline.end[rows],
    )


def _collective_key(event: Mapping[str, str | None], conventions: Mapping[str, EventConventions]) -> str:
    """Return a collective's name and the ranks of its group, which are the same on all ranks that take part."""
    convention = conventions.get(event["framework"] or "", EventConventions())
    name = _attribute(event["attributes"], convention.collective_name_key) or event["name"]
    return f"{name} {_attribute(event['attributes'], convention.collective_ranks_key)}".strip()


def _occurrences(step: Ints, keys: list[str]) -> Ints:
    """Return for each row how many rows before it have the same step and key."""
    counters: defaultdict[tuple[int, str], count[int]] = defaultdict(count)
    return np.array([next(counters[pair]) for pair in zip(step.tolist(), keys, strict=True)], np.int64)


def _exposed_facts(intervals: IntervalSet, steps: Steps) -> pa.Table:
    """Return when the rank was in a synchronizing collective and computed nothing itself, cut at the ends of steps."""
    order = np.argsort(steps.start, kind="stable")
    frame, start, end = intervals.cut(steps.start[order], steps.end[order])
    return step_facts.facts("exposed", steps.number[order][frame], start=start, end=end)
