"""From the tables of several recorders and the facade's own spans to the one table of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.alignment import align
from unified_profiler.model.borders import fit
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
    cycle: int = 0,
    rank: int | None = None,
    host: str | None = None,
) -> EventTable:
    """Join native tables, calls, own spans and counters, place events in steps and modules, and nest them.

    Args:
        native: Tables from normalizers.
        calls: API calls and calls of modules timed by the facade.
        waited: Whether those calls waited for the work that they queued.
        own: Steps and regions timed by the facade. If it holds steps, those of the native profilers become regions.
        counters: Values over time that the facade read.
        cycle: Number of the cycle.
        rank: Rank of events whose native profiler did not tell it.
        host: Machine of events whose native profiler did not tell it.
    """
    events = _concat(native)
    if calls is not None and len(calls):
        events = _concat([align(calls, events), events])
    if own is not None and len(own):
        own, events = fit(own, events)
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
