"""Test support for authors of backends: a fake backend, a fake clock, trace builders and the conformance suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unified_profiler.testing.builders import TraceBuilder, timed_events
from unified_profiler.testing.calls import recorded_calls
from unified_profiler.testing.divergences import Divergence, never, notimpl, notyet
from unified_profiler.testing.fake_api import FakeSurface
from unified_profiler.testing.fakes import FakeBackend, FakeClock, FakeRecorder

if TYPE_CHECKING:
    from unified_profiler.testing.conformance import BackendConformance

__all__ = [
    "BackendConformance",
    "Divergence",
    "FakeBackend",
    "FakeClock",
    "FakeRecorder",
    "FakeSurface",
    "TraceBuilder",
    "never",
    "notimpl",
    "notyet",
    "recorded_calls",
    "timed_events",
]


def __getattr__(name: str) -> object:
    """Load the conformance suite on first access, since it needs pytest and the fakes do not."""
    if name == "BackendConformance":
        from unified_profiler.testing.conformance import BackendConformance

        return BackendConformance
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
