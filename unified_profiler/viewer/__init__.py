"""Timelines in the real Perfetto UI, offline: where the UI is, and the server that shows a trace in it."""

from __future__ import annotations

from unified_profiler.viewer.perfetto import find_ui
from unified_profiler.viewer.server import TimelineServer
from unified_profiler.viewer.timeline import Timeline, first_step, showing

__all__ = ["Timeline", "TimelineServer", "find_ui", "first_step", "showing"]
