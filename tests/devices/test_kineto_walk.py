"""The independent walk itself, on documents small enough to be worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.devices.kineto_walk import COMMUNICATION, COMPUTE, COPY, SYNCHRONIZATION, Walk, walk
from tests.devices.walked_figures import breakdown, by_class, gaps, launch_delay, queue_lengths

GOLDEN = Path(__file__).parents[1] / "golden" / "kineto"


def entry(category: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 0, "ts": ts, "dur": dur, "args": args}


def kernel(name: str, ts: float, dur: float, stream: int = 7, **args: Any) -> dict[str, Any]:
    return entry("kernel", name, ts, dur, device=0, stream=stream, **args)


def written(path: Path, *entries: dict[str, Any], **header: Any) -> Walk:
    path.write_text(json.dumps({**header, "traceEvents": list(entries)}), encoding="utf-8")
    return walk(path)


def test_times_keep_every_digit(tmp_path: Path) -> None:
    text = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1712195495519689.047,'
    path = tmp_path / "trace.json"
    path.write_text(text + ' "dur": 41.768, "args": {}}]}', encoding="utf-8")
    (span,) = walk(path).spans
    assert (span.start, span.end) == (1712195495519689047, 1712195495519689047 + 41768)


def test_base_time_is_added(tmp_path: Path) -> None:
    walked = written(tmp_path / "trace.json", kernel("k", 0.5, 1), baseTimeNanoseconds=1_000)
    assert walked.spans[0].start == 1_500


def test_work_belongs_to_the_step_of_its_launch(tmp_path: Path) -> None:
    walked = written(
        tmp_path / "trace.json",
        entry("user_annotation", "ProfilerStep#3", 0, 10),
        entry("user_annotation", "ProfilerStep#4", 10, 10),
        entry("cuda_runtime", "cudaLaunchKernel", 8, 1, correlation=1),
        kernel("k", 12, 2, correlation=1),
    )
    assert walked.work[0].step == 3
    assert launch_delay(walked.work[0]) == 3_000


def test_work_without_a_launch_belongs_to_the_only_window_in_which_it_ran(tmp_path: Path) -> None:
    walked = written(
        tmp_path / "trace.json",
        entry("user_annotation", "ProfilerStep#3", 0, 10),
        entry("user_annotation", "ProfilerStep#4", 10, 10),
        entry("cuda_runtime", "cudaLaunchKernel", 8, 1, correlation=1),
        entry("cuda_runtime", "cudaLaunchKernel", 9, 1, correlation=2),
        entry("cuda_runtime", "cudaLaunchKernel", 11, 1, correlation=3),
        kernel("first", 20, 2, correlation=1),
        kernel("inside", 23, 1),
        kernel("last", 25, 5, correlation=2),
        kernel("between", 29, 3),
        kernel("next", 31, 2, correlation=3),
        kernel("after", 40, 2),
    )
    assert {span.name: span.step for span in walked.work} == {
        "first": 3, "inside": 3, "last": 3, "between": None, "next": 4, "after": None,
    }  # fmt: skip


def test_classes(tmp_path: Path) -> None:
    walked = written(
        tmp_path / "trace.json",
        kernel("gemm", 0, 1),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 0, 1),
        entry("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 1, bytes=10),
        entry("gpu_memset", "Memset (Device)", 0, 1),
        entry("cuda_sync", "Stream Wait Event", 0, 1),
        entry("mtia_ccp_events", "dma_request", 0, 2, size=10),
        entry("mtia_ccp_events", "fc-dtype_Float", 0, 1),
        entry("mtia_ccp_events", "event_wait", 0, 1),
        entry("cpu_op", "aten::mm", 0, 1),
    )
    assert [span.work_class for span in walked.spans] == [
        COMPUTE, COMMUNICATION, COPY, COPY, SYNCHRONIZATION, COPY, COMPUTE, SYNCHRONIZATION,
    ]  # fmt: skip
    assert walked.spans[5].bandwidth == pytest.approx(10 / 2000)


def test_breakdown_by_hand(tmp_path: Path) -> None:
    walked = written(
        tmp_path / "trace.json",
        kernel("compute", 0, 10),
        kernel("ncclKernel_x", 6, 10, stream=8),
        entry("gpu_memcpy", "Memcpy", 14, 6, device=0, stream=9),
        kernel("compute", 30, 1),
    )
    figures = breakdown(walked.work)
    assert (figures.span, figures.busy, figures.idle) == (31_000, 21_000, 10_000)
    assert (figures.compute, figures.communication, figures.copy) == (11_000, 10_000, 6_000)
    assert (figures.overlap, figures.exposed_communication, figures.exposed_copy) == (4_000, 6_000, 4_000)
    assert by_class(walked.work) == {
        frozenset({COMPUTE}): 7_000,
        frozenset({COMPUTE, COMMUNICATION}): 4_000,
        frozenset({COMMUNICATION}): 4_000,
        frozenset({COMMUNICATION, COPY}): 2_000,
        frozenset({COPY}): 4_000,
    }


def test_gaps_and_queue_of_a_stream(tmp_path: Path) -> None:
    walked = written(
        tmp_path / "trace.json",
        entry("cuda_runtime", "cudaLaunchKernel", 0, 1, correlation=1),
        entry("cuda_runtime", "cudaLaunchKernel", 1, 1, correlation=2),
        entry("cuda_runtime", "cudaLaunchKernel", 9, 1, correlation=3),
        kernel("a", 2, 2, correlation=1),
        kernel("b", 5, 2, correlation=2),
        kernel("c", 11, 2, correlation=3),
    )
    assert [(gap.previous_end, gap.start, gap.launch_start) for gap in gaps(walked.work)] == [
        (4_000, 5_000, 1_000),
        (7_000, 11_000, 9_000),
    ]
    assert queue_lengths(walked.work) == {(0, 7): [1, 2, 1, 0, 1, 0]}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json.gz")), ids=lambda path: path.name)
def test_parts_sum_up_to_the_whole(path: Path) -> None:
    work = walk(path).work
    figures = breakdown(work)
    assert figures.busy == figures.compute + figures.exposed_communication + figures.exposed_copy
    assert figures.communication == figures.overlap + figures.exposed_communication
    assert figures.busy == sum(by_class(work).values())
