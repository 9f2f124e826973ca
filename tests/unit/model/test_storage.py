from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unified_profiler as up
from unified_profiler.delivery.run_writer import RunWriter, check_output_dir
from unified_profiler.errors import OutputDirectoryError, SchemaVersionError, TraceFormatError
from unified_profiler.model.part_files import atomic_write
from unified_profiler.model.records import Manifest
from unified_profiler.model.run import read_run
from unified_profiler.model.schema import EVENT_SCHEMA, event_table
from unified_profiler.model.storage import read_parquet, write_parquet
from unified_profiler.model.trace import Trace
from unified_profiler.testing import TraceBuilder


def small_trace(**info: int) -> Trace:
    return TraceBuilder(**info).op("a", 0, 10, input_shapes="[[1]]").op("b", 2, 5, value=1.5).build()


def manifest(**values: object) -> Manifest:
    given = {"profiler_version": "1", "run": "r", "rank": 0, "host": "h", "pid": 1, "python": "3", "platform": "p"}
    return Manifest.model_validate({**given, "started_ns": 1, **values})


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    trace = small_trace(cycle=3, rank=2)
    write_parquet(trace, tmp_path / "t.parquet")
    back = read_parquet(tmp_path / "t.parquet")
    assert back.events.to_pylist() == trace.events.to_pylist()
    assert back.events.schema == EVENT_SCHEMA
    assert back.info == trace.info


def test_events_are_read_when_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    write_parquet(small_trace(), file)
    back = read_parquet(file)
    file.unlink()
    assert len(back) == 2
    with pytest.raises(TraceFormatError, match="cannot be read"):
        _ = back.events


def test_a_newer_schema_says_how_to_upgrade(tmp_path: Path) -> None:
    trace = small_trace()
    newer = Trace(trace.events, trace.info.model_copy(update={"schema_version": 99}))
    write_parquet(newer, tmp_path / "t.parquet")
    with pytest.raises(SchemaVersionError, match=r"schema version 99.*pip install --upgrade"):
        read_parquet(tmp_path / "t.parquet")


def test_somebody_elses_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    with pytest.raises(TraceFormatError, match="not one written by unified_profiler"):
        read_parquet(tmp_path / "t.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"hello world"])
def test_a_damaged_file_is_a_format_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(TraceFormatError, match=r"t\.parquet cannot be read; expected a Parquet file"):
        read_parquet(tmp_path / "t.parquet")


def test_a_failed_write_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    file = tmp_path / "summary.txt"
    file.write_text("old")
    with pytest.raises(OSError, match="disk full"), atomic_write(file) as part:  # noqa: PT012
        part.write_text("half of the n")
        raise OSError("disk full")  # noqa: EM101
    assert [path.name for path in tmp_path.iterdir()] == ["summary.txt"]
    assert file.read_text() == "old"


def test_ranks_of_a_job_meet_in_one_run(tmp_path: Path) -> None:
    writers = [RunWriter(tmp_path, "job-1", rank) for rank in range(2)]
    for rank, writer in enumerate(writers):
        writer.write_trace(small_trace(rank=rank))
        writer.write_manifest(manifest(rank=rank))
    run = read_run(tmp_path / "job-1")
    assert run.ranks == [0, 1]
    assert [trace.info.rank for trace in run.traces] == [0, 1]


def test_a_later_run_of_the_same_name_gets_a_number(tmp_path: Path) -> None:
    names = [RunWriter(tmp_path, "job-1", 0).run for _ in range(3)]
    assert names == ["job-1", "job-1.2", "job-1.3"]


def test_a_rank_that_was_killed_before_its_first_cycle_is_still_a_run(tmp_path: Path) -> None:
    RunWriter(tmp_path, "r", 0).write_manifest(manifest())
    assert read_run(tmp_path / "r").traces == ()


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, "r", 0)
    writer.write_manifest(manifest())
    (writer.folder / "manifest.json").write_text('{"schema_version": 1}')
    with pytest.raises(TraceFormatError, match=r"manifest\.json is damaged"):
        read_run(tmp_path / "r")


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="not a run directory"):
        read_run(tmp_path)


def test_an_output_dir_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputDirectoryError, match="is a file"):
        check_output_dir(tmp_path / "file" / "below")


NOWHERE = {
    "below a file": (lambda folder: folder / "file" / "below" / "deeper", "is a file"),
    "a name that is too long": (lambda folder: folder / ("x" * 300) / "below", "File name too long"),
    "a path that is too long": (lambda folder: folder / "/".join(["x" * 200] * 30), "File name too long"),
    "no name at all": (lambda folder: folder / "a\0b", "null"),
    "half a character": (lambda folder: folder / "\ud800", "surrogates not allowed"),
    "a loop of links": (lambda folder: folder / "loop", "symbolic links"),
    "below a loop of links": (lambda folder: folder / "loop" / "below", "symbolic links"),
    "a link to nothing": (lambda folder: folder / "dangling", "No such file"),
    "below a link to nothing": (lambda folder: folder / "dangling" / "below", "No such file"),
}


@pytest.mark.parametrize(("path_in", "reason"), NOWHERE.values(), ids=NOWHERE)
def test_an_output_dir_that_cannot_be_is_refused_at_once(
    path_in: Callable[[Path], Path], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "missing" / "directory")
    with pytest.raises(OutputDirectoryError, match=reason):
        up.Profiler(output_dir=path_in(tmp_path))


AS_SOMEBODY_ELSE = """
import os, sys
import unified_profiler as up
from unified_profiler.errors import OutputDirectoryError

up.Profiler(output_dir=sys.argv[1] + "/open")  # all modules are loaded with it
if os.geteuid() == 0:  # to whom no permission applies
    os.setuid(65534)
try:
    up.Profiler(output_dir=sys.argv[1] + "/closed/below")
except OutputDirectoryError as error:
    print(error)
"""


def test_an_output_dir_below_a_directory_that_may_not_be_entered_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    done = subprocess.run([sys.executable, "-c", AS_SOMEBODY_ELSE, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "cannot be used: Permission denied. Choose a directory of your own." in done.stdout


def test_a_settings_file_in_a_directory_that_may_not_be_entered_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    assert up.Profiler(level=1).level == 1


def test_an_output_dir_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(OutputDirectoryError, match=r"cannot be created.*Choose another `output_dir`"):
        RunWriter(Path("/proc/unified-profiler"), "run", 0)


def test_an_output_dir_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(OutputDirectoryError, match="no permission"):
        check_output_dir(tmp_path / "below")


def test_a_column_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no column \\['color'\\]"):
        event_table({"color": "red"}, rows=1)


def test_a_column_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="Column pid has 2 rows, expected 1"):
        event_table({"pid": [1, 2]}, rows=1)
