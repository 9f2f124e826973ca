"""Builds traces for tests, event by event."""

from __future__ import annotations

from typing import Any

from unified_profiler.model.assembly import assemble
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Kind, Layer, event_table
from unified_profiler.model.trace import Trace

_DEFAULTS = {"layer": Layer.FRAMEWORK.value, "kind": Kind.OP.value, "framework": "fake", "pid": 1, "tid": 1}


class TraceBuilder:
    """Collects events and builds a nested Trace.

    Example:
        >>> trace = TraceBuilder().op("outer", 0, 100).op("inner", 10, 20).build()
        >>> trace.events.column("self_ns").to_pylist()
        [80, 20]
    """

    def __init__(self, **info: Any) -> None:
        self._info = info
        self._rows: list[dict[str, Any]] = []

    def op(self, name: str, start_ns: int, duration_ns: int, **columns: Any) -> TraceBuilder:
        """Add an operator; `columns` adds columns of the schema or overrides the defaults."""
        self._rows.append({**_DEFAULTS, "name": name, "start_ns": start_ns, "duration_ns": duration_ns, **columns})
        return self

    def step(self, number: int, start_ns: int, duration_ns: int) -> TraceBuilder:
        """Add a step."""
        return self._application(f"step {number}", start_ns, duration_ns, kind=Kind.STEP.value, step=number)

    def region(self, name: str, start_ns: int, duration_ns: int, **columns: Any) -> TraceBuilder:
        """Add a region."""
        return self._application(name, start_ns, duration_ns, kind=Kind.REGION.value, **columns)

    def build(self) -> Trace:
        """Return the trace."""
        names = [name for name in EVENT_SCHEMA.names if any(name in row for row in self._rows)]
        columns = {name: [row.get(name) for row in self._rows] for name in names}
        info = TraceInfo(**self._info)
        table = event_table(columns, rows=len(self._rows))
        events = assemble([table], cycle=info.cycle, rank=info.rank, host=info.host or "host")
        return Trace(events, info.model_copy(update={"event_count": len(events)}))

    def _application(self, name: str, start_ns: int, duration_ns: int, **columns: Any) -> TraceBuilder:
        return self.op(name, start_ns, duration_ns, layer=Layer.APPLICATION.value, framework=None, **columns)


def timed_events(*rows: tuple[str, str, int, int], **columns: Any) -> EventTable:
    """Build a table of events from name, kind, start and end of each; other columns are lists, or apply to all."""
    return event_table(
        {
            "name": [name for name, _, _, _ in rows],
            "kind": [kind for _, kind, _, _ in rows],
            "start_ns": [start for _, _, start, _ in rows],
            "duration_ns": [end - start for _, _, start, end in rows],
            "pid": 1,
            "tid": 1,
            "layer": "framework",
            **columns,
        },
        rows=len(rows),
    )
