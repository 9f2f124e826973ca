"""Reads traced calls from a Profiler."""

from __future__ import annotations

from typing import Any

from unified_profiler.profiler import Profiler


def recorded_calls(profiler: Profiler, kind: str = "api_call") -> list[dict[str, Any]]:
    """Return the events of a kind from all traces of a profiler, ordered by start."""
    rows = [row for trace in profiler.traces for row in trace.events.to_pylist() if row["kind"] == kind]
    return sorted(rows, key=lambda row: (row["start_ns"], -row["duration_ns"]))
