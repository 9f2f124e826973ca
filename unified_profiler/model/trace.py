"""Trace: the immutable events of one recorded cycle of one rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from unified_profiler.model.clocks import RankClock
from unified_profiler.model.nesting import int_column, with_column
from unified_profiler.model.notebook import traces_html
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable
from unified_profiler.model.table_values import TableValues

_whole: TableValues[EventTable] = TableValues()
"""The events of a trace in memory, by tables of some of their columns."""


def selected_from(columns: EventTable) -> EventTable:
    """Return the table of all events whose columns these are; the table itself if it is not from a trace in memory."""
    whole = _whole.get(columns)
    return columns if whole is None else whole


class Trace:
    """Events and their description. The events of a trace on disk are read at first use.

    Attributes:
        info: A `TraceInfo` record.
        file: The Parquet file with the events, a path or a URL; None for a trace in memory.
        clock: The correction applied to times when they are read from the file, if any.
    """

    __slots__ = ("_events", "_load", "clock", "file", "info")

    def __init__(
        self,
        events: EventTable | Callable[[Sequence[str]], EventTable],
        info: TraceInfo,
        *,
        file: Path | str | None = None,
        clock: RankClock | None = None,
    ) -> None:
        """Create a trace from a table, or from a function that reads the named columns later."""
        self.info = info
        self.file = file
        self.clock = clock
        self._load = events if callable(events) else None
        self._events = None if callable(events) else events

    @property
    def events(self) -> EventTable:
        """The events, a `pyarrow.Table` in the event schema."""
        if self._events is None:
            self._events = self._read(EVENT_SCHEMA.names)
        return self._events

    @property
    def unread_file(self) -> Path | str | None:
        """The file, as long as its events are not in memory."""
        return self.file if self._events is None else None

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return some columns of the events; a trace on disk reads only these and does not cache them."""
        if self._events is None and self._load is not None:
            return self._read(names)
        selected = self.events.select(names)
        _whole.set(selected, self.events)
        return selected

    def by_clock(self, clock: RankClock) -> Trace:
        """Return the trace with corrected times; those of events are corrected when read."""
        start, end = clock.corrected(np.array([self.info.start_ns, self.info.end_ns])).tolist()
        info = self.info.model_copy(update={"start_ns": start, "end_ns": end})
        return Trace(self.columns, info, file=self.file, clock=clock)

    def _read(self, names: Sequence[str]) -> pa.Table:
        assert self._load is not None  # noqa: S101  the constructor sets one or the other
        table = self._load(names)
        if self.clock is None or "start_ns" not in names:
            return table
        return with_column(table, "start_ns", self.clock.corrected(int_column(table, "start_ns")))

    def __len__(self) -> int:
        """Return the number of events."""
        return self.info.event_count

    def __repr__(self) -> str:
        """Return a one-line summary."""
        info = self.info
        steps = "" if info.first_step is None else f", steps {info.first_step}-{info.last_step}"
        names = ", ".join(sorted(info.frameworks)) or "no framework"
        partial = "" if info.complete else ", incomplete"
        return f"<Trace rank {info.rank} cycle {info.cycle}: {info.event_count} events of {names}{steps}{partial}>"

    def _repr_html_(self) -> str:
        """Return an HTML summary for notebooks, without reading the events."""
        return traces_html("Trace", [self.info])
