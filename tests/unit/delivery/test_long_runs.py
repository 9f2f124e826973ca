"""What a training of many steps and cycles costs: as much at its end as at its beginning."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import unified_profiler as up
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.steps import StepLog
from unified_profiler.schedule import Phase
from unified_profiler.testing import FakeBackend, FakeClock


def train(prof: up.Profiler, backend: FakeBackend, steps: int) -> None:
    for step in range(steps):
        backend.op(f"fake::op{step % 3}")
        prof.step()


def recording(backend: FakeBackend, folder: Path) -> up.Profiler:
    plan = up.schedule(wait=3, warmup=0, active=2)
    return up.Profiler(schedule=plan, hardware_hz=0, output_dir=folder, backend=backend, clock=backend.clock)


def test_the_manifest_is_as_large_after_many_cycles_as_after_a_few(tmp_path: Path) -> None:
    backend, sizes = FakeBackend(), []
    with recording(backend, tmp_path) as prof:
        for _ in range(2):
            train(prof, backend, 100)
            (manifest,) = tmp_path.glob("*/rank-00000/manifest.json")
            sizes.append(manifest.stat().st_size)
    assert sizes[1] - sizes[0] <= len("100")


def test_each_cycle_writes_only_the_steps_since_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, rows = FakeBackend(), []
    to_table = StepLog.to_table

    def counted(log: StepLog, rank: int, *, since: int = 0) -> object:
        table = to_table(log, rank, since=since)
        rows.append(len(table))
        return table

    monkeypatch.setattr(StepLog, "to_table", counted)
    with recording(backend, tmp_path) as prof:
        train(prof, backend, 100)
    assert rows == [0, *[5] * 20, 0]
    steps = up.read(tmp_path).steps
    assert steps is not None
    assert steps.equals(prof.run.steps)


def test_a_run_that_is_read_back_knows_its_overhead_and_its_cycles(tmp_path: Path) -> None:
    backend = FakeBackend()
    with recording(backend, tmp_path) as prof:
        train(prof, backend, 20)
    manifest, read = prof.run.manifests[0], up.read(tmp_path).manifests[0]
    assert manifest.overhead.ratio is not None
    assert (read.overhead, read.cycles) == (manifest.overhead, manifest.cycles)
    assert [cycle.info.cycle for cycle in read.cycles] == [0, 1, 2, 3]


def test_steps_that_could_not_be_written_are_written_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = FakeBackend()
    with recording(backend, tmp_path) as prof:
        train(prof, backend, 10)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", _full)
            train(prof, backend, 5)
        assert prof.failures
        train(prof, backend, 10)
    steps = up.read(tmp_path).steps
    assert steps is not None
    assert steps.column("step").to_pylist() == list(range(25))


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_starting_again_and_again_adds_no_handler_to_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[Callable[[], None]] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **handlers: added.append(handlers["after_in_child"]))
    prof = up.Profiler(level=1, hardware_hz=0)
    for _ in range(3):
        prof.start()
        prof.step()
        prof.stop()
    assert not added


def test_a_failure_that_repeats_is_kept_once_with_its_count() -> None:
    prof = up.Profiler(schedule=lambda step: "nonsense", hardware_hz=0, level=1)  # type: ignore[arg-type,return-value]
    with prof:
        for _ in range(1000):
            prof.step()
    (failure,) = prof.failures
    assert (failure.source, failure.count) == ("schedule", 1001)


def test_failures_that_all_differ_are_bounded_and_the_rest_is_counted() -> None:
    faults = FaultLog(strict=False)
    for number in range(500):
        faults.report("schedule", "tell the phase", ValueError(f"step {number}"))
    assert len(faults.failures) == 101
    assert sum(failure.count for failure in faults.failures) == 500


def test_a_repeated_failure_is_told_apart_by_its_cycle() -> None:
    faults = FaultLog(strict=False)
    for cycle in (0, 0, 1):
        faults.report("torch", "start", ValueError("busy"), cycle=cycle)
    assert [(failure.cycle, failure.count) for failure in faults.failures] == [(0, 2), (1, 1)]


def test_a_failure_whose_text_cannot_be_had_is_kept() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    faults = FaultLog(strict=False)
    faults.report("handler", "call", MuteError())
    assert faults.failures[0].error.startswith("MuteError: ")


def test_steps_since_any_of_them_are_those_of_the_whole_table() -> None:
    log, clock = StepLog(), FakeClock()
    for step in range(12):
        if step % 4 == 0:
            log.begin(clock(), list(Phase)[step // 4])
        log.ends.append(clock())
    whole = log.to_table(0).to_pylist()
    assert [row["phase"] for row in whole[::4]] == ["idle", "warmup", "record"]
    for since in range(13):
        assert log.to_table(0, since=since).to_pylist() == whole[since:]


KILLED = """
import os, signal, sys
import unified_profiler as up
from unified_profiler.model import storage
from unified_profiler.testing import FakeBackend
backend = FakeBackend()
prof = up.Profiler(hardware_hz=0, backend=backend, output_dir=sys.argv[1] if len(sys.argv) > 1 else None)
if len(sys.argv) > 1:
    def die(*args, **kwargs):
        open(args[1], "wb").write(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    storage.pq.write_table = die
prof.start()
backend.op("fake::op")
prof.step()
if len(sys.argv) > 1:
    prof.stop()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_whose_process_died_in_its_first_cycle_is_read(tmp_path: Path) -> None:
    killed(tmp_path, str(tmp_path / "runs"))
    (steps,) = tmp_path.glob("runs/*/rank-00000/steps.arrow")
    content = steps.read_bytes()
    for cut in (len(content), 5, 0):
        steps.write_bytes(content[:cut])
        run = up.read(tmp_path / "runs")
        assert run.steps is not None
        assert (len(run.traces), len(run.steps)) == (0, 0)


def killed(temporary: Path, *arguments: str) -> None:
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], env=environment)
    assert done.returncode < 0


