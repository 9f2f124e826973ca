"""What one trace says about its steps, as rows: how long each was and how long each sort of work ran in it.

`step_breakdown` and the analyses of ranks begin with these rows. The functions take the events of one trace, and run
wherever the engine has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import Coded, coded, ints
from unified_profiler.analysis.intervals import NEVER, Spans
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind, Layer

COLUMNS = ("rank", "cycle", "step", "kind", "layer", "name", "start_ns", "duration_ns")
"""What the facts of a breakdown are made of."""

FACTS = pa.schema(
    {
        "rank": pa.int32(),
        "cycle": pa.int32(),
        "step": pa.int32(),
        "what": pa.string(),
        "name": pa.string(),
        "nth": pa.int32(),
        "start_ns": pa.int64(),
        "end_ns": pa.int64(),
        "spent_ns": pa.int64(),
    }
)
"""A fact: in this step of this trace, `what` (of that name) took so long, or lay there."""


@dataclass(frozen=True)
class Steps:
    """The steps of a trace, by number."""

    number: Ints
    start: Ints
    end: Ints

    def facts(self, what: str, spent: Ints, *, name: str | None = None) -> pa.Table:
        """Return a fact for each step."""
        return facts(what, self.number, name=name, start=self.start, end=self.end, spent=spent)


class Lanes:
    """The events of one trace by kind, and the moments at which those of a kind ran."""

    def __init__(self, events: EventTable) -> None:
        self.events = events
        self.kind: Coded = coded(events, "kind")
        self.start = ints(events, "start_ns")
        self.end = self.start + ints(events, "duration_ns")
        self._busy: dict[Kind, Spans] = {}

    def rows(self, *kinds: Kind) -> Ints:
        """Return the rows of the events of some kinds."""
        codes = [self.kind.values.index(kind.value) for kind in kinds if kind.value in self.kind.values]
        flags = np.isin(self.kind.codes, codes) if len(codes) > 1 else self.kind.codes == (codes or [-2])[0]
        return np.flatnonzero(flags)

    def busy(self, *kinds: Kind) -> Spans:
        """Return when at least one event of some kinds ran."""
        for kind in kinds:
            if kind not in self._busy:
                self._busy[kind] = self.during(self.rows(kind))
        first, *others = (self._busy[kind] for kind in kinds)
        return reduce(or_, others, first)

    def during(self, rows: Ints) -> Spans:
        """Return when at least one of the events in these rows ran."""
        return Spans.of(self.start[rows], self.end[rows])

    def steps(self) -> Steps:
        """Return the steps; a step in several pieces lasts from the first to the last."""
        rows = self.rows(Kind.STEP)
        number = ints(self.events.take(pa.array(rows)), "step")
        rows, number = rows[number >= 0], number[number >= 0]
        numbers, which = np.unique(number, return_inverse=True)
        start = np.full(len(numbers), np.iinfo(np.int64).max)
        end = np.zeros(len(numbers), np.int64)
        np.minimum.at(start, which, self.start[rows])
        np.maximum.at(end, which, self.end[rows])
        return Steps(numbers, start, end)

    def regions(self) -> Iterator[tuple[str, Spans]]:
        """Give each of the user's regions, and when it ran."""
        rows = self.rows(Kind.REGION)
        few = self.events.take(pa.array(rows))
        names, users = coded(few, "name"), coded(few, "layer").where(Layer.APPLICATION.value.__eq__)
        for code in np.unique(names.codes[users]):
            yield names.values[code], self.during(rows[users & (names.codes == code)])


def breakdown_facts(events: EventTable) -> pa.Table:
    """Return the facts of a breakdown: wall time, and each part of it, of each step; and its regions."""
    lanes = Lanes(events)
    steps = lanes.steps()
    moved = (("collective", lanes.busy(Kind.COLLECTIVE)), ("copy", lanes.busy(Kind.COPY)))
    work = (("compile", lanes.busy(Kind.COMPILE)), ("op", lanes.busy(Kind.OP, Kind.KERNEL)))
    return of_trace(events, [*parts(steps, (*moved, *work)), *regions(lanes, steps)])


def parts(steps: Steps, order: Sequence[tuple[str, Spans]]) -> Iterator[pa.Table]:
    """Give the wall time of each step and the parts that make it up: a moment counts for the first that it is in."""
    wall = steps.end - steps.start
    yield steps.facts("wall", wall)
    reached, spent_before = NEVER, np.zeros_like(wall)
    for what, spans in order:
        reached = reached | spans
        spent = reached.within(steps.start, steps.end)
        yield steps.facts(what, spent - spent_before)
        spent_before = spent
    yield steps.facts("uncovered", wall - spent_before)


def regions(lanes: Lanes, steps: Steps) -> Iterator[pa.Table]:
    """Give how long each of the user's regions ran in each step."""
    for name, spans in lanes.regions():
        spent = spans.within(steps.start, steps.end)
        yield steps.facts("region", spent, name=name).filter(pa.array(spent > 0))


def facts(
    what: str,
    step: Ints,
    *,
    name: str | pa.Array | None = None,
    nth: Ints | None = None,
    start: Ints | None = None,
    end: Ints | None = None,
    spent: Ints | None = None,
) -> pa.Table:
    """Make rows of facts; what is not given is null."""
    rows = len(step)
    given = {"step": step, "nth": nth, "start_ns": start, "end_ns": end, "spent_ns": spent}
    columns = {key: pa.nulls(rows, FACTS.field(key).type) if v is None else pa.array(v) for key, v in given.items()}
    columns["what"] = pa.repeat(pa.scalar(what), rows)
    columns["name"] = name if isinstance(name, pa.Array) else pa.repeat(pa.scalar(name, pa.string()), rows)
    columns["rank"] = columns["cycle"] = pa.nulls(rows, pa.int32())
    return pa.table({field.name: columns[field.name] for field in FACTS}).cast(FACTS)


def of_trace(events: EventTable, parts: Iterable[pa.Table]) -> pa.Table:
    """Put facts together and say of which rank and cycle they are."""
    table = pa.concat_tables([FACTS.empty_table(), *parts])
    for index, name in enumerate(("rank", "cycle")):
        value = events.column(name)[0] if len(events) else pa.scalar(None, pa.int32())
        table = table.set_column(index, FACTS.field(name), pa.repeat(value.cast(pa.int32()), len(table)))
    return table
