from __future__ import annotations

import contextlib
import json
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import (
    allocation_description_pb2,
    step_stats_pb2,
    tensor_description_pb2,
    tensor_shape_pb2,
    types_pb2,
)
from tensorflow.core.protobuf import config_pb2
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.assembly import assemble
from unified_profiler.model.nesting import FIRST_LANE
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler_tensorflow.read.run_metadata.events import read
from unified_profiler_tensorflow.read.run_metadata.messages import messages
from unified_profiler_tensorflow.read.run_metadata.names import dtype_name
from unified_profiler_tensorflow.read.run_metadata.step_stats import recognizes

GOLDEN = Path(__file__).parents[2] / "golden" / "run_metadata"
Row = dict[str, Any]


def rows(table: pa.Table, *kinds: str) -> list[Row]:
    """The events of some kinds, with their attributes as objects."""
    chosen = [row for row in table.to_pylist() if row["kind"] in (kinds or ("op",))]
    return [row | {"attributes": json.loads(row["attributes"] or "{}")} for row in chosen]


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """The RunMetadata of real runs of this TensorFlow."""
    script = runpy.run_path(str(GOLDEN / "record.py"))
    return {"train": script["train"](), "call": _function_that_is_called()}


def _function_that_is_called() -> Any:
    """A function with a loop that is not inlined, as TensorFlow would do by default.

    It runs on one thread, so that its nodes do not overlap: overlapping ones would be in other lanes than the call.
    """
    optimizer = tf.compat.v1.OptimizerOptions(opt_level=tf.compat.v1.OptimizerOptions.L0)
    config = tf.compat.v1.ConfigProto(graph_options=tf.compat.v1.GraphOptions(optimizer_options=optimizer))
    config.use_per_session_threads, config.inter_op_parallelism_threads = True, 1
    config.graph_options.rewrite_options.disable_meta_optimizer = True

    def loop(x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.matmul(y, y)), (0, x))[1]

    metadata = tf.compat.v1.RunMetadata()
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        fetch = tf.function(loop, autograph=False)(tf.compat.v1.random_uniform((64, 64)))
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.SOFTWARE_TRACE)
        session.run(fetch, options=options, run_metadata=metadata)
    return metadata


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Any], Path]:
    """Saves a message, or bytes, to a file."""

    def save(content: Any) -> Path:
        path = tmp_path / "run.pb"
        path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
        return path

    return save


def _nodes(metadata: Any) -> list[Any]:
    return [node for device in metadata.step_stats.dev_stats for node in device.node_stats]


# --- the same as in the file ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["train.pb", "train_onednn.pb", "multiply.pb"])
def test_nodes_times_shapes_and_bytes_are_those_of_the_file(name: str) -> None:
    _assert_equal(rows(read(GOLDEN / name)), config_pb2.RunMetadata.FromString((GOLDEN / name).read_bytes()))


def test_nodes_times_shapes_and_bytes_are_those_of_this_tensorflow(recorded: Any, saved: Any) -> None:
    for metadata in recorded.values():
        _assert_equal(rows(read(saved(metadata))), metadata)


def _assert_equal(events: list[Row], metadata: Any) -> None:
    nodes = _nodes(metadata)
    assert [event["attributes"]["node"] for event in events] == [node.node_name for node in nodes]
    assert [event["start_ns"] for event in events] == [node.all_start_nanos for node in nodes]
    assert [event["duration_ns"] for event in events] == [node.all_end_rel_nanos for node in nodes]
    assert [event["attributes"].get("scheduled_ns") for event in events] == [node.scheduled_nanos for node in nodes]
    for event, node in zip(events, nodes, strict=True):
        inputs = ", ".join(event["attributes"].get("inputs", []))
        assert node.timeline_label.endswith(f"{node.node_name} = {event['name']}({inputs})")
        outputs = [output.tensor_description for output in node.output]
        assert json.loads(event["output_shapes"] or "[]") == [[d.size for d in o.shape.dim] for o in outputs]
        assert json.loads(event["output_types"] or "[]") == [tf.as_dtype(o.dtype).name for o in outputs]
        assert event["bytes"] == (sum(used.total_bytes for used in node.memory) if node.memory else None)


