"""Merges native event tables, facade calls, steps and counters into the event table of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.alignment import align_calls
from unified_profiler.model.arrow_arrays import number_array, repeated_number, repeated_text
from unified_profiler.model.borders import fit_spans
from unified_profiler.model.device_steps import assign_device_steps
from unified_profiler.model.module_attribution import assign_modules, mark_recomputed_calls
from unified_profiler.model.module_backward import backward_spans
from unified_profiler.model.nesting import int_column, is_kind, nest, with_column
from unified_profiler.model.schema import EventTable, Kind, empty_table


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
    """Merge native tables, calls, own spans and counters, assign steps and modules to events, and nest them.

    Args:
        native: Tables from normalizers.
        calls: API calls and module calls timed by the facade.
        waited: Whether those calls waited for the work that they queued.
        own: Steps and regions timed by the facade. If there are steps, native steps become regions.
        counters: Values over time that the facade sampled.
        cycle: Number of the cycle.
        rank: Rank of events without one.
        host: Host of events without one.
    """
    events = _concat(native)
    if calls is not None and len(calls):
        events = _concat([align_calls(calls, events), events])
    if own is not None and len(own):
        own, events = fit_spans(own, events)
        if is_kind(own, Kind.STEP).any():
            events = _steps_to_regions(events)
        events = _concat([own, events])
    if counters is not None:
        events = _concat([events, counters])
    context = _CycleContext(cycle, 0 if rank is None else rank, host)
    events = assign_modules(mark_recomputed_calls(context.complete(events)), waited=waited)
    backward = backward_spans(events)
    # Backward spans come first, so that they enclose events of the same length
    return context.complete(_concat([backward, events])) if len(backward) else events


@dataclass(frozen=True)
class _CycleContext:
    """Cycle, and rank and host of events without one."""

    cycle: int
    rank: int
    host: str | None

    def complete(self, events: EventTable) -> EventTable:
        """Fill in cycle, rank, host and step, and nest the events."""
        events = with_column(events, "cycle", repeated_number(self.cycle, pa.int32(), len(events)))
        events = _fill(events, "rank", self.rank)
        if self.host is not None:
            events = _fill(events, "host", self.host)
        return nest(_assign_steps(events))


def _concat(tables: Sequence[EventTable]) -> EventTable:
    filled = [table.replace_schema_metadata(None) for table in tables if len(table)]
    if len(filled) < 2:
        return filled[0] if filled else empty_table()
    return pa.concat_tables(filled).unify_dictionaries().combine_chunks()


def _steps_to_regions(events: EventTable) -> EventTable:
    steps = is_kind(events, Kind.STEP)
    if not steps.any():
        return events
    kinds = pc.if_else(pa.array(steps), Kind.REGION.value, events.column("kind").cast(pa.string()))
    return with_column(events, "kind", kinds.combine_chunks().dictionary_encode())


def _assign_steps(events: EventTable) -> EventTable:
    rows = np.flatnonzero(is_kind(events, Kind.STEP))
    if not len(rows):
        return events
    start, duration = int_column(events, "start_ns"), int_column(events, "duration_ns")
    rows = rows[np.argsort(start[rows], kind="stable")]
    numbers = int_column(events, "step")[rows]
    slot = np.searchsorted(start[rows], start, side="right") - 1
    inside = (slot >= 0) & (start < (start + duration)[rows][slot])
    inside[rows] = True
    slot[rows] = np.arange(len(rows))
    step = assign_device_steps(events, np.where(inside, numbers[slot], -1))
    return with_column(events, "step", number_array(step, missing=step < 0))


def _fill(events: EventTable, name: str, value: int | str) -> EventTable:
    column = events.column(name)
    if not column.null_count:
        return events
    if column.null_count == len(events):
        is_text = pa.types.is_dictionary(column.type)
        whole = (
            repeated_text(str(value), len(events)) if is_text else repeated_number(int(value), column.type, len(events))
        )
        return with_column(events, name, whole)
    if not pa.types.is_dictionary(column.type):
        return with_column(events, name, column.fill_null(pa.scalar(value, column.type)))
    return with_column(events, name, column.cast(pa.string()).fill_null(value).combine_chunks().dictionary_encode())
