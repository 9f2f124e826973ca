"""Whatever is found in the place of a native trace: reading ends, in an error of this package that names the file."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from unified_profiler import registry
from unified_profiler.errors import TraceFormatError
from unified_profiler.export import write
from unified_profiler.model.foreign import LIMIT_VARIABLE, read_bytes
from unified_profiler.model.trace import Trace
from unified_profiler.readers import read

GOLDEN = Path(__file__).parents[2] / "golden"
KINETO = {"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "pid": 1, "tid": 1}]}
MINDSPORE = GOLDEN / "mindspore"
NATIVE = {
    "trace.json.gz": GOLDEN / "kineto" / "cpu_only_rank34.json.gz",
    "host.xplane.pb": GOLDEN / "xplane" / "eager.xplane.pb",
    "run.pb": GOLDEN / "run_metadata" / "multiply.pb",
    "timeline.json": GOLDEN / "run_metadata" / "multiply_timeline.json",
    "launches": MINDSPORE / "memory_ascend_ms/FRAMEWORK/cpu_op_execute_timestamp_0.txt",
    "shapes": MINDSPORE / "memory_ascend_ms/FRAMEWORK/cpu_framework_0.txt",
    "memory": MINDSPORE / "memory_ascend_ms/FRAMEWORK/cpu_ms_memory_record_0.txt",
    "trace_view": MINDSPORE / "made_up_ascend_ms/ASCEND_PROFILER_OUTPUT/trace_view.json",
    "kernels": MINDSPORE / "made_up_ascend_ms/ASCEND_PROFILER_OUTPUT/kernel_details.csv",
    "allocations": MINDSPORE / "made_up_ascend_ms/ASCEND_PROFILER_OUTPUT/operator_memory.csv",
    "totals": MINDSPORE / "made_up_ascend_ms/ASCEND_PROFILER_OUTPUT/memory_record.csv",
    "steps": MINDSPORE / "made_up_ascend_ms/ASCEND_PROFILER_OUTPUT/step_trace_time.csv",
    "info": MINDSPORE / "made_up_ascend_ms/profiler_info_2.json",
}


@pytest.fixture(params=NATIVE)
def native(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """What is read, and a file of it: a copy of each kind of native file, with the directory that it is in."""
    file = NATIVE[request.param]
    if MINDSPORE not in file.parents:
        return tmp_path / request.param, Path(shutil.copy(file, tmp_path / request.param))
    folder = file.relative_to(MINDSPORE).parts[0]
    shutil.copytree(MINDSPORE / folder, tmp_path / folder)
    return tmp_path / folder, tmp_path / file.relative_to(MINDSPORE)


def test_no_file_is_read_beyond_the_limit(native: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path, file = native
    read(path)
    monkeypatch.setenv(LIMIT_VARIABLE, "1MB")
    os.truncate(file, 2_000_000)
    with pytest.raises(TraceFormatError, match=f"{file.name} .*allow more with {LIMIT_VARIABLE}"):
        read(path)


def make_directory(path: Path) -> None:
    path.mkdir()


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("put", [os.mkfifo, make_directory, link_to_device, link_to_itself])
def test_what_is_no_file_is_neither_read_nor_waited_for(native: tuple[Path, Path], put: Callable[[Path], None]) -> None:
    path, file = native
    file.unlink()
    put(file)
    for backend in registry.backends().values():
        backend.normalizer().recognizes(path)
        backend.normalizer().recognizes(file)
    with suppress(TraceFormatError):  # of a directory, the rest may be read
        read(path)


BOMB = """
import resource, sys
import unified_profiler as up
try:
    up.read(sys.argv[1])
except up.UnifiedProfilerError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, error)
"""


def test_a_small_file_that_unpacks_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    member = gzip.compress(b" " * (64 << 20))
    bomb = tmp_path / "trace.json.gz"
    bomb.write_bytes(gzip.compress(b'{"schemaVersion": 1, "traceEvents": [') + member * (13_000_000 // len(member)))
    done = subprocess.run([sys.executable, "-c", BOMB, str(bomb)], capture_output=True, text=True)
    megabytes, _, message = done.stdout.partition(" ")
    assert "unpacks to more than" in message, done.stderr
    assert int(megabytes) < 2500  # of 13 GB


# --- one format each ------------------------------------------------------------------------------------------------


def written(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("world_size", ["many", [2], 1 << 63])
def test_a_number_of_ranks_that_is_none_is_damage(world_size: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "trace.json", KINETO | {"distributedInfo": {"rank": 0, "world_size": world_size}})
    with pytest.raises(TraceFormatError, match=r"trace\.json cannot be read; expected a native trace of torch"):
        read(path)


@pytest.fixture
def exported(tmp_path: Path, trace: Trace) -> tuple[Path, dict[str, Any]]:
    path = write(trace, tmp_path / "t.json")
    return path, json.loads(path.read_text())


def change_first(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        next(event for event in document["traceEvents"] if event["ph"] == "X")[name] = value

    return change


def put_base(document: dict[str, Any]) -> None:
    document["baseTimeNanoseconds"] = 1 << 63


def close_ring(document: dict[str, Any]) -> None:
    first, second = (event["args"] for event in document["traceEvents"] if event["ph"] == "X")
    first["parent_id"], second["parent_id"] = second["id"], first["id"]


@pytest.mark.parametrize(
    "change",
    [
        change_first("ts", 1e300),
        change_first("dur", 1e300),
        change_first("dur", -1),
        change_first("args", {"id": 1 << 63}),
        change_first("args", {"id": 0, "trace": 1 << 63}),
        change_first("args", {"id": 0, "value": "much"}),
        change_first("tid", 99),
        put_base,
        close_ring,
    ],
)
def test_events_of_our_own_json_that_cannot_be_are_damage(
    change: Callable[[dict[str, Any]], None], exported: tuple[Path, dict[str, Any]]
) -> None:
    path, document = exported
    change(document)
    with pytest.raises(TraceFormatError, match=r"t\.json cannot be read; expected JSON that unified_profiler wrote"):
        read(written(path, document))


@pytest.mark.parametrize("text", [b"\xff", b"\xed\xa0\x80", b"\\ud800", b"[" * 5000])
def test_our_own_json_with_text_that_is_none_is_damage(text: bytes, exported: tuple[Path, dict[str, Any]]) -> None:
    path, _ = exported
    path.write_bytes(path.read_bytes().replace(b'"name":"op"', b'"name":"' + text + b'"'))
    if text.startswith(b"["):
        path.write_bytes(path.read_bytes().replace(b'"' + text + b'"', text))
    with pytest.raises(TraceFormatError, match=r"t\.json cannot be read; expected JSON that unified_profiler wrote"):
        read(path)


@pytest.mark.parametrize(("levels", "is_stored"), [(90, True), (150, False), (300, False), (900, False)])
def test_metadata_is_stored_or_too_deeply_nested(levels: int, is_stored: bool, tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(levels):
        deep = [deep]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({**KINETO, "deep": deep}))
    if not is_stored:
        with pytest.raises(TraceFormatError, match=r"trace\.json.*(nested|deep|recursion)"):
            read(file)
        return
    write(read(file), tmp_path / "again.parquet")
    assert read(tmp_path / "again.parquet").traces[0].info.native["torch"]["deep"] == deep


def test_every_native_file_may_be_packed(native: tuple[Path, Path]) -> None:
    path, file = native
    whole = read(path).traces[0].events
    file.write_bytes(gzip.compress(read_bytes(file)))
    assert read(path).traces[0].events.equals(whole)
