"""Golden XPlane files, checked against their known content."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from unified_profiler.model.assembly import assemble
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer
from unified_profiler_tensorflow.read.xplane.ignored_stats import IGNORED_STATS

GOLDEN = Path(__file__).parents[2] / "golden" / "xplane"
FILES = sorted(file.name.removesuffix(".xplane.pb") for file in GOLDEN.glob("*.xplane.pb"))


def normalized(name: str) -> pa.Table:
    capture = NativeCapture(backend="tensorflow", files=(GOLDEN / f"{name}.xplane.pb",))
    return TensorFlowNormalizer().normalize(capture)


def events(name: str, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in normalized(name).to_pylist() if not kinds or event["kind"] in kinds]


def attributes(event: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(event["attributes"] or "{}")
    return values


@pytest.mark.parametrize("name", FILES)
def test_it_is_recognized(name: str) -> None:
    assert TensorFlowNormalizer().recognizes(GOLDEN / f"{name}.xplane.pb")


@pytest.mark.parametrize("name", FILES)
def test_it_has_the_schema(name: str) -> None:
    assert normalized(name).schema.equals(EVENT_SCHEMA)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("eager", {"op": 26, "step": 2, "runtime": 198}),
        ("frames", {"op": 28, "region": 1, "runtime": 738}),
        ("keras_fit", {"op": 280, "region": 2, "runtime": 1319}),
        ("keras_fit_onednn", {"op": 278, "region": 2, "runtime": 2079, "memory": 40}),
        ("loop", {"op": 131, "region": 1, "runtime": 399}),
        ("xla", {"op": 9, "region": 1, "runtime": 27}),
        ("xla_convolution", {"op": 9, "region": 3, "runtime": 102}),
    ],
)
def test_the_kinds_are_these(name: str, kinds: dict[str, int]) -> None:
    assert Counter(event["kind"] for event in events(name)) == kinds


@pytest.mark.parametrize("name", FILES)
def test_ignored_stats_are_in_no_attribute(name: str) -> None:
    assert not any(IGNORED_STATS & attributes(event).keys() for event in events(name))


@pytest.mark.parametrize("name", FILES)
def test_only_pieces_of_executors_leave_their_lane_when_nested(name: str) -> None:
    before, after = normalized(name), assemble([normalized(name)])
    columns = (before.column("name"), before.column("tid"), after.column("tid"))
    moved = {name for name, old, new in zip(*(c.to_pylist() for c in columns), strict=True) if old != new}
    assert moved <= {"ExecutorState::Process"}


@pytest.mark.parametrize("name", FILES)
def test_no_self_time_is_negative(name: str) -> None:
    assert min(assemble([normalized(name)]).column("self_ns").to_pylist()) >= 0


def test_a_node_is_named_by_its_type_and_its_path_is_an_attribute() -> None:
    convolutions = [event for event in events("keras_fit", "op") if event["name"] == "_FusedConv2D"]
    assert len(convolutions) == 2
    for event in convolutions:
        assert attributes(event) == {"node": "StatefulPartitionedCall/sequential_1/conv2d_1/Relu"}
        assert event["module"] == "sequential_1/conv2d_1"
        assert (event["op"], event["origin"], event["direction"]) == ("Conv", "Conv", "forward")
        assert (event["layer"], event["device"], event["thread"].partition("/")[0]) == (
            "framework",
            "cpu:0",
            "tf_Compute",
        )


def test_shapes_and_types_are_compact_json() -> None:
    convolutions = [event for event in events("keras_fit", "op") if event["name"] == "_FusedConv2D"]
    assert {(event["input_shapes"], event["input_types"]) for event in convolutions} == {
        ("[[4,6,6,1],[3,3,1,2],[2]]", '["float","float","float"]')
    }


def test_a_scalar_has_an_empty_shape_and_a_node_without_tensors_an_empty_list() -> None:
    shapes = {event["name"]: event["input_shapes"] for event in events("keras_fit", "op")}
    assert shapes["ReadVariableOp"] == "[]"
    assert "[[],[]]" in {event["input_shapes"] for event in events("keras_fit", "op")}


def test_a_training_step_has_every_direction() -> None:
    origins = {(event["origin"], event["direction"]) for event in events("keras_fit", "op")}
    assert {("Conv", "forward"), ("Conv", "backward"), ("BatchNormalization", "backward")} <= origins
    assert "update" in {direction for _, direction in origins}


def test_operators_on_threads_of_the_input_pipeline_load_data() -> None:
    on_input = [event for event in events("keras_fit", "op") if event["thread"].startswith("tf_data")]
    assert {event["name"] for event in on_input} >= {"GatherV2", "Slice"}
    assert {event["origin"] for event in on_input} == {"x:DataLoad"}


def test_an_asynchronous_node_is_one_operator() -> None:
    kinds = Counter(event["kind"] for event in events("keras_fit") if event["name"] == "IteratorGetNext")
    assert kinds == {"op": 2, "runtime": 2}


def test_the_call_of_a_function_is_a_region_of_the_application() -> None:
    (region,) = events("loop", "region")
    assert (region["name"], region["layer"]) == ("powers", "application")
    assert attributes(region) == {"tf_function_call": "notTraced-nonXla", "tracing_count": 1}


def test_an_eager_operator_is_one_event_and_named_by_its_type() -> None:
    step = {"ReadVariableOp": 1, "MatMul": 2, "Relu": 1, "Sum": 1, "Reshape": 1, "Tile": 1, "ReluGrad": 1}
    step |= {"_EagerConst": 3, "Fill": 1, "AssignSubVariableOp": 1}
    assert Counter(event["name"] for event in events("eager", "op")) == {name: 2 * n for name, n in step.items()}


def test_the_time_of_an_eager_operator_is_its_own() -> None:
    table = assemble([normalized("eager")]).to_pylist()
    operators = [event for event in table if event["kind"] == "op"]
    assert all(event["self_ns"] == event["duration_ns"] for event in operators)
    assert all(table[event["parent_id"]]["name"] == "EagerKernelExecute" for event in operators)


def test_an_annotated_step_is_a_step() -> None:
    steps = events("eager", "step")
    assert [(event["name"], event["step"], event["layer"]) for event in steps] == [
        ("train", 0, "application"),
        ("train", 1, "application"),
    ]


def test_events_are_placed_in_annotated_steps() -> None:
    table = assemble([normalized("eager")]).to_pylist()
    assert Counter(event["step"] for event in table if event["name"] == "Relu") == {0: 1, 1: 1}


def test_instructions_of_xla_are_operators_with_their_nodes() -> None:
    instructions = {event["name"]: event for event in events("xla", "op")}
    forward, backward = instructions["matmul.2"], instructions["MatMul.2"]
    assert (forward["op"], forward["origin"], forward["direction"]) == ("MatMul", "Gemm", "forward")
    assert (backward["op"], backward["origin"], backward["direction"]) == ("MatMul", "Gemm", "backward")
    assert attributes(forward)["node"] == "dense/matmul"
    assert attributes(forward).keys() >= {"hlo_op", "hlo_module", "program_id", "op_type"}
    assert instructions["broadcast_maximum_fusion"]["op"] == "Relu"


def test_the_end_marks_of_xla_are_left_out() -> None:
    assert not [event for event in events("xla") if event["name"].startswith("end: ")]


def test_a_compiled_function_is_no_operator() -> None:
    calls = [event for event in events("xla") if "__inference_" in event["name"]]
    assert calls
    assert {event["kind"] for event in calls} == {"runtime"}


def test_python_frames_are_runtime_events_and_the_stack_of_others() -> None:
    table = events("frames")
    frames = [event for event in table if event["name"].startswith("$")]
    assert {(event["kind"], event["stack"]) for event in frames} == {("runtime", None)}
    (call,) = (event for event in table if event["name"] == "powers")
    assert call["stack"].startswith("$record.py:")
    assert "polymorphic_function.py" in call["stack"].split(";")[-1]


def test_frames_that_cut_annotations_are_in_a_side_lane() -> None:
    table = events("frames")
    python = {event["tid"] for event in table if event["thread"] == "python"}
    moved = {event["name"] for event in table if event["tid"] == max(python)}
    assert len(python) == 2
    assert moved >= {"$trace.py:50 __init__", "$trace.py:121 __exit__"}
    assert all(name.startswith("$") for name in moved)


def test_allocations_are_memory_events() -> None:
    memory = events("keras_fit_onednn", "memory")
    signs = {(event["name"], event["bytes"] > 0) for event in memory}
    assert signs == {("MemoryAllocation", True), ("MemoryDeallocation", False)}
    assert all(event["value"] > 0 for event in memory)
    assert {attributes(event)["allocator_name"] for event in memory} == {"mklcpu"}


def test_operators_of_onednn_are_canonical() -> None:
    ops = {event["name"]: event["op"] for event in events("keras_fit_onednn", "op")}
    assert ops["_MklNativeFusedConv2D"] == "Conv"


def test_everything_but_the_events_is_metadata() -> None:
    native = json.loads(normalized("xla").schema.metadata[b"native"])
    (metadata,) = native["xplane"]
    assert metadata["hostnames"] == ["vm"]
    assert metadata["profile_options"]["host_tracer_level"] == 2
    assert metadata["task"]["profile_start_time"] < metadata["task"]["profile_stop_time"]
    assert [name.startswith("a_inference_step_") for name in metadata["hlo_modules"]] == [True]
    assert (metadata["errors"], metadata["warnings"]) == ([], [])


@pytest.mark.parametrize("name", FILES)
def test_every_event_lies_in_the_recording(name: str) -> None:
    table = normalized(name)
    (metadata,) = json.loads(table.schema.metadata[b"native"])["xplane"]
    ended = [e for e in table.to_pylist() if not e["name"].startswith("$")]  # frames may be open when recording stops
    assert min(event["start_ns"] for event in ended) >= metadata["task"]["profile_start_time"]
    assert max(event["start_ns"] + event["duration_ns"] for event in ended) <= metadata["task"]["profile_stop_time"]
