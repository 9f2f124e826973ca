"""The Profiler that all modules of a program share."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import unified_profiler as up
from unified_profiler import process_wide
from unified_profiler.errors import ArgumentError, UsageError
from unified_profiler.testing import FakeBackend


@pytest.fixture(autouse=True)
def none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_wide, "_default", [])


def test_every_call_returns_the_same_profiler(tmp_path: Path) -> None:
    backend = FakeBackend()
    first = up.default_profiler(output_dir=tmp_path, backend=backend, clock=backend.clock)
    with up.default_profiler():
        with up.default_profiler().region("data"):
            backend.op("fake::add")
        up.default_profiler().step()
    assert up.default_profiler() is first
    assert [path.name for path in tmp_path.rglob("*.parquet")] == ["cycle-00000.parquet"]


def test_threads_get_the_same_profiler() -> None:
    together, given = threading.Barrier(8), []

    def ask() -> None:
        together.wait()
        given.append(up.default_profiler())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(given)) == 1


def test_options_of_a_later_call_are_refused() -> None:
    up.default_profiler()
    with pytest.raises(UsageError, match="exists already, so level, strict would have no effect"):
        up.default_profiler(strict=True, level=1)


def test_wrong_options_make_no_profiler() -> None:
    with pytest.raises(ArgumentError, match="output_dir"):
        up.default_profiler(output_dirs="profile")
    assert up.default_profiler(level=1).level == 1


def test_it_is_switched_off_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIFIED_PROFILER_LEVEL", "0")
    with up.default_profiler() as prof:
        prof.step()
    assert not prof.traces
