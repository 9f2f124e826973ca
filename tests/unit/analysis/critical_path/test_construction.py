"""The graph of a trace: small traces whose dependencies are written down by hand, and random ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unified_profiler as up
from unified_profiler.analysis.critical_path.arrivals import ARRIVALS
from unified_profiler.analysis.critical_path.changes import Changes
from unified_profiler.analysis.critical_path.construction import TraceGraph, trace_graph
from unified_profiler.analysis.critical_path.pieces import PathRequest, path_facts
from unified_profiler.analysis.critical_path.prediction import predictions
from unified_profiler.analysis.critical_path.stitching import Stitcher
from unified_profiler.registry import conventions
from unified_profiler.testing import TraceBuilder

GPU = {"device": "cuda:0", "layer": "runtime", "pid": 0}


def segments(builder: TraceBuilder, **options: Any) -> list[tuple[str, str, int, int]]:
    """Return kind, name, start and end of each segment of a trace's path."""
    path = up.critical_path(builder.build(), **options)
    return [(row.kind, row.name, row.start_ns, row.end_ns) for row in path]


def kernel(builder: TraceBuilder, name: str, start: int, end: int, *, launch: int, stream: int = 7) -> TraceBuilder:
    columns = {**GPU, "stream": stream, "tid": stream, "kind": "kernel", "correlation_id": launch}
    return builder.op(name, start, end - start, **columns)


def call(builder: TraceBuilder, name: str, start: int, end: int, *, number: int | None = None) -> TraceBuilder:
    return builder.op(name, start, end - start, kind="runtime", layer="runtime", device="cpu:0", correlation_id=number)


def record(builder: TraceBuilder, name: str, number: int, *, stream: int, **attributes: int) -> TraceBuilder:
    """Add a synchronization record of a device."""
    columns = {**GPU, "stream": stream, "tid": 99, "kind": "runtime", "correlation_id": number}
    return builder.op(name, 0, 1, **columns, attributes=json.dumps({"cuda_sync_kind": name, **attributes}))


# --- host threads -----------------------------------------------------------------------------------------------------


def test_nested_operators_are_cut_into_the_time_of_the_innermost() -> None:
    builder = TraceBuilder().step(0, 0, 100).op("outer", 10, 60).op("inner", 20, 30)
    assert segments(builder) == [
        ("gap", "gap", 0, 10),
        ("op", "outer", 10, 20),
        ("op", "inner", 20, 50),
        ("op", "outer", 50, 70),
        ("gap", "gap", 70, 100),
    ]


def test_a_gap_in_a_region_is_named_after_it() -> None:
    builder = TraceBuilder().step(0, 0, 100).region("forward", 0, 60).op("a", 10, 20)
    assert segments(builder)[2:] == [("gap", "forward", 30, 60), ("gap", "gap", 60, 100)]


def test_operators_within_data_loading_are_data() -> None:
    builder = TraceBuilder().step(0, 0, 100).region("load_batch", 10, 50).op("stack", 20, 20).op("a", 60, 40)
    assert segments(builder)[1:] == [
        ("data", "load_batch", 10, 20),
        ("data", "load_batch", 20, 40),
        ("data", "load_batch", 40, 60),
        ("op", "a", 60, 100),
    ]


def test_an_operator_of_another_thread_within_a_gap_was_called_and_waited_for() -> None:
    builder = TraceBuilder().step(0, 0, 100).op("a", 0, 20).op("backward", 30, 40, tid=2).op("b", 80, 20)
    assert segments(builder) == [
        ("op", "a", 0, 20),
        ("gap", "gap", 20, 30),
        ("op", "backward", 30, 70),
        ("gap", "gap", 70, 80),
        ("op", "b", 80, 100),
    ]


def test_of_parallel_threads_the_path_takes_the_last_and_what_ended_before_it_began() -> None:
    far = 1_000_000
    builder = TraceBuilder().step(0, 0, 10 * far)
    builder.op("x", far, 2 * far, tid=2).op("y", far, far, tid=3).op("z", 4 * far, 3 * far, tid=3)
    assert segments(builder)[1:-1] == [
        ("op", "x", far, 3 * far),
        ("gap", "gap", 3 * far, 4 * far),
        ("op", "z", 4 * far, 7 * far),
    ]


def test_an_operator_of_another_thread_during_one_of_the_main_thread_is_not_on_the_path() -> None:
    builder = TraceBuilder().step(0, 0, 100).op("a", 0, 50).op("b", 50, 50).op("other", 40, 30, tid=2)
    assert segments(builder) == [("op", "a", 0, 50), ("op", "b", 50, 100)]


