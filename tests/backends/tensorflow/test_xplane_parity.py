"""Compares recordings of Keras in all its modes with a plain walk over the file by TensorFlow's own classes."""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from unified_profiler.model.alignment import CLOCK_SLACK_NS
from unified_profiler.model.assembly import assemble
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer
from unified_profiler_tensorflow.record.recorder import TensorFlowRecorder

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "run_eagerly": {"run_eagerly": True},
    "jit_compile": {"jit_compile": True},
    "steps_per_execution": {"steps_per_execution": 2},
}
NODE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*:[A-Z_][A-Za-z0-9_]*")
FUNCTION = "__inference_"
WAIT = "Op::DoCompute"
FETCH = re.compile(rf"IteratorGetNext(AsOptional)?{WAIT}")


@dataclass(frozen=True, eq=False)
class Walked:
    """An event as decoded by TensorFlow's own classes."""

    line: str
    name: str
    stats: dict[str, Any]
    start_ns: int
    duration_ns: int

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


def walk(path: Path) -> Iterator[Walked]:
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    for plane in space.planes:
        if plane.name != "/host:CPU":
            continue
        for line in plane.lines:
            for event in line.events:
                stats = {plane.stat_metadata[s.metadata_id].name: _value(plane, s) for s in event.stats}
                start_ns = _start(space) + line.timestamp_ns + event.offset_ps // 1000
                name = plane.event_metadata[event.metadata_id].name
                yield Walked(line.name, name, stats, start_ns, event.duration_ps // 1000)


def _start(space: Any) -> int:
    (task,) = (plane for plane in space.planes if plane.name == "Task Environment")
    return int({task.stat_metadata[s.metadata_id].name: s.uint64_value for s in task.stats}["profile_start_time"])


def _value(plane: Any, stat: Any) -> Any:
    kind = stat.WhichOneof("value")
    return plane.stat_metadata[stat.ref_value].name if kind == "ref_value" else getattr(stat, kind)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Records two batches of `fit` in a mode, once."""

    @cache
    def run(mode: str) -> Path:
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.MaxPool2D(), keras.layers.Flatten()]
        model = keras.Sequential([keras.Input((12, 12, 1)), *layers, keras.layers.Dense(3)])
        model.compile("adam", "mse", **MODES[mode])
        images, targets = np.ones((16, 12, 12, 1), "float32"), np.zeros((16, 3), "float32")
        model.fit(images, targets, batch_size=8, verbose=0)
        logdir = tmp_path_factory.mktemp(mode)
        tf.profiler.experimental.start(str(logdir))
        model.fit(images, targets, batch_size=8, verbose=0)
        tf.profiler.experimental.stop()
        (file,) = logdir.rglob("*.xplane.pb")
        return file

    return run


def normalized(path: Path) -> list[dict[str, Any]]:
    table = TensorFlowNormalizer().normalize(NativeCapture(backend="tensorflow", files=(path,)))
    events: list[dict[str, Any]] = table.to_pylist()
    return events


def node_of(event: dict[str, Any]) -> str | None:
    node: str | None = json.loads(event["attributes"] or "{}").get("node")
    return node


def true_duration_ns(event: Walked, events: list[Walked]) -> int:
    """Return how long an XLA instruction took: until its mark, or until a waiting one began on the mark's thread."""
    marks = [e for e in events if e.name.startswith("end: ") and e.stats["_c"] == event.stats["_p"]]
    (mark,) = marks or [event]
    if mark.start_ns <= event.end_ns:
        return event.duration_ns
    thread = [e for e in events if e.line == mark.line and e.end_ns <= mark.start_ns]
    work = [e for e in thread if "hlo_op" in e.stats or e.name == "ThunkExecutor::Execute"]
    tasks = [e for e in thread if e.name.startswith("ThreadpoolListener::")]
    alone = [t for t in tasks if not any(e.start_ns <= t.start_ns <= e.end_ns for e in work)]
    begun = max(task.start_ns for task in alone)
    done = min((e.start_ns for e in work if e.start_ns >= begun), default=mark.start_ns)
    return done - event.start_ns


def expected_operators(path: Path) -> dict[tuple[str, str | None], list[tuple[int, int]]]:
    """Start and duration of nodes, starts of asynchronous nodes and kernels of eager calls, by type and node.

    A wait for data on a thread of its own counts instead of the start of its node.
    """
    operators: dict[tuple[str, str | None], list[tuple[int, int]]] = defaultdict(list)
    events = sorted(walk(path), key=lambda event: (event.line, event.start_ns, -event.duration_ns))
    waits = {event for event in events if FETCH.fullmatch(event.name) and event.line.startswith("tf_data")}
    types = {event.name.removesuffix(WAIT) for event in waits}
    nodes = {kind: {e.stats["name"] for e in events if e.stats.get("kernel_type") == kind} for kind in types}
    called = ""
    for event in events:
        name = event.name
        if name.startswith("EagerLocalExecute: "):
            called = name.removeprefix("EagerLocalExecute: ")
        times = event.start_ns, event.duration_ns
        if "hlo_op" in event.stats:
            operators[name, "xla"].append((event.start_ns, true_duration_ns(event, events)))
        elif event in waits:
            kind = name.removesuffix(WAIT)
            operators[kind, min(nodes[kind]) if len(nodes[kind]) == 1 else None].append(times)
        elif name == "ExecutorState::ProcessAsync::Start" and event.stats["kernel_type"] not in types:
            operators[event.stats["kernel_type"], event.stats["name"]].append(times)
        elif name == "KernelAndDeviceFunc::Run" and not called.startswith(FUNCTION):
            operators[called, None].append(times)
        elif NODE.fullmatch(name) and FUNCTION not in name:
            node, _, op_type = name.rpartition(":")
            operators[op_type, node].append(times)
    return {key: sorted(times) for key, times in operators.items()}


@pytest.mark.parametrize("mode", MODES)
def test_operators_nodes_starts_and_durations_are_those_of_the_file(mode: str, record: Callable[[str], Path]) -> None:
    operators = defaultdict(list)
    for event in normalized(record(mode)):
        if event["kind"] == "op":
            node = "xla" if "hlo_op" in (event["attributes"] or "") else node_of(event)
            operators[event["name"], node].append((event["start_ns"], event["duration_ns"]))
    expected = expected_operators(record(mode))
    assert {key: sorted(times) for key, times in operators.items()} == expected
    assert len(expected) > 30


@pytest.fixture(scope="module")
def convolution(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, int]]]:
    """A recording of a compiled convolution, and when each of its calls was made and had its result."""
    kernel, images = tf.Variable(tf.ones((3, 3, 16, 32))), tf.ones((8, 64, 64, 16))
    folder, calls = tmp_path_factory.mktemp("convolution"), []

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def convolve() -> Any:
        return tf.reduce_sum(tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME")))

    convolve()
    recorder = TensorFlowRecorder(RecordOptions(), folder)
    recorder.arm()
    recorder.start()
    for _ in range(5):
        start = time.time_ns()
        convolve().numpy()
        calls.append((start, time.time_ns()))
    (path,) = recorder.stop().files
    return path, calls


def instructions(path: Path) -> list[dict[str, Any]]:
    return [event for event in normalized(path) if "hlo_op" in (event["attributes"] or "")]


def test_instructions_last_from_their_start_until_they_are_done(convolution: tuple[Path, object]) -> None:
    path, _ = convolution
    events = list(walk(path))
    walked = [e for e in events if "hlo_op" in e.stats]
    expected = sorted((e.name, e.start_ns, true_duration_ns(e, events)) for e in walked)
    rows = instructions(path)
    assert sorted((e["name"], e["start_ns"], e["duration_ns"]) for e in rows) == expected
    assert sum(e["duration_ns"] for e in rows) >= sum(e.duration_ns for e in walked)


def test_no_instruction_outlasts_the_call_that_waits_for_its_result(
    convolution: tuple[Path, list[tuple[int, int]]],
) -> None:
    path, calls = convolution
    starts = np.array([start for start, _ in calls])
    rows = instructions(path)
    call = np.searchsorted(starts, [event["start_ns"] for event in rows], side="right") - 1
    assert Counter(call.tolist()) == dict.fromkeys(range(5), len(rows) // 5)
    ends = [event["start_ns"] + event["duration_ns"] for event in rows]
    assert all(end <= calls[n][1] + CLOCK_SLACK_NS for end, n in zip(ends, call, strict=True))
    unmarked = [n for event, n in zip(rows, call, strict=True) if "finished" in json.loads(event["attributes"])]
    assert set(unmarked) <= {4}  # recording ended before the mark


def test_a_compiled_loop_is_no_operator_beside_those_in_it(tmp_path: Path) -> None:
    kernel, images = tf.Variable(tf.ones((3, 3, 8, 8))), tf.ones((4, 32, 32, 8))

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def convolve(times: Any) -> Any:
        return tf.while_loop(
            lambda n, _: n < times, lambda n, x: (n + 1, tf.nn.conv2d(x, kernel, 1, "SAME") * 0.1), (0, images)
        )

    convolve(tf.constant(3))
    recorder = TensorFlowRecorder(RecordOptions(), tmp_path)
    recorder.arm()
    recorder.start()
    convolve(tf.constant(3))[1].numpy()
    (path,) = recorder.stop().files
    kinds = Counter((event["name"].partition(".")[0], event["kind"]) for event in instructions(path))
    assert kinds["while", "runtime"] == 1
    assert kinds["while", "op"] == 0
    assert kinds["Conv2D", "op"] == 3


@pytest.mark.parametrize("mode", MODES)
def test_every_other_event_is_there_with_name_start_and_duration(mode: str, record: Callable[[str], Path]) -> None:
    operators = Counter(time for times in expected_operators(record(mode)).values() for time in times)
    expected = Counter(
        (event.name, event.start_ns, event.duration_ns)
        for event in walk(record(mode))
        if not event.name.startswith("end: ")
    )
    events = normalized(record(mode))
    others = Counter((e["name"], e["start_ns"], e["duration_ns"]) for e in events if e["kind"] != "op")
    assert others <= expected
    assert len(events) == expected.total()
    assert operators.total() == expected.total() - others.total()


def test_each_eager_operator_is_counted_once(record: Callable[[str], Path]) -> None:
    calls = Counter(
        event.stats["eager_op"]
        for event in walk(record("run_eagerly"))
        if event.name == "EagerExecute" and not event.stats["is_func"]
    )
    counts = Counter(e["name"] for e in normalized(record("run_eagerly")) if e["kind"] == "op" and node_of(e) is None)
    assert counts == calls
    assert calls["Conv2D"] == 2


@pytest.mark.parametrize("mode", ["default", "run_eagerly", "steps_per_execution"])
def test_each_batch_has_its_convolution(mode: str, record: Callable[[str], Path]) -> None:
    counts = Counter(
        (event["op"], event["name"])
        for event in normalized(record(mode))
        if event["kind"] == "op" and event["name"] in {"_FusedConv2D", "Conv2D", "Conv2DBackpropFilter"}
    )
    assert counts[("Conv", "Conv2DBackpropFilter")] == 2
    assert counts[("Conv", "_FusedConv2D")] + counts[("Conv", "Conv2D")] == 2


def test_compiled_steps_have_layers_and_directions(record: Callable[[str], Path]) -> None:
    origins = {(e["origin"], e["direction"]) for e in normalized(record("jit_compile")) if e["kind"] == "op"}
    assert {("Conv", "forward"), ("MaxPool", "backward"), ("Adam", "update")} <= origins


@pytest.mark.parametrize("mode", MODES)
def test_operators_stay_on_their_threads_when_nested(mode: str, record: Callable[[str], Path]) -> None:
    table = TensorFlowNormalizer().normalize(NativeCapture(backend="tensorflow", files=(record(mode),)))
    nested = assemble([table])
    assert min(nested.column("self_ns").to_pylist()) >= 0
    columns = (table.column("name"), table.column("tid"), nested.column("tid"))
    moved = {name for name, old, new in zip(*(c.to_pylist() for c in columns), strict=True) if old != new}
    assert moved <= {"ExecutorState::Process"}


def test_shared_work_takes_no_time_from_its_operator(record: Callable[[str], Path]) -> None:
    table = TensorFlowNormalizer().normalize(NativeCapture(backend="tensorflow", files=(record("default"),)))
    events = assemble([table]).to_pylist()
    shared = [event for event in events if event["name"] == "ParallelFor"]
    assert shared
    assert not [event for event in shared if event["parent_id"] is not None]
    assert all(event["self_ns"] == event["duration_ns"] for event in events if event["name"] == "MaxPool")