def test_allocations_are_those_of_the_file(recorded: Any, saved: Any) -> None:
    allocations = Counter(
        (row["attributes"]["node"], row["attributes"]["allocator"], row["bytes"])
        for row in rows(read(saved(recorded["train"])), "memory")
    )
    assert allocations == Counter(
        (node.node_name, used.allocator_name, record.alloc_bytes)
        for node in _nodes(recorded["train"])
        for used in node.memory
        for record in used.allocation_records
    )


def test_allocations_are_inside_their_nodes_and_later_frees_are_not(recorded: Any, saved: Any) -> None:
    events = assemble([read(saved(recorded["train"]))]).to_pylist()
    memory = [event for event in events if event["kind"] == "memory"]
    for event in memory:
        node = event
        while node["kind"] == "memory" and node["parent_id"] is not None:
            node = events[node["parent_id"]]
        assert (node["kind"] == "op") == (not event["thread"].endswith("frees"))
        if node["kind"] == "op":
            assert json.loads(event["attributes"])["node"] == json.loads(node["attributes"])["node"]
    assert all(event["bytes"] < 0 for event in memory if event["thread"].endswith("frees"))


def test_the_table_has_the_schema_and_the_metadata_of_the_run(saved: Any) -> None:
    path = saved((GOLDEN / "train.pb").read_bytes() + config_pb2.RunMetadata(partition_graphs=[{}]).SerializeToString())
    table = read(path)
    assert table.schema.equals(EVENT_SCHEMA)
    native = json.loads(table.schema.metadata[b"native"])
    assert native == {"devices": ["/job:localhost/replica:0/task:0/device:CPU:0"], "partition_graph_count": 1}


def test_facts_missing_in_the_file_come_from_the_entry(recorded: Any, saved: Any) -> None:
    entry = {"graph": "vgg16", "step": 7, "start_ns": 100, "end_ns": 350, "thread": 42, "pid": 5}
    table = read(saved(recorded["train"]), entry)
    assert set(table.column("step").to_pylist()) == {7}
    assert set(table.column("pid").to_pylist()) == {5}
    assert {row["attributes"]["graph"] for row in rows(table)} == {"vgg16"}
    (run,) = rows(table, "api_call")
    assert (run["name"], run["start_ns"], run["duration_ns"], run["tid"]) == ("Session.run", 100, 250, 42)
    assert rows(read(saved(recorded["train"])), "api_call") == []


# --- lanes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["train", "call"])
def test_lanes_stay_as_they_are_when_nested(recorded: Any, saved: Any, run: str) -> None:
    table = read(saved(recorded[run]))
    assert assemble([table]).column("tid").to_pylist() == table.column("tid").to_pylist()
    assert min(table.column("tid").to_pylist()) > FIRST_LANE


def test_operators_that_overlap_are_in_different_lanes_and_never_inside_each_other(saved: Any) -> None:
    nodes = [("a", 0, 100), ("b", 10, 20), ("c", 20, 10), ("d", 30, 100), ("e", 100, 5), ("f", 130, 0)]
    events = assemble([read(saved(_step_stats(nodes)))]).to_pylist()
    lanes = {json.loads(event["attributes"])["node"]: event["thread"][-1] for event in events}
    assert lanes == {"a": "0", "b": "1", "c": "2", "d": "1", "e": "0", "f": "0"}
    assert [event["parent_id"] for event in events] == [None] * len(events)


def test_the_nodes_of_a_function_are_inside_its_call(recorded: Any, saved: Any) -> None:
    events = assemble([read(saved(recorded["call"]))]).to_pylist()
    (call,) = [event for event in events if event["name"].endswith("PartitionedCall")]
    children = [event["name"] for event in events if event["parent_id"] == call["id"]]
    assert children.count("MatMul") == 3
    assert call["self_ns"] < call["duration_ns"]


