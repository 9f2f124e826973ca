"""What one trace says about its steps, as rows: how long each was and how long each sort of work ran in it.

`step_breakdown` and the analyses of ranks begin with these rows. The functions take the events of one trace, and run
wherever the engine has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import Coded, Flags, coded, ints
from unified_profiler.analysis.intervals import Spans
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
    """The events of one trace, and the moments at which some of them ran."""

    def __init__(self, events: EventTable) -> None:
        self.kind: Coded = coded(events, "kind")
        self.layer: Coded = coded(events, "layer")
        self.name: Coded = coded(events, "name")
        self.start = ints(events, "start_ns")
        self.end = self.start + ints(events, "duration_ns")
        self.step = ints(events, "step")

    def of_kind(self, *kinds: Kind) -> Flags:
        """Flag the events of some kinds."""
        return self.kind.where({kind.value for kind in kinds}.__contains__)

    def busy(self, flags: Flags) -> Spans:
        """Return when at least one of the flagged events ran."""
        return Spans.of(self.start[flags], self.end[flags])

    def steps(self) -> Steps:
        """Return the steps; a step in several pieces lasts from the first to the last."""
        rows = np.flatnonzero(self.of_kind(Kind.STEP) & (self.step >= 0))
        numbers, which = np.unique(self.step[rows], return_inverse=True)
        start = np.full(len(numbers), np.iinfo(np.int64).max)
        end = np.zeros(len(numbers), np.int64)
        np.minimum.at(start, which, self.start[rows])
        np.maximum.at(end, which, self.end[rows])
        return Steps(numbers, start, end)

    def regions(self) -> Iterator[tuple[str, Spans]]:
        """Give each of the user's regions, and when it ran."""
        flags = self.of_kind(Kind.REGION) & self.layer.where(Layer.APPLICATION.value.__eq__)
        for code in np.unique(self.name.codes[flags]):
            yield self.name.values[code], self.busy(flags & (self.name.codes == code))


def breakdown_facts(events: EventTable) -> pa.Table:
    """Return the facts of a breakdown: wall time, and each part of it, of each step; and its regions."""
    lanes = Lanes(events)
    return of_trace(events, breakdown(lanes, lanes.steps()))


def breakdown(lanes: Lanes, steps: Steps) -> Iterator[pa.Table]:
    """Give the parts that make up the wall time of each step, and its regions.

    A moment counts as a collective if one ran, else as a copy, else as an operator.
    """
    collective = lanes.busy(lanes.of_kind(Kind.COLLECTIVE))
    moved = collective | lanes.busy(lanes.of_kind(Kind.COPY))
    covered = moved | lanes.busy(lanes.of_kind(Kind.OP, Kind.KERNEL))
    in_collectives, in_moves, in_all = (part.within(steps.start, steps.end) for part in (collective, moved, covered))
    wall = steps.end - steps.start
    yield steps.facts("wall", wall)
    yield steps.facts("op", in_all - in_moves)
    yield steps.facts("collective", in_collectives)
    yield steps.facts("copy", in_moves - in_collectives)
    yield steps.facts("uncovered", wall - in_all)
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
