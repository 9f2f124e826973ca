from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler import registry
from unified_profiler.model.trace import Trace
from unified_profiler.spi import NativeCapture
from unified_profiler.testing import FakeBackend
from unified_profiler.testing.fakes import FakeError, FakeRecorder

TWO_CYCLES = up.schedule(wait=1, warmup=0, active=2, repeat=2)


def profiler(backend: FakeBackend, **options: Any) -> up.Profiler:
    given = {"schedule": TWO_CYCLES, "deliver": "deferred", "hardware_hz": 0, **options}
    return up.Profiler(backend=backend, clock=backend.clock, **given)


def loop(prof: up.Profiler, backend: FakeBackend, steps: int = 6) -> None:
    for step in range(steps):
        with prof.region("work", meta={"step": step}):
            backend.op(f"fake::op{step}")
        prof.step()


def delivered(**options: Any) -> up.Profiler:
    backend = options.pop("backend", None) or FakeBackend()
    with profiler(backend, **options) as prof:
        loop(prof, backend)
    return prof


def said(trace: Trace) -> tuple[Any, ...]:
    return trace.events.to_pylist(), trace.info.model_copy(update={"run": ""})


def pending(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/rank-00000/pending/cycle-*"))


@pytest.mark.parametrize("on_disk", [True, False])
def test_deferred_traces_are_those_of_immediate_delivery(on_disk: bool, tmp_path: Path) -> None:
    runs = {
        how: delivered(deliver=how, strict=True, output_dir=tmp_path / how if on_disk else None)
        for how in ("immediate", "deferred")
    }
    assert len(runs["deferred"].traces) == 2
    assert list(map(said, runs["deferred"].traces)) == list(map(said, runs["immediate"].traces))
    assert not pending(tmp_path / "deferred")


def test_nothing_is_normalized_and_no_handler_called_before_stop(tmp_path: Path) -> None:
    backend, ready = FakeBackend(), list[Trace]()
    prof = profiler(backend, output_dir=tmp_path, on_trace_ready=ready.append)
    prof.start()
    loop(prof, backend)
    assert "normalize" not in backend.calls
    assert (prof.traces, ready) == ((), [])
    assert [folder.name for folder in pending(tmp_path)] == ["cycle-00000", "cycle-00001"]
    prof.stop()
    assert [trace.info.cycle for trace in ready] == [trace.info.cycle for trace in prof.traces] == [0, 1]
    assert {path.name for path in tmp_path.glob("*/rank-00000/*")} == {
        "manifest.json", "steps.arrow", "cycles.jsonl", "cycle-00000.parquet", "cycle-00001.parquet",
    }  # fmt: skip


def test_one_cycle_is_finished_after_the_other() -> None:
    backend, calls = FakeBackend(), list[list[str]]()
    prof = profiler(backend, on_trace_ready=lambda _: calls.append(list(backend.calls)))
    with prof:
        loop(prof, backend)
    assert [verbs.count("normalize") for verbs in calls] == [1, 2]


def test_native_files_that_are_to_be_kept_are_where_they_always_are(tmp_path: Path) -> None:
    found = {}
    for how in ("immediate", "deferred"):
        folder = delivered(deliver=how, output_dir=tmp_path / how, keep_native=True, strict=True).run.path or Path()
        found[how] = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found["deferred"] == found["immediate"]
    assert "rank-00000/native/cycle-00001/fake/fake.json" in found["deferred"]


def test_without_a_run_directory_there_is_nothing_to_be_left_to_readers() -> None:
    backend = FakeBackend()
    prof = profiler(backend, strict=True)
    prof.start()
    loop(prof, backend)
    prof.stop(finish=False)
    assert len(prof.traces) == 2


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_capture_that_cannot_be_read_is_a_failure_and_its_files_are_kept(on_disk: bool, tmp_path: Path) -> None:
    backend = FakeBackend(fails_at=frozenset({"normalize"}))
    prof = delivered(backend=backend, output_dir=tmp_path if on_disk else None)
    assert [(one.action, one.cycle) for one in prof.failures] == [("normalize", 0), ("normalize", 1)]
    assert all(Path(one.kept or "", "fake.json").is_file() for one in prof.failures)
    assert len(prof.traces) == 2
    assert not pending(tmp_path)
    if on_disk:
        assert all("rank-00000/native/cycle-" in (one.kept or "") for one in prof.failures)


def test_temporary_files_do_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    delivered(strict=True)
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_of_a_profiler_that_is_never_stopped_do_not_stay(tmp_path: Path) -> None:
    code = (
        "import os, tempfile, unified_profiler as up\n"
        "prof = up.Profiler(level=1, deliver='deferred', schedule=up.schedule(wait=0, warmup=0, active=1))\n"
        "prof.start()\nprof.step()\nprof.step()\nassert os.listdir(tempfile.gettempdir())\n"
        "if not os.fork():\n    raise SystemExit\nos.wait()\nassert os.listdir(tempfile.gettempdir())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


FORKS = """
import os, signal, sys
import unified_profiler as up

plan = up.schedule(wait=0, warmup=0, active=1)
prof = up.Profiler(level=1, deliver="deferred", schedule=plan, output_dir=sys.argv[1])
prof.start()
prof.step()
if not os.fork():
    print("the child is there", flush=True)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_child_that_lives_on_does_not_keep_the_run_from_being_finished(tmp_path: Path) -> None:
    command, pipe = [sys.executable, "-c", FORKS, str(tmp_path)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        process.wait()
        assert process.stdout is not None
        assert process.stdout.readline() == b"the child is there\n"
        assert len(up.read(tmp_path).traces) == 1
        assert process.stdin is not None
        process.stdin.close()


def test_what_cannot_be_written_down_is_delivered_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stop = FakeRecorder.stop

    def with_an_object(self: FakeRecorder) -> NativeCapture:
        capture = stop(self)
        return NativeCapture(backend="fake", files=capture.files, details={**capture.details, "an object": object()})

    monkeypatch.setattr(FakeRecorder, "stop", with_an_object)
    backend = FakeBackend()
    prof = profiler(backend, output_dir=tmp_path)
    prof.start()
    loop(prof, backend)
    assert len(prof.traces) == 2
    prof.stop()
    assert [trace.info.cycle for trace in up.read(tmp_path).traces] == [0, 1]
    assert [one.action for one in prof.failures] == ["set aside", "set aside"]
    assert "plain data" in prof.failures[0].error


def test_a_strict_profiler_that_raises_in_the_loop_leaves_its_traces(tmp_path: Path) -> None:
    backend = FakeBackend()
    prof = profiler(backend, strict=True)
    prof.start()
    loop(prof, backend, 3)
    backend.fails_at = frozenset({"start"})
    with pytest.raises(FakeError):
        loop(prof, backend, 3)
    assert [trace.info.cycle for trace in prof.traces] == [0]


def test_a_profiler_that_starts_again_goes_on_in_the_same_run(tmp_path: Path) -> None:
    backend = FakeBackend()
    prof = profiler(backend, output_dir=tmp_path, strict=True)
    for _ in range(2):
        with prof:
            loop(prof, backend)
    assert [trace.info.cycle for trace in up.read(tmp_path).traces] == [0, 1, 2, 3]
    assert [trace.info.cycle for trace in prof.traces] == [0, 1, 2, 3]


def test_an_interruption_of_stop_leaves_the_rest_to_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Trace) -> None:
        raise KeyboardInterrupt

    backend = FakeBackend()
    monkeypatch.setattr(registry, "get", {"fake": backend}.__getitem__)
    prof = profiler(backend, output_dir=tmp_path, on_trace_ready=interrupt)
    prof.start()
    loop(prof, backend)
    with pytest.raises(KeyboardInterrupt) as caught:
        prof.stop()
    assert [folder.name for folder in pending(tmp_path)] == ["cycle-00000", "cycle-00001"]
    assert [trace.info.cycle for trace in up.read(tmp_path).traces] == [0, 1]
    assert caught.tb is not None, "notebooks keep what was raised, and with it all that was under way"


def test_a_long_wait_is_announced(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        delivered()
        assert "takes a while" not in caplog.text
        monkeypatch.setattr("unified_profiler.delivery.pending.LONG_BYTES", 1)
        delivered()
    assert "Making traces of 2 recorded cycles" in caplog.text
