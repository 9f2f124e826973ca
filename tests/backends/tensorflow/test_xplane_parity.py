"""Keras in all its modes, walked plainly with TensorFlow's own classes and normalised by us."""

from __future__ import annotations

import json
import re
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

from unified_profiler.model.assembly import assemble
from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.normalise import TensorFlowNormaliser

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "run_eagerly": {"run_eagerly": True},
    "jit_compile": {"jit_compile": True},
    "steps_per_execution": {"steps_per_execution": 2},
}
NODE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_./>-]*:[A-Z_][A-Za-z0-9_]*")
FUNCTION = "__inference_"


@dataclass(frozen=True)
class Walked:
    """An event as TensorFlow's own classes have it."""

    line: str
    name: str
    stats: dict[str, Any]
    start_ns: int
    duration_ns: int


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


def normalised(path: Path) -> list[dict[str, Any]]:
    table = TensorFlowNormaliser().normalise(NativeCapture(backend="tensorflow", files=(path,)))
    events: list[dict[str, Any]] = table.to_pylist()
    return events


def node_of(event: dict[str, Any]) -> str | None:
    found: str | None = json.loads(event["attributes"] or "{}").get("node")
    return found


def expected_operators(path: Path) -> dict[tuple[str, str | None], list[tuple[int, int]]]:
    """Start and duration of nodes, starts of asynchronous nodes and kernels of eager calls, by type and node."""
    found: dict[tuple[str, str | None], list[tuple[int, int]]] = defaultdict(list)
    events = sorted(walk(path), key=lambda event: (event.line, event.start_ns, -event.duration_ns))
    called = ""
    for event in events:
        name = event.name
        if name.startswith("EagerLocalExecute: "):
            called = name.removeprefix("EagerLocalExecute: ")
        times = event.start_ns, event.duration_ns
        if "hlo_op" in event.stats:
            found[name, "xla"].append(times)
        elif name == "ExecutorState::ProcessAsync::Start":
            found[event.stats["kernel_type"], event.stats["name"]].append(times)
        elif name == "KernelAndDeviceFunc::Run" and not called.startswith(FUNCTION):
            found[called, None].append(times)
        elif NODE.fullmatch(name) and FUNCTION not in name:
            node, _, op_type = name.rpartition(":")
            found[op_type, node].append(times)
    return {key: sorted(times) for key, times in found.items()}


@pytest.mark.parametrize("mode", MODES)
def test_operators_nodes_starts_and_durations_are_those_of_the_file(mode: str, record: Callable[[str], Path]) -> None:
    found = defaultdict(list)
    for event in normalised(record(mode)):
        if event["kind"] == "op":
            node = "xla" if "hlo_op" in (event["attributes"] or "") else node_of(event)
            found[event["name"], node].append((event["start_ns"], event["duration_ns"]))
    expected = expected_operators(record(mode))
    assert {key: sorted(times) for key, times in found.items()} == expected
    assert len(expected) > 30


@pytest.mark.parametrize("mode", MODES)
def test_every_other_event_is_there_with_name_start_and_duration(mode: str, record: Callable[[str], Path]) -> None:
    operators = Counter(time for times in expected_operators(record(mode)).values() for time in times)
    expected = Counter(
        (event.name, event.start_ns, event.duration_ns)
        for event in walk(record(mode))
        if not event.name.startswith("end: ")
    )
    events = normalised(record(mode))
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
    found = Counter(e["name"] for e in normalised(record("run_eagerly")) if e["kind"] == "op" and node_of(e) is None)
    assert found == calls
    assert calls["Conv2D"] == 2


@pytest.mark.parametrize("mode", ["default", "run_eagerly", "steps_per_execution"])
def test_each_batch_has_its_convolution(mode: str, record: Callable[[str], Path]) -> None:
    found = Counter(
        (event["op"], event["name"])
        for event in normalised(record(mode))
        if event["kind"] == "op" and event["name"] in {"_FusedConv2D", "Conv2D", "Conv2DBackpropFilter"}
    )
    assert found[("Conv", "Conv2DBackpropFilter")] == 2
    assert found[("Conv", "_FusedConv2D")] + found[("Conv", "Conv2D")] == 2


def test_compiled_steps_tell_layers_and_directions(record: Callable[[str], Path]) -> None:
    found = {(e["origin"], e["direction"]) for e in normalised(record("jit_compile")) if e["kind"] == "op"}
    assert {("Conv", "forward"), ("MaxPool", "backward"), ("Adam", "update")} <= found


@pytest.mark.parametrize("mode", MODES)
def test_operators_stay_on_their_threads_when_nested(mode: str, record: Callable[[str], Path]) -> None:
    table = TensorFlowNormaliser().normalise(NativeCapture(backend="tensorflow", files=(record(mode),)))
    nested = assemble([table])
    assert min(nested.column("self_ns").to_pylist()) >= 0
    columns = (table.column("name"), table.column("tid"), nested.column("tid"))
    moved = {name for name, old, new in zip(*(c.to_pylist() for c in columns), strict=True) if old != new}
    assert moved <= {"ExecutorState::Process"}


def test_shared_work_takes_no_time_from_its_operator(record: Callable[[str], Path]) -> None:
    table = TensorFlowNormaliser().normalise(NativeCapture(backend="tensorflow", files=(record("default"),)))
    events = assemble([table]).to_pylist()
    shared = [event for event in events if event["name"] == "ParallelFor"]
    assert shared
    assert not [event for event in shared if event["parent_id"] is not None]
    assert all(event["self_ns"] == event["duration_ns"] for event in events if event["name"] == "MaxPool")
