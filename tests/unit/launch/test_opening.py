"""The opening window: what it records with, and what its time is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from unified_profiler.launch.interruption import Interruption
from unified_profiler.launch.launched_profiler import LaunchedProfiler
from unified_profiler.launch.launcher import LaunchOptions, _opening_profiler
from unified_profiler.launch.opening import OpeningWindow, record_always
from unified_profiler.testing import FakeBackend


class Clock(Interruption):  # type: ignore[misc]
    """Rings when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.later: Callable[[], None] | None = None

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        assert seconds <= 0.5
        self.later = function

    def cancel(self) -> None:
        self.later = None

    def ring(self, times: int) -> None:
        """Let as many half seconds pass."""
        for _ in range(times):
            if self.later is not None:
                self.later()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def opening(clock: Clock, backend: FakeBackend) -> OpeningWindow:
    return opened(clock, backend)


def opened(clock: Clock, backend: FakeBackend, signaled: Callable[[], bool] = lambda: False) -> OpeningWindow:
    def make(folder: Path) -> LaunchedProfiler:
        return LaunchedProfiler(backend=backend, clock=backend.clock, schedule=record_always, output_dir=folder)

    window = OpeningWindow(make, limit_seconds=10, interruption=clock, signaled=signaled)
    window.start()
    return window


def test_it_ends_after_its_time(clock: Clock, opening: OpeningWindow, backend: FakeBackend) -> None:
    backend.op("op")
    clock.ring(19)
    assert opening.running
    clock.ring(1)
    assert not opening.running
    assert opening.limited
    opening.remove()


def test_imports_take_none_of_its_time(
    clock: Clock, opening: OpeningWindow, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.op("op")
    source = ModuleType("made_up_clock")
    source.__dict__["ring"] = clock.ring
    monkeypatch.setitem(sys.modules, "made_up_clock", source)
    (tmp_path / "made_up_slow_import.py").write_text("import made_up_clock\nmade_up_clock.ring(60)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import made_up_slow_import  # type: ignore[import-not-found]  # noqa: F401

    clock.ring(19)
    assert opening.running
    clock.ring(1)
    assert not opening.running
    opening.remove()


def test_its_time_begins_anew_while_no_operator_has_run(
    clock: Clock, opening: OpeningWindow, backend: FakeBackend
) -> None:
    clock.ring(50)
    assert opening.running
    backend.op("late")
    clock.ring(10)
    assert (opening.running, opening.limited) == (False, True)
    assert opening.trace is not None
    assert "late" in opening.trace.events["name"].to_pylist()
    opening.remove()


def test_it_leaves_no_folder_of_the_windows_without_operators(
    clock: Clock, backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    opening = opened(clock, backend)
    clock.ring(50)
    assert len(list(tmp_path.glob("unified-profiler-opening-*"))) == 1
    opening.stop()
    opening.remove()
    assert not list(tmp_path.iterdir())


def test_a_service_that_waits_for_work_is_not_recorded_for_ever(clock: Clock, opening: OpeningWindow) -> None:
    clock.ring(20 * 60)
    assert opening.running
    clock.ring(20)
    assert (opening.running, opening.limited) == (False, True)
    opening.remove()


def test_what_a_signal_shows_is_not_read_from_the_recording(clock: Clock, backend: FakeBackend) -> None:
    opening = opened(clock, backend, signaled=lambda: True)
    clock.ring(20)
    assert (opening.running, opening.limited) == (False, True)
    opening.remove()


def test_a_window_that_failed_is_not_tried_again(clock: Clock) -> None:
    opening = opened(clock, FakeBackend(fails_at=frozenset({"start"})))
    clock.ring(20)
    assert (opening.running, opening.limited) == (False, True)
    assert len(opening.failures) == 1
    opening.remove()


def test_a_step_ends_it_before_its_time(clock: Clock, opening: OpeningWindow) -> None:
    opening.end_step()
    assert (opening.running, opening.limited, clock.later) == (False, False, None)
    opening.remove()


def test_it_records_operators_only_whatever_the_options_are(tmp_path: Path) -> None:
    names = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "keep_native", "strict")
    asked = LaunchOptions(profiler={**dict.fromkeys(names, True), "api": True, "deliver": "immediate"})
    settings = _opening_profiler(asked, tmp_path).settings
    assert not any(getattr(settings, name) for name in names)
    assert (settings.api, settings.deliver, settings.operators) == (None, "deferred", True)
