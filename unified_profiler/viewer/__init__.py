"""Shows timelines in the Perfetto UI, offline: locates the UI and serves it with a trace."""

from __future__ import annotations

from unified_profiler.viewer.perfetto import find_ui
from unified_profiler.viewer.server import TimelineServer
from unified_profiler.viewer.timeline import Timeline, first_step, showing

__all__ = ["Timeline", "TimelineServer", "find_ui", "first_step", "showing"]