def test_runs_of_the_same_device_share_lanes(recorded: Any, saved: Any) -> None:
    first, second = (set(read(saved(recorded[run])).column("tid").to_pylist()) for run in ("train", "call"))
    assert first & second


def _step_stats(nodes: list[tuple[str, int, int]], device: str = "/device:CPU:0") -> Any:
    """Nodes with start and duration, relative to one second after the epoch."""
    stats = [
        {
            "node_name": name,
            "timeline_label": f"{name} = Add()",
            "all_start_nanos": 10**9 + start,
            "all_end_rel_nanos": duration,
        }
        for name, start, duration in nodes
    ]
    return step_stats_pb2.StepStats(dev_stats=[{"device": device, "node_stats": stats}])


# --- canonical operators --------------------------------------------------------------------------------------------

EXPECTED_OPS = {
    ("Conv", "forward"): 1,
    ("Conv", "backward"): 1,
    ("BatchNormalization", "forward"): 1,
    ("BatchNormalization", "backward"): 1,
    ("MaxPool", "forward"): 1,
    ("MaxPool", "backward"): 1,
    ("Gemm", "forward"): 1,
    ("MatMul", "backward"): 2,
    ("SoftmaxCrossEntropyLoss", "forward"): 1,
    ("Adam", "update"): 6,
}


@pytest.mark.parametrize("name", ["train.pb", "train_onednn.pb"])
def test_operators_of_a_training_step(name: str) -> None:
    counts = Counter((row["op"], row["direction"]) for row in rows(read(GOLDEN / name)))
    assert {key: counts[key] for key in EXPECTED_OPS} == EXPECTED_OPS


def test_operators_of_this_tensorflow_with_onednn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    subprocess.run([sys.executable, GOLDEN / "record.py", tmp_path], check=True, capture_output=True)
    events = rows(read(tmp_path / "train_onednn.pb"))
    assert any(event["name"].startswith("_Mkl") for event in events)
    assert [event["name"] for event in events if event["op"] is None] == []
    counts = Counter((row["op"], row["direction"]) for row in events)
    assert {key: counts[key] for key in EXPECTED_OPS} == EXPECTED_OPS


def test_everything_in_a_training_step_has_operator_origin_and_direction() -> None:
    for event in rows(read(GOLDEN / "train.pb")):
        assert None not in (event["op"], event["origin"], event["direction"]), event


def test_origins_and_modules_of_a_training_step() -> None:
    nodes = {event["attributes"]["node"]: event for event in rows(read(GOLDEN / "train.pb"))}
    backward = nodes["gradients/conv2d/BiasAdd_grad/BiasAddGrad"]
    assert (backward["op"], backward["origin"], backward["module"]) == ("ReduceSum", "Conv", "conv2d")
    update = nodes["Adam/update_dense/kernel/ResourceApplyAdam"]
    assert (update["origin"], update["direction"], update["module"]) == ("Adam", "update", None)


def test_each_iteration_of_a_loop_is_an_event(recorded: Any, saved: Any) -> None:
    in_loop = [row for row in rows(read(saved(recorded["train"]))) if row["attributes"]["node"].startswith("while/")]
    counts = Counter(row["name"] for row in in_loop)
    assert (counts["Less"], counts["LoopCond"], counts["Mul"]) == (3, 3, 2)
    assert {row["direction"] for row in in_loop} == {"forward"}


