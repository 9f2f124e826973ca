from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from unified_profiler.errors import TraceFormatError
from unified_profiler.spi import NativeCapture
from unified_profiler_mindspore.read.graph_ir import read_graph
from unified_profiler_mindspore.read.normalizer import MindSporeNormalizer

GOLDEN = Path(__file__).parents[2] / "golden" / "mindspore" / "memory_ascend_ms"
LAUNCHES, SHAPES, MEMORY = "cpu_op_execute_timestamp_0.txt", "cpu_framework_0.txt", "cpu_ms_memory_record_0.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN, tmp_path / "copy")
    return tmp_path / "copy" / "FRAMEWORK"


def normalized(folder: Path) -> pa.Table:
    return MindSporeNormalizer().normalize(NativeCapture(backend="mindspore", files=(folder,)))


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES, MEMORY])
def test_a_file_that_ends_in_the_middle_of_a_line_is_refused(name: str, folder: Path) -> None:
    file = folder / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2].rstrip(b"\n"))
    with pytest.raises(TraceFormatError, match="cut off"):
        normalized(folder)


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES, MEMORY])
def test_text_of_another_kind_is_refused(name: str, folder: Path) -> None:
    (folder / name).write_text("hello world\n")
    with pytest.raises(TraceFormatError, match="expected"):
        normalized(folder)


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES, MEMORY])
def test_bytes_that_are_no_text_are_refused(name: str, folder: Path) -> None:
    (folder / name).write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(TraceFormatError, match="cannot be read"):
        normalized(folder)


@pytest.mark.parametrize("times", ["1,2", "1,x,0", "x,1,0", "1,-1,0", "1,nan,0"])
def test_a_launch_that_is_not_three_numbers_is_refused(times: str, folder: Path) -> None:
    (folder / LAUNCHES).write_text(f"MatMul;HostCpuOps;{times} \n")
    with pytest.raises(TraceFormatError, match="line 1"):
        normalized(folder)


@pytest.mark.parametrize("row", ["1,2,3", "1,2,3,x", "1,2,3,4,5"])
def test_a_memory_record_of_another_form_is_refused(row: str, folder: Path) -> None:
    header = (folder / MEMORY).read_text().splitlines()[0]
    (folder / MEMORY).write_text(f"{header}\n{row}\n")
    with pytest.raises(TraceFormatError, match="4 whole numbers"):
        normalized(folder)


def test_a_kernel_that_failed_has_no_launch(folder: Path) -> None:
    before = len(normalized(folder))
    with (folder / LAUNCHES).open("a") as file:
        file.write("GatherD;HostCpuOps;\n")
    assert len(normalized(folder)) == before


def test_where_kernels_run_is_kept_if_it_is_not_the_host(folder: Path) -> None:
    (folder / LAUNCHES).write_text("MatMul;Other;1,0.002,0 \n")
    (row,) = [row for row in normalized(folder).to_pylist() if row["kind"] == "op"]
    assert json.loads(row["attributes"]) == {"type": "Other"}
    assert (row["start_ns"], row["duration_ns"]) == (1, 2000)


def said(table: pa.Table) -> dict[str, str]:
    return dict(json.loads(table.schema.metadata[b"native"]))


def test_shapes_of_another_number_of_launches_are_left_out_with_a_remark(folder: Path) -> None:
    lines = (folder / SHAPES).read_text().splitlines(keepends=True)
    (folder / SHAPES).write_text("".join(lines[:-1]))
    table = normalized(folder)
    assert table.column("input_shapes").null_count == len(table)
    assert f"lists {len(lines) - 1} launches, but {len(lines)} were timed" in said(table)["shapes"]


