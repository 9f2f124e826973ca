"""For authors of backends and of tests: a fake backend, a fake clock, trace builders and the conformance suite."""

from __future__ import annotations

from unified_profiler.testing.builders import TraceBuilder
from unified_profiler.testing.fakes import FakeBackend, FakeClock, FakeRecorder

__all__ = ["FakeBackend", "FakeClock", "FakeRecorder", "TraceBuilder"]
