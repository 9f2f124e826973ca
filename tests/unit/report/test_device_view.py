"""The data of the devices page, on a trace whose device times are known by construction."""

from __future__ import annotations

from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.report import device_timeline, device_view
from unified_profiler.report.device_timeline import device_timelines
from unified_profiler.report.document import document
from unified_profiler.testing import TraceBuilder

ON_HOST = {"layer": "runtime", "kind": "runtime", "device": "cpu:0"}
ON_DEVICE = {"layer": "runtime", "device": "cuda:0"}
EPOCH_NS = 1_700_000_000_000_000_000


def gpu_trace(*, rank: int = 0, steps: int = 1) -> up.Trace:
    """Make steps in which a device computes from 30 to 130 and from 320 to 420, and communicates from 400 to 500 ns."""
    builder = TraceBuilder(rank=rank, world_size=2)
    for step in range(steps):
        zero = EPOCH_NS + step * 1000
        builder.step(step, zero, 600)
        pieces = [("gemm", "kernel", 7, 10, 30), ("relu", "kernel", 7, 300, 320), ("sum", "collective", 20, 330, 400)]
        for number, (name, kind, stream, launch, start) in enumerate(pieces):
            shared = {"correlation_id": 10 * step + number, "step": step}
            builder.op("cudaLaunchKernel", zero + launch, 10, **shared, **ON_HOST)
            builder.op(name, zero + start, 100, kind=kind, stream=stream, tid=stream, **shared, **ON_DEVICE)
    return builder.build()


def slices_of(timeline: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """Return the track, name, start and end of each slice."""
    slices, tracks = timeline["slices"], timeline["tracks"]
    start, found = 0, []
    for index, delta in enumerate(slices["start"]):
        start += delta
        track = tracks[slices["track"][index]]
        title = track["name"] if track["device"] is None else track["device"]
        found.append((title, timeline["names"][slices["name"][index]], start, start + slices["duration"][index]))
    return found


def test_a_timeline_has_the_device_its_streams_and_their_gaps() -> None:
    (timeline,) = device_timelines(up.Run(traces=(gpu_trace(),)), ranks=[0], origin_ns=EPOCH_NS).documents
    assert (timeline["start"], timeline["duration"], timeline["step"]) == (30, 470, 0)
    assert slices_of(timeline) == [
        ("cuda:0", "compute", 0, 100),
        ("cuda:0", "host_late", 100, 290),
        ("cuda:0", "compute", 290, 370),
        ("cuda:0", "compute + communication", 370, 390),
        ("cuda:0", "communication", 390, 470),
        ("stream 7", "gemm", 0, 100),
        ("stream 7", "host_late", 100, 290),
        ("stream 7", "relu", 290, 390),
        ("stream 20", "sum", 370, 470),
    ]


def test_gaps_of_streams_have_a_category_of_their_own() -> None:
    (timeline,) = device_timelines(up.Run(traces=(gpu_trace(),)), ranks=[0], origin_ns=0).documents
    categories = [device_timeline.CATEGORIES[code] for code in timeline["slices"]["category"]]
    names = [name for _, name, _, _ in slices_of(timeline)]
    gaps = [category for name, category in zip(names, categories, strict=True) if name == "host_late"]
    assert gaps == ["host_late", "stream_idle"]


def test_a_stream_that_was_idle_since_the_step_before_does_not_widen_the_window() -> None:
    first, second = device_timelines(up.Run(traces=(gpu_trace(steps=2),)), ranks=[0], origin_ns=EPOCH_NS).documents
    assert first["duration"] == 470
    assert (second["start"], second["duration"]) == (500, 1000)  # the device was idle from 500 on
    assert ("stream 7", "host_late", -80, 530) in slices_of(second)


def test_the_shortest_are_left_out_and_counted() -> None:
    run = up.Run(traces=(gpu_trace(),))
    (timeline,) = device_timelines(run, ranks=[0], origin_ns=0, most_in_step=3).documents
    assert len(timeline["slices"]["start"]) == 3
    assert timeline["left_out"]["count"] == 6


def test_each_rank_has_a_step_even_if_there_is_no_room() -> None:
    run = up.Run(traces=(gpu_trace(steps=3), gpu_trace(rank=1, steps=3)))
    found = device_timelines(run, ranks=[0, 1], origin_ns=0, most=0)
    assert [timeline["rank"] for timeline in found.documents] == [0, 1]
    assert found.left_out == 4


def test_overlapping_work_of_a_stream_gets_lanes() -> None:
    builder = TraceBuilder()
    for name, start in (("a", 0), ("b", 50), ("c", 100)):
        builder.op(name, EPOCH_NS + start, 80, kind="kernel", stream=7, tid=start, **ON_DEVICE)
    (timeline,) = device_timelines(up.Run(traces=(builder.build(),)), ranks=[0], origin_ns=0).documents
    lanes = {
        timeline["names"][name]: depth
        for name, depth, track in zip(*(timeline["slices"][key] for key in ("name", "depth", "track")), strict=True)
        if timeline["tracks"][track]["device"] == "stream 7"
    }
    assert lanes == {"a": 0, "b": 1, "c": 0}


def test_the_document_has_the_tables_of_the_analyses() -> None:
    run = up.Run(traces=(gpu_trace(steps=2),))
    view = document(run)["devices"]
    table = up.device_table(run)
    steps = [dict(zip(view["steps"]["columns"], row, strict=True)) for row in view["steps"]["rows"]]
    assert [(row["step"], row["busy_ns"], row["idle_ns"]) for row in steps] == [
        (row.step, row.busy_ns, row.idle_ns) for row in table.rows
    ]
    assert len(view["gaps"]["rows"]) == 3
    assert view["gaps"]["listed_share"] == pytest.approx(1.0)
    assert view["launched"] == {"work_count": 6, "short_count": 0}
    assert {row[view["kernels"]["columns"].index("kernel")] for row in view["kernels"]["rows"]} == {"gemm", "relu"}


def test_of_many_steps_those_with_the_longest_idle_times_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_view, "MOST_STEPS", 2)
    steps = document(up.Run(traces=(gpu_trace(steps=5),)))["devices"]["steps"]
    assert len(steps["rows"]) == 2
    assert steps["left_out"] == 3


def test_a_trace_of_the_cpu_has_no_devices(trace: up.Trace) -> None:
    assert document(trace)["devices"] is None
