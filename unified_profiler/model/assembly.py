"""From the tables of several recorders and the facade's own spans to the one table of a trace.

The facade's spans are timed by another clock than the native events. Where a border of such a span cuts a native
event, the border moves to an edge of that event: native numbers are never changed. For a region it is the nearer edge;
an event that a step ends in, as a hook of the optimizer does, belongs to the step in which it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.alignment import CLOCK_SLACK_NS, align
from unified_profiler.model.columns import look_up
from unified_profiler.model.module_backward import backward_spans
from unified_profiler.model.module_time import carry_modules, recomputed_calls
from unified_profiler.model.nesting import Ints, nest, of_kind, whole_numbers
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Kind, empty_table


def assemble(
    native: Sequence[EventTable],
    *,
    calls: EventTable | None = None,
    waited: bool = False,
    own: EventTable | None = None,
    counters: EventTable | None = None,
    end_ns: int | None = None,
    cycle: int = 0,
    rank: int | None = None,
    host: str | None = None,
) -> EventTable:
    """Join native tables, calls, own spans and counters, place events in steps and modules, and nest them.

    Args:
        native: Tables from normalisers.
        calls: API calls and calls of modules timed by the facade.
        waited: Whether those calls waited for the work that they queued.
        own: Steps and regions timed by the facade. If it holds steps, those of the native profilers become regions.
        counters: Values over time that the facade read.
        end_ns: When the facade ended recording.
        cycle: Number of the cycle.
        rank: Rank of events whose native profiler did not tell it.
        host: Machine of events whose native profiler did not tell it.
    """
    events = _concat(native)
    if calls is not None and len(calls):
        events = _concat([align(calls, events), events])
    if own is not None and len(own):
        own = _snap(own, events, end_ns)
        if of_kind(own, Kind.STEP).any():
            events = _steps_to_regions(events)
        events = _concat([own, events])
    if counters is not None:
        events = _concat([events, counters])
    place = _Place(cycle, 0 if rank is None else rank, host)
    events = carry_modules(recomputed_calls(place.put(events)), waited=waited)
    backward = backward_spans(events)
    return place.put(_concat([backward, events])) if len(backward) else events  # first: they enclose what is as long


@dataclass(frozen=True)
class _Place:
    """Where and when events were recorded, as far as they do not say it themselves."""

    cycle: int
    rank: int
    host: str | None

    def put(self, events: EventTable) -> EventTable:
        """Put events there, into their steps, and nest them."""
        events = _replace(events, "cycle", pa.repeat(pa.scalar(self.cycle, pa.int32()), len(events)))
        events = _fill(events, "rank", self.rank)
        if self.host is not None:
            events = _fill(events, "host", self.host)
        return nest(_place_in_steps(events))


def _concat(tables: Sequence[EventTable]) -> EventTable:
    filled = [table for table in tables if len(table)]
    if not filled:
        return empty_table()
    if len(filled) == 1:
        return filled[0].replace_schema_metadata(None)
    plain = [table.replace_schema_metadata(None) for table in filled]
    return pa.concat_tables(plain).unify_dictionaries().combine_chunks()


def _snap(own: EventTable, events: EventTable, end_ns: int | None) -> EventTable:
    start = _ints(own, "start_ns").copy()
    end = start + _ints(own, "duration_ns")
    borders = _Borders.of(own, start, end, end_ns)
    own_tid, tid = _ints(own, "tid"), _ints(events, "tid")
    begin, finish = _ints(events, "start_ns"), _ints(events, "start_ns") + _ints(events, "duration_ns")
    for thread in np.unique(own_tid):
        here = np.flatnonzero((tid == thread) & (finish > begin))
        lane = _Lane(begin[here], finish[here])
        for i in np.flatnonzero(own_tid == thread):
            first, last = int(start[i]), int(end[i])
            start[i] = lane.edge(first, (first, last), int(borders.started_by[i]))
            end[i] = max(lane.edge(last, (first, last), int(borders.ended_by[i])), start[i])
    own = _replace(own, "start_ns", pa.array(start))
    return _replace(own, "duration_ns", pa.array(end - start))


_NEARER = -1


@dataclass(frozen=True)
class _Borders:
    """Up to when an event that cuts a border of a step belongs to the step before it; `_NEARER` for regions."""

    started_by: Ints
    ended_by: Ints

    @classmethod
    def of(cls, own: EventTable, start: Ints, end: Ints, end_ns: int | None) -> _Borders:
        """Find them: the step after must still have something of its own."""
        started_by, ended_by = np.full_like(start, _NEARER), np.full_like(end, _NEARER)
        steps = np.flatnonzero(of_kind(own, Kind.STEP))
        steps = steps[np.argsort(start[steps], kind="stable")]
        started_by[steps] = end[steps]
        ended_by[steps[:-1]] = end[steps[1:]]
        ended_by[steps[-1:]] = np.maximum(end[steps[-1:]], end_ns or 0) + CLOCK_SLACK_NS
        return cls(started_by, ended_by)


class _Lane:
    """The native events of one thread, for looking up which of them a moment cuts."""

    def __init__(self, start: Ints, end: Ints) -> None:
        order = np.argsort(start, kind="stable")
        self.start, self.end = start[order], end[order]
        self.latest_end = np.maximum.accumulate(self.end) if len(order) else self.end

    def edge(self, moment: int, span: tuple[int, int], until: int) -> int:
        """Return a border of a span, or the edge that it moves to of the widest event that cuts it."""
        before = int(np.searchsorted(self.start, moment, side="left"))
        if not before or self.latest_end[before - 1] <= moment:
            return moment
        first = int(np.searchsorted(self.latest_end[:before], moment, side="right"))
        start, end = self.start[first:before], self.end[first:before]
        cut = (end > moment) & ~((start <= span[0]) & (end >= span[1]))
        if not cut.any():
            return moment
        widest = int(np.argmax(np.where(cut, end - start, -1)))
        left, right = int(start[widest]), int(end[widest])
        nearer = left if moment - left < right - moment else right
        if until == _NEARER or moment - left <= CLOCK_SLACK_NS:
            return nearer
        return right if right <= until else left


def _steps_to_regions(events: EventTable) -> EventTable:
    steps = of_kind(events, Kind.STEP)
    if not steps.any():
        return events
    kinds = pc.if_else(pa.array(steps), Kind.REGION.value, events.column("kind").cast(pa.string()))
    return _replace(events, "kind", kinds.combine_chunks().dictionary_encode())


def _place_in_steps(events: EventTable) -> EventTable:
    rows = np.flatnonzero(of_kind(events, Kind.STEP))
    if not len(rows):
        return events
    start, duration = _ints(events, "start_ns"), _ints(events, "duration_ns")
    rows = rows[np.argsort(start[rows], kind="stable")]
    numbers = _ints(events, "step")[rows]
    slot = np.searchsorted(start[rows], start, side="right") - 1
    inside = (slot >= 0) & (start < (start + duration)[rows][slot])
    inside[rows] = True
    slot[rows] = np.arange(len(rows))
    step = np.where(inside, numbers[slot], -1)
    step = _by_launch(events, step)
    return _replace(events, "step", pa.array(step, mask=step < 0).cast(pa.int32()))


def _by_launch(events: EventTable, step: Ints) -> Ints:
    """Give the work of a device the step of the call that launched it, which is often an earlier one."""
    correlation = _ints(events, "correlation_id")
    launches = np.flatnonzero(of_kind(events, Kind.RUNTIME) & (correlation >= 0))
    on_device = np.flatnonzero((correlation >= 0) & ~of_kind(events, Kind.RUNTIME))
    launch = look_up(correlation[on_device], correlation[launches])
    placed = step.copy()
    placed[on_device[launch >= 0]] = step[launches[launch[launch >= 0]]]
    return placed


def _ints(events: EventTable, name: str) -> Ints:
    return whole_numbers(events.column(name))


def _fill(events: EventTable, name: str, value: int | str) -> EventTable:
    column = events.column(name)
    if not column.null_count:
        return events
    kind = EVENT_SCHEMA.field(name).type
    if not pa.types.is_dictionary(kind):
        return _replace(events, name, column.fill_null(pa.scalar(value, kind)))
    return _replace(events, name, column.cast(pa.string()).fill_null(value).combine_chunks().dictionary_encode())


def _replace(events: EventTable, name: str, values: Any) -> EventTable:
    return events.set_column(EVENT_SCHEMA.get_field_index(name), EVENT_SCHEMA.field(name), values)
