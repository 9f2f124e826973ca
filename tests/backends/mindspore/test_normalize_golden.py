"""Recordings of MindSpore's own profiler, checked against a plain reading of the same files."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import unified_profiler as up
from unified_profiler.model.assembly import assemble
from unified_profiler.spi import NativeCapture
from unified_profiler_mindspore.read.normalizer import MindSporeNormalizer

GOLDEN = Path(__file__).parents[2] / "golden" / "mindspore"
NAMES = ["pynative", "graph", "model_train", "memory"]


def folder(name: str) -> Path:
    return GOLDEN / f"{name}_ascend_ms"


def text(name: str, stem: str) -> str:
    (path,) = (folder(name) / "FRAMEWORK").glob(f"{stem}_0.*")
    return path.read_text()


def launches(name: str) -> list[tuple[int, int, str]]:
    """Start, duration and full name of each launch, in order."""
    found = []
    for line in text(name, "cpu_op_execute_timestamp").splitlines():
        full_name, _, times = line.split(";")
        for launch in times.split():
            start, milliseconds, _ = launch.split(",")
            found.append((int(start), round(float(milliseconds) * 1e6), full_name))
    return sorted(found)


def normalized(name: str) -> pa.Table:
    return MindSporeNormalizer().normalize(NativeCapture(backend="mindspore", files=(folder(name),)))


def kernels(name: str) -> list[dict[str, Any]]:
    return [row for row in normalized(name).to_pylist() if row["kind"] == "op"]


def node_of(row: dict[str, Any]) -> str:
    return str(json.loads(row["attributes"])["node"]) if row["attributes"] else str(row["name"])


def rows_of(name: str, node: str) -> list[dict[str, Any]]:
    return [row for row in kernels(name) if node_of(row).endswith(node)]


def view(row: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    return row["op"], row["origin"], row["direction"]


@pytest.mark.parametrize("name", NAMES)
def test_the_directory_and_the_files_in_it_are_recognized(name: str) -> None:
    normalizer = MindSporeNormalizer()
    inside = folder(name) / "FRAMEWORK"
    assert normalizer.recognizes(folder(name))
    assert normalizer.recognizes(inside)
    assert normalizer.recognizes(inside / "cpu_op_execute_timestamp_0.txt")
    assert not normalizer.recognizes(GOLDEN)
    assert not normalizer.recognizes(GOLDEN / "README.md")


@pytest.mark.parametrize("name", NAMES)
def test_every_launch_is_there_with_its_name_and_times(name: str) -> None:
    found = [(row["start_ns"], row["duration_ns"], node_of(row)) for row in kernels(name)]
    assert found == launches(name)


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_times_of_each_type_are_those_that_mindspore_sums_up(name: str) -> None:
    """MindSpore writes its sums with six digits."""
    count: Counter[str] = Counter()
    time_ns: dict[str, int] = defaultdict(int)
    for row in kernels(name):
        count[row["name"]] += 1
        time_ns[row["name"]] += row["duration_ns"]
    sums = list(csv.DictReader(text(name, "cpu_op_type_info").splitlines()))
    assert count == {row["op_type"]: int(row["type_occurrences"]) for row in sums}
    for row in sums:
        assert time_ns[row["op_type"]] == pytest.approx(float(row["total_compute_time"]) * 1e6, rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_shape_is_that_of_its_launch(name: str) -> None:
    shapes = []
    for line in text(name, "cpu_framework").splitlines():
        inputs = [field.split(":", 1)[1] for field in line.split(";")[3:] if field]
        shapes.append([json.loads(shape) if shape.startswith("[") else shape for shape in inputs] or None)
    found = [row["input_shapes"] and json.loads(row["input_shapes"]) for row in kernels(name)]
    expected = [shape and [None if part == "NoShape" else part for part in shape] for shape in shapes]
    assert found == expected
    assert any(found)


@pytest.mark.parametrize("name", NAMES)
def test_kernels_stay_in_one_lane_outside_each_other(name: str) -> None:
    table = assemble([normalized(name)])
    rows = [row for row in table.to_pylist() if row["kind"] == "op"]
    assert {row["parent_id"] for row in rows} == {None}
    assert len({row["tid"] for row in rows}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_has_a_canonical_operator(name: str) -> None:
    assert {row["name"] for row in kernels(name) if row["op"] is None} == set()


@pytest.mark.parametrize("name", NAMES)
def test_reading_a_foreign_recording(name: str) -> None:
    (trace,) = up.read(folder(name)).traces
    assert trace.info.frameworks == {"mindspore": ""}
    assert trace.info.pid > 0
    assert len(up.op_table(trace).rows) > 10


def test_memory_is_a_counter_wherever_it_changes() -> None:
    rows = [row for row in normalized("memory").to_pylist() if row["kind"] == "counter"]
    lines = [line.split(",") for line in text("memory", "cpu_ms_memory_record").splitlines()]
    for column, title in enumerate(lines[0][1:], start=1):
        samples = [(int(line[0]), int(line[column])) for line in lines[1:]]
        changed = [samples[0]] + [new for old, new in pairwise(samples) if new[1] != old[1]]
        mine = [row for row in rows if row["name"] == title]
        assert [(row["start_ns"], row["value"]) for row in mine] == changed
        assert sum(row["bytes"] or 0 for row in mine) == samples[-1][1] - samples[0][1]


def test_only_a_recording_with_memory_has_counters() -> None:
    assert {name: "counter" in normalized(name).column("kind").to_pylist() for name in NAMES} == {
        "pynative": False,
        "graph": False,
        "model_train": False,
        "memory": True,
    }


# --- what the names say ---------------------------------------------------------------------------------------------


def test_kernels_of_a_graph_of_cells_know_their_layer() -> None:
    (row, _) = rows_of("model_train", "Default/network-WithLossCell/_backbone-Attention/query-Dense/MatMul-op0")
    assert (row["name"], row["module"]) == ("MatMul", "network._backbone.query")
    assert view(row) == ("MatMul", "Gemm", "forward")


def test_gradients_know_their_operator_but_not_their_layer() -> None:
    rows = [row for row in kernels("model_train") if "/Grad_MatMul/MatMul" in node_of(row)]
    assert {view(row) for row in rows} == {("MatMul", "Gemm", "backward")}
    assert {row["module"] for row in rows} == {None}


def test_the_optimizer_is_an_update() -> None:
    rows = [row for row in kernels("model_train") if "optimizer-Adam/" in node_of(row)]
    assert {(row["origin"], row["direction"]) for row in rows} == {("Adam", "update")}
    assert {row["name"] for row in rows} == {"Adam", "Assign", "AssignAdd", "Mul"}


def test_pieces_of_operators_get_their_direction_from_the_order_of_launches_where_it_tells() -> None:
    """Two products of matrices forward, among gradients, and four backward in each of two steps."""
    rows = [row for row in kernels("model_train") if "Expand/_MatMulExt/" in node_of(row)]
    assert Counter(row["direction"] for row in rows) == {None: 4, "backward": 8}
    assert {row["origin"] for row in rows} == {"MatMul"}
    softmax = [row for row in kernels("model_train") if "Expand/_SoftmaxBackward/" in node_of(row)]
    assert {(row["origin"], row["direction"]) for row in softmax} == {("Softmax", "backward")}


def test_gradients_of_what_only_one_sort_of_layer_uses_are_that_layers() -> None:
    rows = [row for row in kernels("model_train") if "/Grad_GatherD/" in node_of(row) or "/Grad_Log/" in node_of(row)]
    assert {(row["origin"], row["direction"]) for row in rows} == {("SoftmaxCrossEntropyLoss", "backward")}


def test_a_graph_of_a_function_has_directions_without_layers() -> None:
    (conv, _) = rows_of("graph", "Default/Conv2D-op0")
    (gradient, _) = rows_of("graph", "Grad_Conv2D/Conv2DBackpropFilter-op0")
    momentum = [row for row in kernels("graph") if row["name"] == "ApplyMomentum"]
    assert (view(conv), conv["module"]) == (("Conv", "Conv", "forward"), None)
    assert view(gradient) == ("Conv", "Conv", "backward")
    assert {view(row) for row in momentum} == {("Momentum", "Momentum", "update")}


def test_in_pynative_only_what_is_certain_has_a_direction() -> None:
    found = {row["name"]: view(row) for row in kernels("pynative")}
    assert found["Conv2D"] == ("Conv", "Conv", None)
    assert found["MatMul"] == ("MatMul", "MatMul", None)
    assert found["Mul"] == ("Mul", None, None)
    assert found["ReluGrad"] == ("Relu", "Relu", "backward")
    assert found["BiasAddGrad"] == ("ReduceSum", "Add", "backward")
    assert found["Adam"] == ("Adam", "Adam", "update")


# --- without MindSpore ----------------------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules["mindspore"] = None
import unified_profiler as up
(trace,) = up.read(sys.argv[1]).traces
print(len(trace.events))
"""


def test_reading_needs_no_mindspore() -> None:
    code = [sys.executable, "-c", WITHOUT, str(folder("model_train"))]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(launches("model_train"))