# --- forms that other versions and devices write --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "name", "inputs"),
    [
        ("[cpu 1.3MB 1.3MB] conv = Conv2D(x, k:1, ^c)", "Conv2D", ["x", "k:1", "^c"]),
        ("[cpu 1.3MB] [gpu_host_bfc 0.2MB 0.1MB] conv = Conv2D()", "Conv2D", None),
        (
            "conv = _Recv(edge_5 @/job:worker/replica:0/task:0/device:CPU:0",
            "_Recv",
            ["edge_5 @/job:worker/replica:0/task:0/device:CPU:0"],
        ),
        ("a/b = Examples>Mine(x)", "Examples>Mine", ["x"]),
    ],
)
def test_labels(saved: Any, label: str, name: str, inputs: list[str] | None) -> None:
    stats = _step_stats([("conv", 0, 1)])
    stats.dev_stats[0].node_stats[0].timeline_label = label
    (event,) = rows(read(saved(stats)))
    assert (event["name"], event["attributes"].get("inputs")) == (name, inputs)
    assert "label" not in event["attributes"]


def test_a_label_of_another_form_is_kept(saved: Any) -> None:
    stats = _step_stats([("RecvTensor", 0, 1)])
    stats.dev_stats[0].node_stats[0].timeline_label = "[1.0MB] edge_5 from /job:a to /job:b"
    (event,) = rows(read(saved(stats)))
    assert event["name"] == "RecvTensor"
    assert event["attributes"]["label"] == "[1.0MB] edge_5 from /job:a to /job:b"


def test_versions_with_microseconds_only(saved: Any) -> None:
    node = {"node_name": "n", "timeline_label": "n = Add()", "all_start_micros": 5, "op_start_rel_micros": 1}
    node |= {"op_end_rel_micros": 2, "all_end_rel_micros": 3, "scheduled_micros": 4}
    (event,) = rows(
        read(saved(step_stats_pb2.StepStats(dev_stats=[{"device": "/device:CPU:0", "node_stats": [node]}])))
    )
    assert (event["start_ns"], event["duration_ns"]) == (5000, 3000)
    times = {"scheduled_ns": 4000, "op_start_rel_ns": 1000, "op_end_rel_ns": 2000}
    assert event["attributes"] == {"node": "n", **times}


ON_A_GPU = """
dev_stats { device: "/job:localhost/replica:0/task:0/device:GPU:0" node_stats {
  node_name: "conv" timeline_label: "conv = Conv2D(x)" all_start_nanos: 1000 all_end_rel_nanos: 10
  memory { allocator_name: "GPU_0_bfc" total_bytes: 64 allocation_records { alloc_micros: 1 alloc_bytes: 64 } }
  memory { allocator_name: "gpu_host_bfc" total_bytes: 8 allocation_records { alloc_micros: 1 alloc_bytes: 8 } } } }
dev_stats { device: "/device:GPU:0/stream:all" node_stats {
  node_name: "conv:Conv2D" timeline_label: "void k<float, 2>(x) regs:32 shm:0 grid:1,1,1 block:64,1,1@@conv:Conv2D"
  all_start_nanos: 1005 all_end_rel_nanos: 20 thread_id: 9 scheduled_micros: 1 } }
dev_stats { device: "/device:GPU:0/stream:14" node_stats {
  node_name: "conv:Conv2D" timeline_label: "void k<float, 2>(x) regs:32 shm:0 grid:1,1,1 block:64,1,1@@conv:Conv2D"
  all_start_nanos: 1005 all_end_rel_nanos: 20 thread_id: 9 scheduled_micros: 1 } }
dev_stats { device: "/device:GPU:0/memcpy" node_stats {
  node_name: "x:_Recv" timeline_label: "x:_Recv bytes:64 aync" all_start_nanos: 990 all_end_rel_nanos: 5 } }
dev_stats { device: "/device:GPU:0/stream:15<MemcpyH2D>" node_stats {
  node_name: "x:_Recv" timeline_label: "x:_Recv bytes:64 aync" all_start_nanos: 990 all_end_rel_nanos: 5 } }
dev_stats { device: "/device:GPU:0/sync" node_stats {
  node_name: "cuStreamSynchronize" timeline_label: "ThreadId 9" all_start_nanos: 1020 all_end_rel_nanos: 9 } }
"""
"""Written by hand, in the form that TensorFlow's source code writes."""


