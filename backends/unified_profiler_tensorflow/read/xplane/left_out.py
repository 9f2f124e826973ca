"""What of an XPlane file does not become a part of an event, and why."""

from __future__ import annotations

from unified_profiler.spi.xplane.stats import FLOW_STATS

RUNNING_NUMBERS = frozenset({"parent_id", "element_id", "step_id", "run_id", "addr", "group_id", "_r", "_a"})
"""Numbers of iterators, elements, executions and addresses; marks for the grouping by TensorFlow's own tools."""

LEFT_OUT = FLOW_STATS | RUNNING_NUMBERS
"""Stats that differ in almost every row and mean nothing outside the file."""

OWN_ID = "id"
"""A running number, too, where TensorFlow says it; a user's own annotation may say what it likes."""

_WITH_ID = LEFT_OUT | {OWN_ID}


def left_out(event_name: str) -> frozenset[str]:
    """Return which stats of events of that name are left out."""
    return _WITH_ID if _is_tensorflows(event_name) else LEFT_OUT


def _is_tensorflows(event_name: str) -> bool:
    return "::" in event_name or event_name.startswith(("Executor", "FunctionRun", "Memory"))
