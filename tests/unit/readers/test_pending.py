"""Runs whose process recorded cycles and made no traces of them."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler import registry
from unified_profiler.delivery.finishing import finish
from unified_profiler.delivery.pending import RECORD
from unified_profiler.delivery.run_writer import RankWriter
from unified_profiler.errors import SchemaVersionError
from unified_profiler.model.file_locks import FileLock
from unified_profiler.presentation.texts import render_hint
from unified_profiler.readers import pending as reading
from unified_profiler.testing import FakeBackend

TWO_CYCLES = up.schedule(wait=1, warmup=0, active=2, repeat=2)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """A backend that readers know, too."""
    fake = FakeBackend()
    monkeypatch.setattr(registry, "get", {"fake": fake}.__getitem__)
    return fake


def recorded(backend: FakeBackend, folder: Path, **options: Any) -> up.Profiler:
    """A profiler that has set two cycles aside and still runs."""
    given = {"schedule": TWO_CYCLES, "deliver": "deferred", "hardware_hz": 0, "output_dir": folder, **options}
    prof = up.Profiler(backend=backend, clock=backend.clock, **given)
    prof.start()
    for step in range(6):
        backend.op(f"fake::op{step}")
        prof.step()
    return prof


@pytest.fixture
def left(backend: FakeBackend, tmp_path: Path) -> Path:
    """A rank whose process has ended before it made traces."""
    recorded(backend, tmp_path / "runs").stop(finish=False)
    (rank,) = (tmp_path / "runs").glob("*/rank-00000")
    return rank


def ops(run: up.Run) -> list[list[str]]:
    rows = [trace.events.select(["name", "kind"]).to_pylist() for trace in run.traces]
    return [[row["name"] for row in table if row["kind"] == "op"] for table in rows]


BOTH = [["fake::op1", "fake::op2"], ["fake::op4", "fake::op5"]]


def test_the_first_read_makes_the_traces_and_later_ones_find_them(left: Path, backend: FakeBackend) -> None:
    assert backend.calls.count("normalize") == 0
    assert ops(up.read(left.parent)) == BOTH
    assert {path.name for path in left.iterdir()} == {
        "manifest.json", "steps.arrow", "cycles.jsonl", "cycle-00000.parquet", "cycle-00001.parquet",
    }  # fmt: skip
    again = up.read(left.parent)
    assert ops(again) == BOTH
    assert [record.file for record in again.manifests[0].cycles] == ["cycle-00000.parquet", "cycle-00001.parquet"]
    assert backend.calls.count("normalize") == 2


def test_a_directory_of_runs_a_rank_and_a_manifest_lead_there_too(left: Path) -> None:
    for path in (left.parent.parent, left, left / "manifest.json"):
        copy = left.parents[2] / "copy"
        shutil.copytree(left.parent.parent, copy / left.parent.parent.name)
        assert ops(up.read(copy / path.relative_to(left.parents[2]))) == BOTH
        shutil.rmtree(copy)


def test_cycles_of_a_process_that_runs_are_left_alone(
    backend: FakeBackend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prof = recorded(backend, tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    run = up.read(tmp_path)
    assert run.traces == ()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == files
    assert "2 cycles in" in caplog.text
    (hint,) = run.manifests[0].hints
    assert "still runs" in hint
    assert render_hint(hint, language="zh") != hint
    prof.stop()
    assert ops(up.read(tmp_path)) == BOTH


def test_a_run_that_may_only_be_read_gives_its_traces_in_memory(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    (left / "pending/cycle-00000/fake/fake.json").write_text("{")
    files = {path: path.stat().st_mtime_ns for path in left.rglob("*")}
    run = up.read(left.parent)
    assert ops(run) == [[], BOTH[1]]
    assert {path: path.stat().st_mtime_ns for path in left.rglob("*")} == files
    (failure,) = run.manifests[0].failures
    assert failure.kept == str(left / "pending/cycle-00000/fake")


def test_a_disk_that_is_full_gives_its_traces_in_memory(
    left: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(RankWriter, "write_trace", refuse)
    for _ in range(2):
        assert ops(up.read(left.parent)) == BOTH
    assert not list(left.glob("*.parquet"))
    assert len(list(left.glob("pending/cycle-*"))) == 2


def test_where_there_are_no_locks_nothing_is_touched(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(FileLock, "take", refuse)
    assert ops(up.read(left.parent)) == BOTH
    assert not list(left.glob("*.parquet"))


def test_a_capture_that_cannot_be_read_is_a_failure_and_its_files_are_kept(left: Path, backend: FakeBackend) -> None:
    (left / "pending/cycle-00000/fake/fake.json").write_text("{")
    run = up.read(left.parent)
    assert ops(run) == [[], BOTH[1]]
    (failure,) = run.manifests[0].failures
    assert (failure.source, failure.action, failure.cycle) == ("fake", "normalize", 0)
    assert Path(failure.kept or "").joinpath("fake.json").is_file()
    assert up.read(left.parent).manifests[0].failures == (failure,)


def test_cycles_wait_for_a_backend_that_is_not_installed(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    run = up.read(left.parent)
    assert run.traces == ()
    hint = run.manifests[0].hints[0]
    assert "There is no backend 'fake'" in hint
    assert render_hint(hint, language="zh") != hint
    monkeypatch.setattr(registry, "get", {"fake": FakeBackend()}.__getitem__)
    assert ops(up.read(left.parent)) == BOTH


def test_kept_native_files_end_up_where_they_always_are(backend: FakeBackend, tmp_path: Path) -> None:
    recorded(backend, tmp_path, keep_native=True).stop(finish=False)
    up.read(tmp_path)
    native = sorted(tmp_path.glob("*/rank-00000/native/*/*/*"))
    assert [path.relative_to(path.parents[2]).as_posix() for path in native] == [
        "cycle-00000/fake/fake.json",
        "cycle-00001/fake/fake.json",
    ]


@pytest.mark.parametrize("written", [True, False])
def test_a_cycle_in_which_the_process_ended_is_no_trace(written: bool, left: Path, backend: FakeBackend) -> None:
    (left / "pending/cycle-00001" / RECORD).unlink()
    if not written:
        (left / "pending/cycle-00001/fake/fake.json").unlink()
    assert ops(up.read(left.parent)) == BOTH[:1]
    assert (left / "native/cycle-00001/fake/fake.json").exists() == written
    assert not (left / "pending").exists()


def test_a_record_that_was_being_written_is_not_kept_among_native_files(left: Path) -> None:
    cut = left / "pending/cycle-00001"
    (cut / RECORD).rename(cut / f".{RECORD}.0123abcd.unified_profiler.part")
    assert ops(up.read(left.parent)) == BOTH[:1]
    kept = left / "native/cycle-00001"
    assert kept.is_dir()
    assert not list(left.rglob("*.part"))


def test_seen_from_another_machine_a_cycle_without_its_record_may_be_under_way(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (left / "pending/cycle-00001" / RECORD).unlink()
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    assert ops(up.read(left.parent)) == BOTH[:1]
    assert (left / "pending/cycle-00001/fake/fake.json").exists()


def test_two_readers_at_once_give_the_same(left: Path, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    second_waits, found = threading.Event(), dict[str, list[list[str]]]()
    take = FileLock.take

    def slow_finish(*args: Any, **kwargs: Any) -> Any:
        assert second_waits.wait(600)
        return finish(*args, **kwargs)

    def noted_take(self: FileLock, *, wait: bool = False, create: bool = False) -> bool:
        if wait:
            second_waits.set()
        return take(self, wait=wait, create=create)

    monkeypatch.setattr(reading, "finish", slow_finish)
    monkeypatch.setattr(FileLock, "take", noted_take)
    readers = [
        threading.Thread(target=lambda name=name: found.update({name: ops(up.read(left.parent))})) for name in "ab"
    ]
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()
    assert found == {"a": BOTH, "b": BOTH}
    assert backend.calls.count("normalize") == 2


DIES = """
import os, signal, sys
import unified_profiler as up
from unified_profiler import registry
from unified_profiler.readers import pending
from unified_profiler.testing import FakeBackend
registry.get = {"fake": FakeBackend()}.__getitem__
def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(pending.RankWriter if sys.argv[2] == "write_trace" else pending, sys.argv[2], die)
up.read(sys.argv[1])
"""


@pytest.mark.parametrize("moment", ["finish", "write_trace", "remove_cycle_folder"])
def test_a_reader_that_is_killed_leaves_everything_to_the_next(moment: str, left: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, str(left.parent), moment])
    assert done.returncode == -signal.SIGKILL
    run = up.read(left.parent)
    assert ops(run) == BOTH
    assert [record.info.cycle for record in run.manifests[0].cycles] == [0, 1]
    assert not (left / "pending").exists()


def test_what_somebody_else_finished_meanwhile_is_taken_over(backend: FakeBackend, tmp_path: Path) -> None:
    """On a file system whose locks other machines do not see."""
    prof = recorded(backend, tmp_path)
    assert prof._delivery._deferral is not None
    prof._delivery._deferral.release()
    up.read(tmp_path)
    prof.stop()
    assert ops(prof.run) == ops(up.read(tmp_path)) == BOTH
    assert not prof.failures


def test_a_damaged_record_is_a_failure_and_the_rest_of_the_run_is_read(left: Path) -> None:
    record = left / "pending/cycle-00000" / RECORD
    record.write_bytes(record.read_bytes()[:100])
    run = up.read(left.parent)
    assert ops(run) == [BOTH[1]]
    (failure,) = run.manifests[0].failures
    assert "cycle.json cannot be read" in failure.error
    assert record.exists()


def test_a_record_of_a_newer_version_says_how_to_upgrade(left: Path) -> None:
    record = left / "pending/cycle-00000" / RECORD
    record.write_text(record.read_text().replace('"schema_version":1', '"schema_version":99'))
    with pytest.raises(SchemaVersionError, match="pip install --upgrade"):
        up.read(left.parent)