@pytest.fixture
def on_a_gpu(saved: Any) -> list[Row]:
    stats = text_format.Parse(ON_A_GPU, step_stats_pb2.StepStats())
    return rows(read(saved(stats)), "op", "kernel", "copy", "runtime", "memory")


def test_kernels_and_copies_of_an_accelerator(on_a_gpu: list[Row]) -> None:
    columns = ("kind", "layer", "name", "op", "direction", "device", "stream")
    assert [tuple(row[column] for column in columns) for row in on_a_gpu if row["kind"] != "memory"] == [
        ("op", "framework", "Conv2D", "Conv", "forward", "cuda:0", None),
        ("kernel", "runtime", "void k<float, 2>(x)", "Conv", "forward", "cuda:0", 14),
        ("copy", "runtime", "MemcpyH2D", "Identity", "forward", "cuda:0", 15),
        ("runtime", "runtime", "cuStreamSynchronize", None, None, "cuda:0", None),
    ]
    (kernel,) = [row["attributes"] for row in on_a_gpu if row["kind"] == "kernel"]
    assert kernel["node"] == "conv"
    assert kernel["details"] == "regs:32 shm:0 grid:1,1,1 block:64,1,1"
    assert kernel["thread_id"] == 9


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32 regs:96 grid:2,1,1@@c:CollectiveReduceV2", "collective"),
        ("MEMSET bytes:64@@x:Fill", "copy"),
        ("MEMCPYHtoD bytes:64", "copy"),
        ("gemm regs:96 grid:2,1,1@@c:MatMul", "kernel"),
    ],
)
def test_the_work_of_a_stream_has_the_kind_of_its_label(label: str, kind: str, saved: Any) -> None:
    stats = _step_stats([("n", 0, 5)], device="/device:GPU:0/stream:3")
    stats.dev_stats[0].node_stats[0].timeline_label = label
    (event,) = read(saved(stats)).to_pylist()
    assert (event["kind"], event["layer"], event["device"], event["stream"]) == (kind, "runtime", "cuda:0", 3)


def test_memory_belongs_to_the_device_of_its_allocator(on_a_gpu: list[Row]) -> None:
    memory = {row["attributes"]["allocator"]: row["device"] for row in on_a_gpu if row["kind"] == "memory"}
    assert memory == {"GPU_0_bfc": "cuda:0", "gpu_host_bfc": "cpu:0"}


def test_names_of_types_are_those_of_tensorflow() -> None:
    numbers = [number for name, number in types_pb2.DataType.items() if name != "DT_INVALID"]
    assert {number: dtype_name(number) for number in numbers} == {n: tf.as_dtype(n).name for n in numbers}
    assert dtype_name(77) == "77"


def test_fields_are_those_of_tensorflow() -> None:
    modules = (step_stats_pb2, allocation_description_pb2, tensor_description_pb2, tensor_shape_pb2, config_pb2)
    real = {name: message for module in modules for name, message in module.DESCRIPTOR.message_types_by_name.items()}
    real |= {"Dim": tensor_shape_pb2.TensorShapeProto.Dim.DESCRIPTOR}
    real |= {"ThreadName": step_stats_pb2.DeviceStepStats.ThreadNamesEntry.DESCRIPTOR}
    for name, ours in messages().items():
        numbers = {field.name: field.number for field in real[name].fields}
        assert {field.name: field.number for field in ours.DESCRIPTOR.fields}.items() <= numbers.items()


# --- recognizing, damage, and no TensorFlow -------------------------------------------------------------------------


