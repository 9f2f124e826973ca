"""An interruption (Ctrl-C) may come at any line of the profiler: here at every few lines of the end of a cycle."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import pytest

import unified_profiler as up
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.own_threads import OwnThread
from unified_profiler.testing import FakeBackend

PACKAGE = str(Path(up.__file__).parent)
STRIDE = 11


@contextmanager
def interrupted_at(line: int) -> Iterator[list[str]]:
    """Raise KeyboardInterrupt at the given line of the package that the block executes, and give the lines so far."""
    lines: list[str] = []

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE) or "testing" in file:
            return None
        if event == "line":
            lines.append(f"{file}:{frame.f_lineno}")
            if len(lines) == line:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def train(output_dir: Path, deliver: Literal["immediate", "deferred"], *, line: int) -> list[str]:
    """Train for two cycles and interrupt the call that ends the second; return the lines that it executed."""
    backend, plan = FakeBackend(), up.schedule(wait=1, warmup=1, active=2)
    with up.Profiler(backend=backend, schedule=plan, output_dir=output_dir, deliver=deliver) as prof:
        for _ in range(7):
            backend.op("op")
            prof.step()
        backend.op("op")
        with interrupted_at(line) as lines:
            prof.step()
    return lines


# An interruption between the end of a `with open(...)` block and the call that closes the file leaves that to Python.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("deliver", ["immediate", "deferred"])
def test_an_interruption_at_the_end_of_a_cycle_loses_no_steps_and_breaks_no_run(
    deliver: Literal["immediate", "deferred"], tmp_path: Path
) -> None:
    for line in count(1, STRIDE):
        output_dir = tmp_path / str(line)
        try:
            executed = len(train(output_dir, deliver, line=line))
        except KeyboardInterrupt:
            check_interrupted(up.read(output_dir), line)
        else:
            break
    assert executed < line, "the interruption was swallowed"
    assert executed > 100 * STRIDE


def check_interrupted(run: up.Run, line: int) -> None:
    assert run.steps is not None
    assert len(run.steps) >= 7, line
    assert [trace.info.cycle for trace in run.traces][:1] == [0], line
    assert [failure for manifest in run.manifests.values() for failure in manifest.failures] == [], line


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_that_code_replaces_by_an_error_goes_on(interruption: type[BaseException]) -> None:
    def replace_it() -> None:
        try:
            raise interruption
        finally:
            os.close(-1)

    faults = FaultLog(strict=False)
    with pytest.raises(interruption), faults.guard("output", "write"):
        replace_it()
    assert faults.failures == []


def test_an_error_while_the_program_handles_an_interruption_is_a_failure() -> None:
    faults = FaultLog(strict=False)
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with faults.guard("output", "write"):
            os.close(-1)
    assert [failure.action for failure in faults.failures] == ["write"]


def test_waiting_for_a_thread_that_was_interrupted_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        """A lock that was acquired when the interruption came, so that nobody releases it."""

        def acquire(self, timeout: float = -1) -> bool:
            may_end.set()
            lock.acquire(timeout=timeout)
            raise KeyboardInterrupt

        def release(self) -> None:
            lock.release()

    may_end = threading.Event()
    thread = OwnThread(lambda: (may_end.wait(), None)[1])
    thread.start()
    lock = thread._running
    monkeypatch.setattr(thread, "_running", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        thread.join(10)
    monkeypatch.setattr(thread, "_running", lock)
    assert thread.join(0.01)