def test_a_thread_that_prepares_data_ahead_is_not_waited_for() -> None:
    builder = TraceBuilder().step(0, 0, 100).op("copy", 30, 40, tid=2, thread="pin_memory")
    assert segments(builder) == [("gap", "gap", 0, 100)]


# --- devices ----------------------------------------------------------------------------------------------------------


def test_a_synchronizing_call_waits_for_kernels_and_they_for_their_launch() -> None:
    builder = TraceBuilder().step(0, 0, 100)
    call(builder, "cudaLaunchKernel", 5, 10, number=1)
    kernel(builder, "k", 14, 60, launch=1)
    call(builder, "cudaDeviceSynchronize", 20, 65, number=2)
    assert segments(builder) == [
        ("gap", "gap", 0, 5),
        ("runtime", "cudaLaunchKernel", 5, 10),
        ("launch", "cudaLaunchKernel", 10, 14),
        ("kernel", "k", 14, 60),
        ("sync", "cudaDeviceSynchronize", 60, 65),
        ("gap", "gap", 65, 100),
    ]


def test_a_kernel_behind_another_on_its_stream_follows_from_that() -> None:
    builder = TraceBuilder().step(0, 0, 100)
    call(builder, "cudaLaunchKernel", 0, 2, number=1)
    call(builder, "cudaLaunchKernel", 2, 4, number=2)
    kernel(builder, "k", 5, 30, launch=1)
    kernel(builder, "l", 31, 70, launch=2)
    call(builder, "cudaStreamSynchronize", 10, 70, number=3)
    assert segments(builder)[2:5] == [("kernel", "k", 5, 30), ("delay", "delay", 30, 31), ("kernel", "l", 31, 70)]


def test_a_kernel_waits_for_an_event_of_another_stream() -> None:
    builder = TraceBuilder().step(0, 0, 100)
    call(builder, "cudaLaunchKernel", 0, 2, number=1)
    call(builder, "cudaEventRecord", 2, 3, number=2)
    call(builder, "cudaStreamWaitEvent", 3, 4, number=3)
    call(builder, "cudaLaunchKernel", 4, 6, number=4)
    kernel(builder, "k", 5, 50, launch=1)
    kernel(builder, "l", 50, 90, launch=4, stream=8)
    record(builder, "Stream Wait Event", 3, stream=8, wait_on_stream=7, wait_on_cuda_event_record_corr_id=2)
    call(builder, "cudaStreamSynchronize", 10, 90, number=5)
    record(builder, "Stream Sync", 5, stream=8)
    names = [name for _, name, _, _ in segments(builder)]
    assert names == ["cudaLaunchKernel", "cudaLaunchKernel", "k", "l", "gap"]


def test_waiting_for_one_stream_does_not_wait_for_another() -> None:
    builder = TraceBuilder().step(0, 0, 100)
    call(builder, "cudaLaunchKernel", 0, 2, number=1)
    call(builder, "cudaLaunchKernel", 2, 4, number=2)
    kernel(builder, "k", 5, 40, launch=1)
    kernel(builder, "l", 5, 45, launch=2, stream=8)
    call(builder, "cudaStreamSynchronize", 10, 50, number=5)
    record(builder, "Stream Sync", 5, stream=7)
    assert segments(builder)[-3:] == [
        ("kernel", "k", 5, 40),
        ("sync", "cudaStreamSynchronize", 40, 50),
        ("gap", "gap", 50, 100),
    ]


def test_a_blocking_copy_holds_up_its_call() -> None:
    builder = TraceBuilder().step(0, 0, 100)
    call(builder, "cudaMemcpyAsync", 10, 50, number=1)
    builder.op("Memcpy DtoH", 20, 25, **GPU, stream=7, tid=7, kind="copy", correlation_id=1)
    assert segments(builder)[1:4] == [
        ("launch", "cudaMemcpyAsync", 10, 20),
        ("copy", "Memcpy DtoH", 20, 45),
        ("runtime", "cudaMemcpyAsync", 45, 50),
    ]


def test_a_device_that_is_behind_its_host_at_the_end_of_a_step_determines_the_path() -> None:
    builder = TraceBuilder().step(0, 0, 100)
    call(builder, "cudaLaunchKernel", 0, 2, number=1)
    call(builder, "cudaLaunchKernel", 2, 4, number=2)
    kernel(builder, "k", 5, 80, launch=1)
    kernel(builder, "l", 80, 150, launch=2)
    assert segments(builder)[-2:] == [("kernel", "k", 5, 80), ("kernel", "l", 80, 100)]