def test_files_of_the_kind_are_recognized_whatever_their_name(recorded: Any, saved: Any) -> None:
    assert recognizes(saved(recorded["train"]))
    assert recognizes(saved(recorded["train"].step_stats))
    assert len(rows(read(saved(recorded["train"].step_stats)))) == len(_nodes(recorded["train"]))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x0a",
        b"\x0a\x00",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x0a\x03\x0a\x7f/job:",
        b'{"traceEvents": []}',
        b"\x80\x05\x95\x0a\x00/job:localhost",
        b"\x0a/job:localhost/replica:0/task:0/device:CPU:0",
        tf.io.encode_base64("/job:localhost").numpy(),
    ],
)
def test_other_files_are_not_recognized(saved: Any, content: bytes) -> None:
    assert not recognizes(saved(content))


def test_other_protobufs_are_not_recognized(saved: Any) -> None:
    space = xplane_pb2.XSpace(planes=[{"name": "/host:CPU", "lines": [{"name": "/job:localhost"}]}])
    graph = tf.function(lambda x: x + 1).get_concrete_function(1).graph.as_graph_def()
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 1})
    assert [recognizes(saved(message)) for message in (space, graph, config)] == [False] * 3


def test_directories_and_missing_files_are_not_recognized(tmp_path: Path) -> None:
    assert not recognizes(tmp_path)
    assert not recognizes(tmp_path / "missing.pb")


@pytest.mark.parametrize("share", [0.002, 0.3, 0.7, 0.99])
def test_a_truncated_file_is_recognized_and_reported(saved: Any, share: float) -> None:
    whole = (GOLDEN / "train.pb").read_bytes()
    path = saved(whole[: int(len(whole) * share)])
    assert recognizes(path)
    with pytest.raises(TraceFormatError, match=r"run\.pb is damaged, perhaps cut off"):
        read(path)


def test_impossible_times_are_reported(saved: Any) -> None:
    stats = _step_stats([("n", 0, 1)])
    stats.dev_stats[0].node_stats[0].all_start_nanos = 0
    stats.dev_stats[0].node_stats[0].all_start_micros = 1 << 62
    with pytest.raises(TraceFormatError, match=r"run\.pb cannot be read; expected TensorFlow's RunMetadata"):
        read(saved(stats))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=4))
def test_damage_of_any_kind_is_reported_or_harmless(tmp_path_factory: pytest.TempPathFactory, changes: Any) -> None:
    content = bytearray((GOLDEN / "multiply.pb").read_bytes())
    for position, byte in changes:
        content[position % len(content)] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.pb"
    path.write_bytes(content)
    with contextlib.suppress(TraceFormatError):
        assemble([read(path)])


def test_an_empty_file_is_reported(saved: Any) -> None:
    with pytest.raises(TraceFormatError, match="is empty"):
        read(saved(b""))


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="cannot be read"):
        read(tmp_path / "missing.pb")


def test_the_error_for_run_metadata_without_nodes_names_what_fills_it(saved: Any) -> None:
    with pytest.raises(TraceFormatError, match="Only runs of v1 sessions"):
        read(saved(config_pb2.RunMetadata(partition_graphs=[{}], step_stats={})))


def test_reading_needs_no_tensorflow() -> None:
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "from pathlib import Path\n"
        "from unified_profiler_tensorflow.read.run_metadata import events, step_stats, timeline\n"
        f"golden = Path({str(GOLDEN)!r})\n"
        "run, document = golden / 'train.pb', golden / 'multiply_timeline.json'\n"
        "assert step_stats.recognizes(run) and timeline.recognizes(document)\n"
        "print(len(events.read(run)), len(timeline.read(document)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert all(int(count) > 0 for count in done.stdout.split())


@pytest.mark.parametrize("change", [{"all_start_nanos": (1 << 63) - 1}, {"all_end_rel_nanos": -5}])
def test_times_that_no_trace_can_have_are_damage(change: dict[str, int], saved: Any) -> None:
    stats = _step_stats([("n", 1, 1)])
    for name, value in change.items():
        setattr(stats.dev_stats[0].node_stats[0], name, value)
    with pytest.raises(TraceFormatError, match=r"run\.pb cannot be read.* has (start|duration)_ns"):
        read(saved(stats))
