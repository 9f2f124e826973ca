from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unified_profiler as up
from unified_profiler.report.spans import TraceSpans
from unified_profiler.report.timeline import Timelines, timelines
from unified_profiler.testing import TraceBuilder


def drawn(*traces: up.Trace, origin_ns: int = 0, **options: Any) -> Timelines:
    return timelines([TraceSpans(trace) for trace in traces], origin_ns=origin_ns, **options)


def names(document: dict[str, Any]) -> list[str]:
    return sorted(document["names"][code] for code in document["slices"]["name"])


def steps_of_lengths(*lengths: int) -> up.Trace:
    builder = TraceBuilder()
    for number, length in enumerate(lengths):
        builder.step(number, number * 1000, length).op("op", number * 1000, 5)
    return builder.build()


def test_every_step_has_the_spans_that_ran_in_it(trace: up.Trace) -> None:
    first, second = drawn(trace).documents
    assert (first["step"], second["step"]) == (0, 1)
    assert names(first) == ["aten::copy_", "aten::mm", "aten::relu", "forward", "step 0"]


def test_starts_are_differences_from_the_beginning_of_the_step(trace: up.Trace) -> None:
    document = drawn(trace, origin_ns=trace.info.start_ns).documents[1]
    slices = document["slices"]
    starts = np.cumsum(slices["start"]).tolist()
    relu = slices["name"].index(document["names"].index("aten::relu"))
    assert (starts[relu], slices["duration"][relu]) == (60_000, 10_000)


def test_module_and_shapes_are_details(trace: up.Trace) -> None:
    document = drawn(trace).documents[0]
    mm, relu = (document["slices"]["name"].index(document["names"].index(name)) for name in ("aten::mm", "aten::relu"))
    for key, texts, text in (("module", "modules", "net.0"), ("shapes", "shapes", "[[4,4]]")):
        codes = document["slices"][key]
        assert (document[texts][codes[mm]], codes[relu]) == (text, -1)


def test_slices_of_a_lane_never_overlap(trace: up.Trace) -> None:
    for document in drawn(trace).documents:
        slices = document["slices"]
        starts = np.cumsum(slices["start"])
        lanes: dict[tuple[int, int], int] = {}
        for track, depth, start, duration in zip(
            slices["track"], slices["depth"], starts, slices["duration"], strict=True
        ):
            assert start >= lanes.get((track, depth), -(10**18))
            lanes[track, depth] = start + duration


def test_work_that_reaches_into_a_step_is_shown_in_it() -> None:
    trace = TraceBuilder().step(0, 0, 10).step(1, 10, 10).op("kernel", 5, 10, tid=7, kind="kernel").build()
    assert ["kernel" in names(document) for document in drawn(trace).documents] == [True, True]


def test_a_trace_without_steps_is_one_timeline() -> None:
    (document,) = drawn(TraceBuilder().op("a", 10, 5).op("b", 20, 5).build()).documents
    assert (document["step"], document["start"], document["duration"]) == (None, 10, 15)


def test_without_room_the_median_the_slowest_and_the_fastest_step_stay() -> None:
    found = drawn(steps_of_lengths(50, 10, 30, 90, 40), most=6)
    assert [document["step"] for document in found.documents] == [1, 3, 4]
    assert found.left_out == 2


def test_every_rank_has_a_timeline_however_little_room_there_is(make_trace: Any) -> None:
    found = drawn(*(make_trace(rank=rank) for rank in range(3)), most=1)
    assert [document["rank"] for document in found.documents] == [0, 1, 2]


def test_of_a_large_step_the_longest_stay_and_the_rest_is_counted(trace: up.Trace) -> None:
    document = drawn(trace, most_in_step=3).documents[0]
    assert names(document) == ["aten::mm", "forward", "step 0"]
    assert document["left_out"] == {"count": 2, "self_ns": 30_000}


@pytest.mark.parametrize("kind", ["counter", "memory"])
def test_what_does_not_last_is_not_drawn(kind: str) -> None:
    trace = TraceBuilder().step(0, 0, 10).op("x", 5, 0, kind=kind, value=1.0).build()
    assert names(drawn(trace).documents[0]) == ["step 0"]


def test_kernels_have_the_category_of_the_operator_that_launched_them() -> None:
    run = up.read("tests/golden/kineto/alexnet_cuda.json.gz")
    spans = TraceSpans(run.traces[0])
    from unified_profiler.report.spans import span_categories

    kernels = [i for i, kind in enumerate(spans.events.column("kind").to_pylist()) if kind == "kernel"]
    assert "convolution" in {span_categories()[spans.category[i]] for i in kernels}