def test_shapes_of_other_launches_are_left_out_with_a_remark(folder: Path) -> None:
    lines = (folder / SHAPES).read_text().splitlines(keepends=True)
    named = next(place for place, line in enumerate(lines) if line.startswith("Conv2D;"))
    lines[named] = lines[named].replace("Conv2D-op0", "ReLU-op0")
    (folder / SHAPES).write_text("".join(lines))
    table = normalized(folder)
    assert table.column("input_shapes").null_count == len(table)
    assert "is Conv2D-op0, but ReLU-op0" in said(table)["shapes"]


def test_a_missing_file_of_shapes_costs_only_the_shapes(folder: Path) -> None:
    expected = len(normalized(folder))
    (folder / SHAPES).unlink()
    table = normalized(folder)
    assert len(table) == expected
    assert said(table)["shapes"] == "no file cpu_framework_*.txt"


def test_files_of_two_recordings_are_refused(tmp_path: Path, folder: Path) -> None:
    shutil.copytree(folder, tmp_path / "other")
    capture = NativeCapture(backend="mindspore", files=(folder, tmp_path / "other"))
    with pytest.raises(TraceFormatError, match="one directory"):
        MindSporeNormalizer().normalize(capture)


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="one directory"):
        normalized(tmp_path)


# --- recordings of this package, which say how long their files are -------------------------------------------------


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES, "unified_profiler.json"])
def test_every_single_file_that_was_cut_off_is_noticed(name: str, events: object, record: object, add: object) -> None:
    capture = record(add)  # type: ignore[operator]
    (file,) = [file for file in capture.files if file.name == name]
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) or lines[0][:10])
    with pytest.raises(TraceFormatError):
        MindSporeNormalizer().normalize(capture)


@pytest.mark.parametrize("name", [LAUNCHES, SHAPES])
def test_every_single_file_that_is_missing_is_noticed(name: str, record: object, add: object) -> None:
    capture = record(add)  # type: ignore[operator]
    (file,) = [file for file in capture.files if file.name == name]
    file.unlink()
    with pytest.raises(TraceFormatError, match=f"{name} is missing"):
        MindSporeNormalizer().normalize(capture)


# --- numbers and texts that no column can hold ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "times", [f"{1 << 63},1,0", f"{1 << 62},1,0", "1,1e300,0", "1,1e13,0", "1,inf,0", f"{'9' * 5000},1,0"]
)
def test_times_that_cannot_be_are_damage(times: str, folder: Path) -> None:
    (folder / LAUNCHES).write_text(f"MatMul;HostCpuOps;{times} \n")
    with pytest.raises(TraceFormatError, match=r"cpu_op_execute_timestamp_0|FRAMEWORK"):
        normalized(folder)


@pytest.mark.parametrize("shape", ["[1-2]", "[,]", "[--1]", f"[{'9' * 5000}]"])
def test_a_shape_that_is_none_is_named_by_its_line(shape: str, folder: Path) -> None:
    (folder / SHAPES).write_text(f"\n;;1;\nMatMul;MatMul;1;input_1:{shape};\n"[1:])
    with pytest.raises(TraceFormatError, match=r"cpu_framework_0\.txt, line 2 cannot be read"):
        normalized(folder)


