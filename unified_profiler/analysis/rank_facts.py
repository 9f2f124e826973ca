"""What one trace says about its rank: besides the breakdown of its steps, where it met the others and what it did else.

A meeting is a collective that no rank can leave before all have come: an all-reduce, an all-gather, a barrier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.analysis import step_facts
from unified_profiler.analysis.columns import Flags, coded, ints
from unified_profiler.analysis.intervals import Spans
from unified_profiler.analysis.step_facts import Lanes, Steps, breakdown, facts, of_trace
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind

COLUMNS = (*step_facts.COLUMNS, "self_ns", "pid", "tid", "device", "attributes")

SMALL = 0.01
"""An operator has facts if it took at least so much of one of the steps."""

_MEETING = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier|CollectiveReduce", re.IGNORECASE)
_DATA = re.compile(
    r"enumerate\(DataLoader\)|Iterator(::|GetNext)|GetNext|"
    r"(?<![a-z])(data|dataset|data_?loader|data_?loading|load_?(data|batch)|(next|get|fetch)_?batch)(?![a-z])",
    re.IGNORECASE,
)
_GROUP = "Process Group Ranks"
_COLLECTIVE = "Collective name"


def rank_facts(events: EventTable) -> pa.Table:
    """Return all facts that the analyses of ranks need, in one go over the events."""
    lanes = Lanes(events)
    steps = lanes.steps()
    if not len(steps.number):
        return step_facts.FACTS.empty_table()
    own = lanes.of_kind(Kind.KERNEL)
    if not own.any():
        own = lanes.of_kind(Kind.OP)
    met = _meetings(lanes, events)
    parts = (breakdown(lanes, steps), _compute_and_data(lanes, steps), _operators(lanes, steps, events))
    met_facts = (_met(lanes, steps, met, events), _exposed(lanes.busy(met) - lanes.busy(own), steps))
    return of_trace(events, (table for group in (*parts, met_facts) for table in group))


def _compute_and_data(lanes: Lanes, steps: Steps) -> Iterator[pa.Table]:
    """Tell loading data from computing: where no kernel ran, what ran while data was loaded belongs to that."""
    moved = lanes.busy(lanes.of_kind(Kind.COLLECTIVE, Kind.COPY))
    on_device = moved | lanes.busy(lanes.of_kind(Kind.KERNEL))
    loading = on_device | lanes.busy(lanes.of_kind(Kind.REGION, Kind.OP) & lanes.name.where(_loads_data))
    covered = loading | lanes.busy(lanes.of_kind(Kind.OP))
    in_moves, in_kernels, in_loading, in_all = (
        part.within(steps.start, steps.end) for part in (moved, on_device, loading, covered)
    )
    yield steps.facts("compute", in_kernels - in_moves + in_all - in_loading)
    yield steps.facts("data", in_loading - in_kernels)
    yield steps.facts("idle", steps.end - steps.start - in_all)


def _loads_data(name: str) -> bool:
    return _DATA.search(name) is not None


def _operators(lanes: Lanes, steps: Steps, events: EventTable) -> Iterator[pa.Table]:
    """Give the self time of each operator in each step, of those that matter in one of them."""
    rows = np.flatnonzero(lanes.of_kind(Kind.OP, Kind.KERNEL, Kind.COPY) & (lanes.step >= 0))
    place = np.searchsorted(steps.number, lanes.step[rows])
    rows, place = rows[place < len(steps.number)], place[place < len(steps.number)]
    width = len(lanes.name.values)
    cell = place * width + lanes.name.codes[rows]
    spent = np.bincount(cell, weights=ints(events, "self_ns")[rows], minlength=len(steps.number) * width)
    table = spent.reshape(len(steps.number), width)
    matters = (table >= SMALL * (steps.end - steps.start)[:, None]).any(axis=0)
    step, code = np.nonzero((table > 0) & matters)
    names = pa.array(lanes.name.values).take(pa.array(code))
    yield facts("operator", steps.number[step], name=names, spent=table[step, code].astype(np.int64))


def _meetings(lanes: Lanes, events: EventTable) -> Flags:
    """Flag the meetings themselves, not the calls that only launch them.

    Those on devices, if there are; else those on threads that do nothing else; else all.
    """
    attributes = coded(events, "attributes")
    said = attributes.where(_says_meeting)
    met: Flags = lanes.of_kind(Kind.COLLECTIVE) & (lanes.name.where(_is_meeting) | said)
    device = coded(events, "device").where(lambda name: not name.startswith("cpu"))
    if (met & device).any():
        return met & device
    thread = ints(events, "tid") * 1_000_003 + ints(events, "pid")
    working = np.unique(thread[lanes.of_kind(Kind.OP)])
    apart: Flags = met & ~np.isin(thread, working)
    return apart if apart.any() else met


def _is_meeting(name: str) -> bool:
    return _MEETING.search(name) is not None


def _says_meeting(attributes: str) -> bool:
    return _COLLECTIVE in attributes and _is_meeting(_described(attributes)[0])


@cache
def _described(attributes: str) -> tuple[str, str]:
    """Return the name of a collective and the ranks of its group, as the framework's profiler describes them."""
    said = msgspec.json.decode(attributes) if _COLLECTIVE in attributes or _GROUP in attributes else {}
    return str(said.get(_COLLECTIVE, "")), str(said.get(_GROUP, ""))


def _met(lanes: Lanes, steps: Steps, met: Flags, events: EventTable) -> pa.Table:
    """Return the meetings, numbered within their step among those of the same name and group."""
    rows = np.flatnonzero(met & np.isin(lanes.step, steps.number))
    rows = rows[np.lexsort((lanes.start[rows], lanes.step[rows]))]
    names = [lanes.name.values[code] for code in lanes.name.codes[rows]]
    texts = events.column("attributes").take(pa.array(rows)).to_pylist()
    keys = [_key(name, text) for name, text in zip(names, texts, strict=True)]
    nth = _numbered(lanes.step[rows], keys)
    named = pa.array(keys, pa.string())
    return facts("meeting", lanes.step[rows], name=named, nth=nth, start=lanes.start[rows], end=lanes.end[rows])


def _key(name: str, attributes: str | None) -> str:
    collective, group = _described(attributes) if attributes else ("", "")
    return f"{collective or name} {group}".strip()


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