def test_lanes_are_named_after_threads_and_streams() -> None:
    builder = TraceBuilder().step(0, 0, 100).op("a", 0, 5, thread="MainThread")
    call(builder, "cudaLaunchKernel", 5, 10, number=1)
    kernel(builder, "k", 14, 60, launch=1)
    call(builder, "cudaDeviceSynchronize", 20, 65, number=2)
    path = up.critical_path(builder.build())
    assert [(row.lane, row.device, row.stream) for row in path if row.name == "k"] == [("cuda:0 stream 7", "cuda:0", 7)]


# --- random traces ----------------------------------------------------------------------------------------------------


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """Make host threads with nested events, launches, kernels on several streams, and synchronizing calls."""
    builder = TraceBuilder()
    if draw(st.booleans()):
        builder.step(0, 0, 60).step(1, 60, draw(st.integers(1, 60)))
    names = st.sampled_from(["op", "load_batch", "cudaLaunchKernel", "cudaStreamSynchronize", "cudaEventRecord"])
    numbers = st.one_of(st.none(), st.integers(1, 6))
    kinds = st.sampled_from(["op", "runtime", "collective", "region", "memory", "step"])
    for _ in range(draw(st.integers(0, 14))):
        start, duration = draw(st.integers(0, 100)), draw(st.integers(0, 40))
        kind, number = draw(kinds), draw(numbers)
        step = 7 if kind == "step" else None
        builder.op(
            draw(names), start, duration, kind=kind, tid=draw(st.integers(1, 3)), correlation_id=number, step=step
        )
    for _ in range(draw(st.integers(0, 8))):
        start, duration = draw(st.integers(0, 110)), draw(st.integers(0, 30))
        stream = draw(st.integers(7, 9))
        columns = {**GPU, "stream": stream, "tid": stream, "correlation_id": draw(numbers)}
        builder.op("work", start, duration, kind=draw(st.sampled_from(["kernel", "copy", "collective"])), **columns)
    for name in draw(st.lists(st.sampled_from(["Stream Wait Event", "Stream Sync", "Event Sync", "Context Sync"]))):
        known = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": draw(st.integers(1, 6))}
        record(builder, name, draw(st.integers(1, 6)), stream=draw(st.integers(7, 9)), **known)
    return builder


def graph_of(builder: TraceBuilder) -> TraceGraph | None:
    return trace_graph(builder.build().events, conventions())


@given(traces())
def test_a_replay_of_any_trace_reproduces_every_time(builder: TraceBuilder) -> None:
    graph = graph_of(builder)
    if graph is not None:
        assert graph.graph.replay().tolist() == graph.graph.time.tolist()


@given(traces())
def test_the_path_of_any_step_covers_it_exactly(builder: TraceBuilder) -> None:
    events = builder.build().events
    graph = trace_graph(events, conventions())
    request = PathRequest(conventions=conventions(), arrivals=ARRIVALS.empty_table(), starts={})
    path = Stitcher(path_facts(events, request)).paths().to_pylist()
    if graph is None:
        assert not path
        return
    steps = list(zip(graph.steps.number.tolist(), graph.steps.start.tolist(), graph.steps.end.tolist(), strict=True))
    whole = [(None, int(graph.graph.time.min()), int(graph.graph.time.max()))]
    for step, start, end in steps or whole:
        rows = [row for row in path if row["step"] == step]
        borders = [start, *(time for row in rows for time in (row["start_ns"], row["end_ns"])), end]
        assert borders[0::2] == borders[1::2]
        assert all(row["duration_ns"] == row["end_ns"] - row["start_ns"] > 0 for row in rows)


@given(traces())
def test_what_if_nothing_changes_is_the_measurement(builder: TraceBuilder) -> None:
    changes = Changes(dict.fromkeys(("gap", "op", "load_batch", "launch"), 1.0))
    rows = predictions(builder.build().events, conventions(), ARRIVALS.empty_table(), changes).to_pylist()
    assert all(row["measured_ns"] == row["predicted_ns"] for row in rows)


@pytest.mark.parametrize("step", [0, 1])
def test_the_path_of_one_step_is_that_of_all_steps(step: int) -> None:
    builder = TraceBuilder().step(0, 0, 50).step(1, 50, 60).op("a", 10, 60).op("b", 90, 10)
    everything = [row for row in up.critical_path(builder.build()) if row.step == step]
    assert list(up.critical_path(builder.build(), step=step)) == everything
