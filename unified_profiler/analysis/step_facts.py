"""Measures the steps of one trace, as rows: how long each step was, and how long each kind of work ran in it.

`step_breakdown` and the analyses of ranks start from these rows. The functions take the events of one trace; the engine
may run them in another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import Coded, coded, ints
from unified_profiler.analysis.intervals import EMPTY, IntervalSet
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind, Layer

COLUMNS = ("rank", "cycle", "step", "kind", "layer", "name", "start_ns", "duration_ns")
"""The event columns that a breakdown needs."""

FACTS = pa.schema(
    {
        **dict.fromkeys(("rank", "cycle", "step"), pa.int32()),
        **dict.fromkeys(("fact", "name"), pa.string()),
        "nth": pa.int32(),
        **dict.fromkeys(("start_ns", "end_ns", "spent_ns"), pa.int64()),
    }
)
"""One row per measurement: `fact` is its type (`wall`, `region`, `operator`, ...), with a duration or an interval."""


@dataclass(frozen=True)
class Steps:
    """The steps of a trace, by number."""

    number: Ints
    start: Ints
    end: Ints

    def facts(self, fact: str, spent: Ints, *, name: str | None = None) -> pa.Table:
        """Return a fact for each step."""
        return facts(fact, self.number, name=name, start=self.start, end=self.end, spent=spent)


class KindTimeline:
    """The events of one trace by kind, and the intervals during which each kind ran, on any thread or device."""

    def __init__(self, events: EventTable) -> None:
        self.events = events
        self.kind: Coded = coded(events, "kind")
        self.start = ints(events, "start_ns")
        self.end = self.start + ints(events, "duration_ns")
        self._busy: dict[Kind, IntervalSet] = {}

    def rows(self, *kinds: Kind) -> Ints:
        """Return the rows of the events of some kinds."""
        codes = [self.kind.values.index(kind.value) for kind in kinds if kind.value in self.kind.values]
        flags = np.isin(self.kind.codes, codes) if len(codes) > 1 else self.kind.codes == (codes or [-2])[0]
        return np.flatnonzero(flags)

    def busy(self, *kinds: Kind) -> IntervalSet:
        """Return when at least one event of some kinds ran."""
        for kind in kinds:
            if kind not in self._busy:
                self._busy[kind] = self.during(self.rows(kind))
        return reduce(or_, (self._busy[kind] for kind in kinds))

    def during(self, rows: Ints) -> IntervalSet:
        """Return when at least one of the events in these rows ran."""
        return IntervalSet.of(self.start[rows], self.end[rows])

    def steps(self) -> Steps:
        """Return the steps; a step recorded in several pieces lasts from the first to the last."""
        rows = self.rows(Kind.STEP)
        number = ints(self.events.take(pa.array(rows)), "step")
        rows, number = rows[number >= 0], number[number >= 0]
        numbers, index = np.unique(number, return_inverse=True)
        start = np.full(len(numbers), np.iinfo(np.int64).max)
        end = np.zeros(len(numbers), np.int64)
        np.minimum.at(start, index, self.start[rows])
        np.maximum.at(end, index, self.end[rows])
        return Steps(numbers, start, end)


def part_facts(steps: Steps, order: Sequence[tuple[str, IntervalSet]]) -> Iterator[pa.Table]:
    """Yield the wall time of each step and its parts; time in several interval sets counts for the first of them."""
    wall = steps.end - steps.start
    yield steps.facts("wall", wall)
    covered, spent_before = EMPTY, np.zeros_like(wall)
    for part, intervals in order:
        covered = covered | intervals
        spent = covered.within(steps.start, steps.end)
        yield steps.facts(part, spent - spent_before)
        spent_before = spent
    yield steps.facts("uncovered", wall - spent_before)


def region_facts(timeline: KindTimeline, steps: Steps) -> Iterator[pa.Table]:
    """Yield how long each of the user's regions ran in each step."""
    rows = timeline.rows(Kind.REGION)
    regions = timeline.events.take(pa.array(rows))
    names, of_user = coded(regions, "name"), coded(regions, "layer").where(Layer.APPLICATION.value.__eq__)
    for code in np.unique(names.codes[of_user]):
        intervals = timeline.during(rows[of_user & (names.codes == code)])
        spent = intervals.within(steps.start, steps.end)
        yield steps.facts("region", spent, name=names.values[code]).filter(pa.array(spent > 0))


def facts(
    fact: str,
    step: Ints,
    *,
    name: str | pa.Array | None = None,
    nth: Ints | None = None,
    start: Ints | None = None,
    end: Ints | None = None,
    spent: Ints | None = None,
) -> pa.Table:
    """Build rows of `FACTS`; columns that are not given are null."""
    count = len(step)
    given = {"step": step, "nth": nth, "start_ns": start, "end_ns": end, "spent_ns": spent}
    columns = {key: pa.nulls(count, FACTS.field(key).type) if v is None else pa.array(v) for key, v in given.items()}
    columns["fact"] = pa.repeat(pa.scalar(fact), count)
    columns["name"] = name if isinstance(name, pa.Array) else pa.repeat(pa.scalar(name, pa.string()), count)
    columns["rank"] = columns["cycle"] = pa.nulls(count, pa.int32())
    return pa.table({field.name: columns[field.name] for field in FACTS}).cast(FACTS)


def with_trace_columns(events: EventTable, tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate facts and fill in the rank and the cycle of their trace."""
    table = pa.concat_tables([FACTS.empty_table(), *tables])
    for index, name in enumerate(("rank", "cycle")):
        value = events.column(name)[0] if len(events) else pa.scalar(None, pa.int32())
        table = table.set_column(index, FACTS.field(name), pa.repeat(value.cast(pa.int32()), len(table)))
    return table
