from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import unified_profiler as up
from unified_profiler import registry
from unified_profiler.launch.interruption import Interruption
from unified_profiler.launch.windows import OpeningWindow, Windows, record_always
from unified_profiler.testing import FakeBackend

Deliver = Literal["immediate", "deferred"]
PLAN = up.schedule(wait=3, warmup=1, active=2, repeat=1)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


def windows(
    backend: FakeBackend, *, limit_seconds: float = 100, deliver: Deliver = "immediate"
) -> tuple[Windows, up.Profiler, OpeningWindow]:
    def opening(folder: Path) -> up.Profiler:
        return up.Profiler(
            backend=backend, clock=backend.clock, schedule=record_always, output_dir=folder, deliver=deliver
        )

    profiler = up.Profiler(backend=backend, clock=backend.clock, schedule=PLAN, deliver=deliver)
    window = OpeningWindow(opening, limit_seconds=limit_seconds, interruption=Interruption())
    return Windows(profiler, PLAN, window), profiler, window


def phases(profiler: up.Profiler) -> list[str]:
    assert profiler.run.steps is not None
    names: list[str] = profiler.run.steps.column("phase").to_pylist()
    return names


def test_steps_of_the_opening_do_not_count_as_unrecorded(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend)
    for _ in range(8):
        both.step()
    both.finish()
    assert phases(profiler) == ["warmup"] * 4 + ["record"] * 2 + ["idle"] * 2


def test_after_the_opening_ended_by_itself_steps_are_unrecorded(backend: FakeBackend) -> None:
    both, profiler, opening = windows(backend)
    both.step()
    opening.stop()
    for _ in range(3):
        both.step()
    both.finish()
    assert phases(profiler) == ["warmup", "warmup", "idle", "warmup"]


def test_without_an_opening_phases_are_those_of_the_plan(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend, limit_seconds=0)
    for _ in range(7):
        both.step()
    both.finish()
    assert phases(profiler) == ["idle"] * 3 + ["warmup"] + ["record"] * 2 + ["idle"]


def test_a_deferred_opening_that_is_not_needed_is_never_normalised(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend, deliver="deferred")
    for _ in range(8):
        both.step()
    assert "normalise" not in backend.calls
    assert not both.finish()
    assert backend.calls.count("normalise") == len(profiler.traces) == 1


def test_a_deferred_opening_that_stands_in_is_finished(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "get", {"fake": backend}.__getitem__)
    both, profiler, opening = windows(backend, deliver="deferred")
    both.begin()
    backend.op("fake::op")
    both.step()
    assert both.finish()
    assert "fake::op" in profiler.traces[0].events.column("name").to_pylist()
    assert not opening.failures
