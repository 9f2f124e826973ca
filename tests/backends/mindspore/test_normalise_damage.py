from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from unified_profiler.errors import TraceFormatError
from unified_profiler.spi import NativeCapture
from unified_profiler_mindspore.normalise import MindSporeNormaliser

GOLDEN = Path(__file__).parents[2] / "golden" / "mindspore" / "memory_ascend_ms"
LAUNCHES, SHAPES, MEMORY = "cpu_op_execute_timestamp_0.txt", "cpu_framework_0.txt", "cpu_ms_memory_record_0.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN, tmp_path / "copy")
    return tmp_path / "copy" / "FRAMEWORK"


def normalised(folder: Path) -> pa.Table:
    return MindSporeNormaliser().normalise(NativeCapture(backend="mindspore", files=(folder,)))


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES, MEMORY])
def test_a_file_that_ends_in_the_middle_of_a_line_is_refused(name: str, folder: Path) -> None:
    file = folder / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2].rstrip(b"\n"))
    with pytest.raises(TraceFormatError, match="cut off"):
        normalised(folder)


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES, MEMORY])
def test_text_of_another_kind_is_refused(name: str, folder: Path) -> None:
    (folder / name).write_text("hello world\n")
    with pytest.raises(TraceFormatError, match="expected"):
        normalised(folder)


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES, MEMORY])
def test_bytes_that_are_no_text_are_refused(name: str, folder: Path) -> None:
    (folder / name).write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(TraceFormatError, match="cannot be read"):
        normalised(folder)


@pytest.mark.parametrize("times", ["1,2", "1,x,0", "x,1,0", "1,-1,0", "1,nan,0"])
def test_a_launch_that_is_not_three_numbers_is_refused(times: str, folder: Path) -> None:
    (folder / LAUNCHES).write_text(f"MatMul;HostCpuOps;{times} \n")
    with pytest.raises(TraceFormatError, match="line 1"):
        normalised(folder)


@pytest.mark.parametrize("row", ["1,2,3", "1,2,3,x", "1,2,3,4,5"])
def test_a_memory_record_of_another_form_is_refused(row: str, folder: Path) -> None:
    header = (folder / MEMORY).read_text().splitlines()[0]
    (folder / MEMORY).write_text(f"{header}\n{row}\n")
    with pytest.raises(TraceFormatError, match="4 whole numbers"):
        normalised(folder)


def test_a_kernel_that_failed_has_no_launch(folder: Path) -> None:
    before = len(normalised(folder))
    with (folder / LAUNCHES).open("a") as file:
        file.write("GatherD;HostCpuOps;\n")
    assert len(normalised(folder)) == before


def test_where_kernels_run_is_kept_if_it_is_not_the_host(folder: Path) -> None:
    (folder / LAUNCHES).write_text("MatMul;Other;1,0.002,0 \n")
    (row,) = [row for row in normalised(folder).to_pylist() if row["kind"] == "op"]
    assert json.loads(row["attributes"]) == {"type": "Other"}
    assert (row["start_ns"], row["duration_ns"]) == (1, 2000)


def said(table: pa.Table) -> dict[str, str]:
    return dict(json.loads(table.schema.metadata[b"native"]))


def test_shapes_of_another_number_of_launches_are_left_out_with_a_remark(folder: Path) -> None:
    lines = (folder / SHAPES).read_text().splitlines(keepends=True)
    (folder / SHAPES).write_text("".join(lines[:-1]))
    table = normalised(folder)
    assert table.column("input_shapes").null_count == len(table)
    assert f"lists {len(lines) - 1} launches, but {len(lines)} were timed" in said(table)["shapes"]


def test_shapes_of_other_launches_are_left_out_with_a_remark(folder: Path) -> None:
    lines = (folder / SHAPES).read_text().splitlines(keepends=True)
    named = next(place for place, line in enumerate(lines) if line.startswith("Conv2D;"))
    lines[named] = lines[named].replace("Conv2D-op0", "ReLU-op0")
    (folder / SHAPES).write_text("".join(lines))
    table = normalised(folder)
    assert table.column("input_shapes").null_count == len(table)
    assert "is Conv2D-op0, but ReLU-op0" in said(table)["shapes"]


def test_a_missing_file_of_shapes_costs_only_the_shapes(folder: Path) -> None:
    expected = len(normalised(folder))
    (folder / SHAPES).unlink()
    table = normalised(folder)
    assert len(table) == expected
    assert said(table)["shapes"] == "no file cpu_framework_*.txt"


def test_files_of_two_recordings_are_refused(tmp_path: Path, folder: Path) -> None:
    shutil.copytree(folder, tmp_path / "other")
    capture = NativeCapture(backend="mindspore", files=(folder, tmp_path / "other"))
    with pytest.raises(TraceFormatError, match="one directory"):
        MindSporeNormaliser().normalise(capture)


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="one directory"):
        normalised(tmp_path)


# --- recordings of this package, which say how long their files are -------------------------------------------------


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES, "unified_profiler.json"])
def test_every_single_file_that_was_cut_off_is_noticed(name: str, events: object, record: object, add: object) -> None:
    capture = record(add)  # type: ignore[operator]
    (file,) = [file for file in capture.files if file.name == name]
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) or lines[0][:10])
    with pytest.raises(TraceFormatError):
        MindSporeNormaliser().normalise(capture)


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES])
def test_every_single_file_that_is_missing_is_noticed(name: str, record: object, add: object) -> None:
    capture = record(add)  # type: ignore[operator]
    (file,) = [file for file in capture.files if file.name == name]
    file.unlink()
    with pytest.raises(TraceFormatError, match=f"{name} is missing"):
        MindSporeNormaliser().normalise(capture)