@pytest.mark.parametrize("row", [f"1,{1 << 63},3,4", f"{1 << 62},2,3,4", f"1,{-(1 << 62)},3,4"])
def test_a_total_whose_change_no_column_holds_is_damage(row: str, folder: Path) -> None:
    header = (folder / MEMORY).read_text().splitlines()[0]
    (folder / MEMORY).write_text(f"{header}\n1,2,3,4\n{row}\n")
    with pytest.raises(TraceFormatError, match="cpu_ms_memory_record_0"):
        normalized(folder)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN.parent / "made_up_ascend_ms", tmp_path / "device")
    return tmp_path / "device" / "ASCEND_PROFILER_OUTPUT"


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("operator_memory.csv", "Name,Size(KB)\nMatMul,nan\n", "row 1"),
        ("operator_memory.csv", "Name,Size(KB)\nMatMul,1\nMatMul,inf\n", "row 2"),
        ("operator_memory.csv", "Name\nMatMul\n", "row 1"),
        ("operator_memory.csv", "Name,Size(KB)\nMatMul,1,2\n", "line 2"),
        ("operator_memory.csv", "Name,Size(KB)\nMatMul,\0\n", "operator_memory"),
        ("memory_record.csv", "Timestamp(us),Total Allocated(MB)\n1e999999999,1\n", "row 1"),
        ("memory_record.csv", "Timestamp(us),Total Allocated(MB)\nnan,1\n", "row 1"),
        ("memory_record.csv", "Total Allocated(MB)\n1\n", "row 1"),
        ("kernel_details.csv", "Name,Start Time(us)\nMatMul,sNaN\n", "row 1"),
        ("kernel_details.csv", "Name,Start Time(us)\nMatMul,1e999999999\n", "row 1"),
        ("trace_view.json", '[{"ph":"X","name":"MindSpore","ts":"1e999999999"}]', "expected a time in microseconds"),
        ("trace_view.json", '[{"ph":"X","name":"MindSpore","ts":"1","dur":"-1"}]', "duration_ns -1000"),
        ("../profiler_info_2.json", '{"ms_profiler_info": []}', "device"),
        ("../profiler_info_2.json", '{"ms_profiler_info": {"rank_id": "first"}}', "device"),
        ("../profiler_info_2.json", "[" * 5000, "profiler_info_2"),
    ],
)
def test_a_table_of_another_shape_is_named_with_the_place(name: str, text: str, place: str, device: Path) -> None:
    if name == "trace_view.json":
        text = text.replace("[{", '[{"ph":"M","name":"process_name","args":{"name":"MindSpore"}},{', 1)
    (device / name).write_text(text)
    with pytest.raises(TraceFormatError, match=place):
        normalized(device)


def test_a_thread_that_no_column_holds_is_unknown(device: Path) -> None:
    trace = device / "trace_view.json"
    entry = {"ph": "X", "name": "MindSpore", "ts": "1", "dur": "1", "pid": 1, "tid": 1 << 63}
    trace.write_text(json.dumps([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "MindSpore"}}, entry]))
    assert [row["tid"] for row in normalized(device).to_pylist() if row["name"] == "MindSpore"] == [None]


def test_a_size_that_no_column_holds_is_unknown(device: Path) -> None:
    columns = "Name,Size(KB),Allocation Time(us),Allocation Total Allocated(MB)"
    (device / "operator_memory.csv").write_text(f"{columns}\nMatMul,1e30,1,1\n")
    assert [row["bytes"] for row in normalized(device).to_pylist() if row["kind"] == "memory"] == [None]


# --- graphs ---------------------------------------------------------------------------------------------------------


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + b"%c%c" % (len(content) & 127 | 128, len(content) >> 7) + content


def test_a_number_without_end_in_a_graph_is_damage(tmp_path: Path) -> None:
    (tmp_path / "graph.pb").write_bytes(b"\x80" * 1_000_000)
    with pytest.raises(TraceFormatError, match=r"graph\.pb cannot be read; expected a graph of MindSpore"):
        read_graph(tmp_path / "graph.pb")


def test_operators_that_take_each_other_have_a_source_all_the_same(tmp_path: Path) -> None:
    """Looked through once for each of them, as many as these would take hours."""
    count = 50_000
    names = [b"%d" % number for number in range(count)]
    loads = [
        field(1, field(2, name) + field(3, b"Load") + field(1, field(1, names[number - 1])))
        for number, name in enumerate(names)
    ]
    content = b"".join(loads)
    size = len(content)
    head = b"\x22" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21])
    (tmp_path / "graph.pb").write_bytes(head + content)
    graph = read_graph(tmp_path / "graph.pb")
    assert len({source for operator in graph.operators for source in graph.sources(operator)}) == 1