def test_files_that_a_killed_process_was_writing_are_removed_by_the_next_run(tmp_path: Path) -> None:
    killed(tmp_path, str(tmp_path / "runs"))
    assert list(tmp_path.glob("runs/*/rank-00000/.*.part"))
    backend = FakeBackend()
    with recording(backend, tmp_path / "runs") as prof:
        train(prof, backend, 5)
    assert not list(tmp_path.glob("runs/*/rank-00000/.*.part"))


@pytest.mark.parametrize("linked", [False, True])
def test_files_of_pending_cycles_are_removed_too_but_none_beyond_a_link(linked: bool, tmp_path: Path) -> None:
    rank = tmp_path / "runs" / "earlier" / "rank-00000"
    rank.mkdir(parents=True)
    pending = tmp_path / "elsewhere" if linked else rank / "pending"
    part = pending / "cycle-00004" / ".cycle.json.00000000.unified_profiler.part"
    part.parent.mkdir(parents=True)
    part.touch()
    if linked:
        (rank / "pending").symlink_to(pending, target_is_directory=True)
    with recording(FakeBackend(), tmp_path / "runs"):
        pass
    assert part.exists() == linked


def test_temporary_directories_of_a_killed_process_are_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(tmp_path)
    assert list(tmp_path.glob("unified-profiler-*"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    backend = FakeBackend()
    with up.Profiler(hardware_hz=0, backend=backend) as prof:
        (mine,) = tmp_path.glob("unified-profiler-*")
        assert mine.stat().st_mode & 0o077 == 0
        train(prof, backend, 2)
    assert not list(tmp_path.glob("unified-profiler-*"))


def test_temporary_directories_of_a_living_process_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    backends = FakeBackend(), FakeBackend(name="other")
    first, second = (up.Profiler(hardware_hz=0, backend=backend) for backend in backends)
    with first, second:
        assert len(list(tmp_path.glob("unified-profiler-*"))) == 2
        train(first, backends[0], 2)
    assert [failure.error for failure in (*first.failures, *second.failures)] == []
