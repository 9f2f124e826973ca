"""Lists the stats of XPlane events that do not become attributes of events, and why."""

from __future__ import annotations

from unified_profiler.spi.xplane.stats import FLOW_STATS

IGNORED_STATS = FLOW_STATS | {"parent_id", "element_id", "step_id", "run_id", "addr", "group_id", "_r", "_a"}
"""Ids of flows, iterators, elements and executions, addresses, and marks for TensorFlow's own tools: they differ in
almost every event and mean nothing outside the file."""

_WITH_ID = IGNORED_STATS | {"id"}
"""TensorFlow's own events number themselves by `id`; annotations of users may use the name for anything."""


def ignored_stats(event_name: str) -> frozenset[str]:
    """Return the names of the stats to leave out of events of a name."""
    is_native = "::" in event_name or event_name.startswith(("Executor", "FunctionRun", "Memory"))
    return _WITH_ID if is_native else IGNORED_STATS
