"""Planes of accelerators, built by hand in TensorFlow's public layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer

DETAILS = "kind_src:pageable kind_dst:device size:64 dest:0 async:1"
START = 1_700_000_000_000_000_000


class Builder:
    """Adds lines and events to a plane."""

    def __init__(self, space: Any, name: str) -> None:
        self.plane = space.planes.add(name=name)

    def line(self, name: str) -> Any:
        return self.plane.lines.add(name=name, id=len(self.plane.lines) + 1, timestamp_ns=100)

    def event(self, line: Any, name: str, offset_ps: int, duration_ps: int, **stats: Any) -> None:
        event = line.events.add(metadata_id=self._number(self.plane.event_metadata, name), offset_ps=offset_ps)
        event.duration_ps = duration_ps
        for key, value in stats.items():
            self.stat(event, key, value)

    def stat(self, owner: Any, key: str, value: Any) -> None:
        stat = owner.stats.add(metadata_id=self._number(self.plane.stat_metadata, key))
        if isinstance(value, str):
            stat.str_value = value
        else:
            stat.uint64_value = value

    @staticmethod
    def _number(names: Any, name: str) -> int:
        number = next((entry.id for entry in names.values() if entry.name == name), len(names) + 1)
        names[number].id, names[number].name = number, name
        return number


@pytest.fixture
def events(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """The events of a recording with two streams, by name."""
    space = xplane_pb2.XSpace(hostnames=["far"], errors=["no counters"])
    gpu, api, host = (Builder(space, name) for name in ("/device:GPU:1", "/host:CUPTI", "/host:CPU"))
    compute, copies, scopes = (gpu.line(n) for n in ("Stream #14(Compute)", "Stream #7(MemcpyH2D)", "TensorFlow Ops"))
    gpu.event(compute, "gemm", 1_500, 2_750, correlation_id=3, tf_op="gradient_tape/dense/MatMul:MatMul", grid="1,2")
    gpu.event(compute, "ncclDevKernel_AllReduce", 9_000, 1_000, correlation_id=4)
    gpu.event(copies, "MemcpyH2D", 500, 800, correlation_id=5, memcpy_details=DETAILS)
    gpu.event(scopes, "MatMul", 1_500, 2_750)
    api.event(api.line("1234"), "cuLaunchKernel", 200, 300, correlation_id=3)
    python = host.line("python")
    host.event(python, "dense/MatMul:MatMul", 100, 500)
    host.event(
        python, "MemoryAllocation", 700, 0, allocator_name="GPU_1_bfc", allocation_bytes=256, bytes_allocated=512
    )
    task = Builder(space, "Task Environment")
    task.stat(task.plane, "profile_start_time", START)
    return read(space, tmp_path)


def read(space: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """The events of a recording, by thread and name."""
    path = folder / "far.xplane.pb"
    path.write_bytes(space.SerializeToString())
    table = TensorFlowNormalizer().normalize(NativeCapture(backend="tensorflow", files=(path,)))
    return {f"{event['thread']} {event['name']}": event for event in table.to_pylist()}


def test_kernels_and_copies_have_device_stream_and_correlation(events: dict[str, dict[str, Any]]) -> None:
    kernel, copy = events["Stream #14(Compute) gemm"], events["Stream #7(MemcpyH2D) MemcpyH2D"]
    columns = ("layer", "kind", "device", "stream", "correlation_id", "pid", "tid")
    assert [kernel[name] for name in columns] == ["runtime", "kernel", "cuda:1", 14, 3, 1, 14]
    assert [copy[name] for name in columns] == ["runtime", "copy", "cuda:1", 7, 5, 1, 7]


def test_a_kernel_has_the_operator_of_the_node_that_launched_it(events: dict[str, dict[str, Any]]) -> None:
    kernel = events["Stream #14(Compute) gemm"]
    assert (kernel["op"], kernel["origin"], kernel["direction"]) == ("MatMul", "Gemm", "backward")
    assert json.loads(kernel["attributes"]) == {"tf_op": "gradient_tape/dense/MatMul:MatMul", "grid": "1,2"}


def test_kernels_of_nccl_are_collectives(events: dict[str, dict[str, Any]]) -> None:
    assert events["Stream #14(Compute) ncclDevKernel_AllReduce"]["kind"] == "collective"


def test_the_launch_is_a_runtime_event_of_the_same_correlation(events: dict[str, dict[str, Any]]) -> None:
    launch = events["1234 cuLaunchKernel"]
    assert (launch["kind"], launch["device"], launch["correlation_id"]) == ("runtime", "cpu:0", 3)


def test_lines_that_repeat_the_work_of_streams_are_regions(events: dict[str, dict[str, Any]]) -> None:
    repeated = events["TensorFlow Ops MatMul"]
    assert (repeated["kind"], repeated["layer"], repeated["stream"]) == ("region", "framework", None)


def test_allocations_are_of_the_device_of_their_allocator(events: dict[str, dict[str, Any]]) -> None:
    allocation = events["python MemoryAllocation"]
    columns = ("kind", "device", "bytes", "value")
    assert tuple(allocation[name] for name in columns) == ("memory", "cuda:1", 256, 512)


def test_picoseconds_are_rounded_down_at_both_ends(events: dict[str, dict[str, Any]]) -> None:
    kernel = events["Stream #14(Compute) gemm"]
    assert (kernel["start_ns"], kernel["duration_ns"]) == (START + 101, 3)


def test_the_host_is_named(events: dict[str, dict[str, Any]]) -> None:
    assert {event["host"] for event in events.values()} == {"far"}


def test_a_copy_has_its_size(events: dict[str, dict[str, Any]]) -> None:
    assert events["Stream #7(MemcpyH2D) MemcpyH2D"]["bytes"] == 64
    assert events["Stream #14(Compute) gemm"]["bytes"] is None


def test_instructions_of_a_device_without_streams_are_its_work(tmp_path: Path) -> None:
    space = xplane_pb2.XSpace()
    tpu, task = Builder(space, "/device:TPU:2"), Builder(space, "Task Environment")
    task.stat(task.plane, "profile_start_time", START)
    modules, ops, transfers = (tpu.line(name) for name in ("XLA Modules", "XLA Ops", "Async XLA Ops"))
    tpu.event(modules, "jit_step(1)", 0, 90_000)
    names = ("%fusion.3 = f32[8]{0} fusion(...)", "all-reduce.1", "%copy.5 = f32[8]{0} copy(...)", "copy_fusion.2")
    for number, name in enumerate(names):
        tpu.event(ops, name, 10_000 * number, 5_000)
    tpu.event(transfers, "%async-start.2", 1_000, 20_000, hlo_category="all-gather")
    events = read(space, tmp_path)
    kinds = {name: (event["kind"], event["layer"], event["device"]) for name, event in events.items()}
    assert kinds == {
        "XLA Modules jit_step(1)": ("region", "framework", "tpu:2"),
        f"XLA Ops {names[0]}": ("kernel", "runtime", "tpu:2"),
        f"XLA Ops {names[1]}": ("collective", "runtime", "tpu:2"),
        f"XLA Ops {names[2]}": ("copy", "runtime", "tpu:2"),
        f"XLA Ops {names[3]}": ("kernel", "runtime", "tpu:2"),
        "Async XLA Ops %async-start.2": ("collective", "runtime", "tpu:2"),
    }
    streams = {event["thread"]: event["stream"] for event in events.values()}
    assert streams == {"XLA Modules": None, "XLA Ops": 2, "Async XLA Ops": 3}


def test_lines_beside_streams_repeat_their_work(tmp_path: Path) -> None:
    space = xplane_pb2.XSpace()
    gpu, task = Builder(space, "/device:GPU:0"), Builder(space, "Task Environment")
    task.stat(task.plane, "profile_start_time", START)
    stream, ops = gpu.line("Stream #1(Compute)"), gpu.line("XLA Ops")
    gpu.event(stream, "fusion_3", 0, 5_000)
    gpu.event(ops, "fusion.3", 0, 5_000)
    kinds = {name: event["kind"] for name, event in read(space, tmp_path).items()}
    assert kinds == {"Stream #1(Compute) fusion_3": "kernel", "XLA Ops fusion.3": "region"}
