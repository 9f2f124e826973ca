"""Paths that lead from rank to rank through collectives."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.analysis.critical_path import CriticalPath
from unified_profiler.testing import TraceBuilder

GOLDEN = Path(__file__).parents[3] / "golden"


def rank(number: int, *, compute: int, start: int = 0) -> up.Trace:
    """A rank that computes and enters an all-reduce, which ends at 80 on all ranks; a step of 100."""
    builder = TraceBuilder(rank=number, world_size=2).step(0, start, 100 - start)
    builder.op("compute", start, compute - start).op("all_reduce", compute, 80 - compute, kind="collective")
    return builder.op("update", 80, 20 - number).build()


def run() -> up.Run:
    return up.Run(traces=(rank(0, compute=20), rank(1, compute=60)))


def segments(path: CriticalPath) -> list[tuple[int, str, int, int]]:
    return [(row.rank, row.name, row.start_ns, row.end_ns) for row in path]


def test_a_rank_that_waits_in_a_collective_hands_the_path_to_the_last_rank_that_enters() -> None:
    assert segments(up.critical_path(run())) == [
        (1, "compute", 0, 60),
        (0, "all_reduce", 60, 80),
        (0, "update", 80, 100),
    ]


def test_the_path_of_the_rank_that_enters_last_stays_on_it() -> None:
    assert {row.rank for row in up.critical_path(run(), rank=1)} == {1}


def test_the_path_is_cut_at_the_start_of_the_step_on_the_rank_that_it_ends_on() -> None:
    traces = (rank(0, compute=20, start=5), rank(1, compute=60))
    assert segments(up.critical_path(up.Run(traces=traces)))[0] == (1, "compute", 5, 60)


def test_time_before_the_first_event_of_the_other_rank_is_a_gap_of_the_rank_that_the_path_ends_on() -> None:
    traces = (rank(0, compute=20), rank(1, compute=60, start=5))
    assert segments(up.critical_path(up.Run(traces=traces)))[:2] == [(0, "gap", 0, 5), (1, "compute", 5, 60)]


def test_contributions_add_up_by_rank() -> None:
    by_rank: dict[int, int] = {}
    for row in up.critical_path(run()).contributions:
        by_rank[row.rank] = by_rank.get(row.rank, 0) + row.path_ns
    assert by_rank == {0: 40, 1: 60}


def test_a_collective_that_ended_before_another_rank_entered_it_is_not_waited_in() -> None:
    """Such times contradict each other: the clocks differ, or different collectives have the same name."""
    late = TraceBuilder(rank=1, world_size=2).step(0, 0, 100).op("all_reduce", 90, 10, kind="collective").build()
    assert {row.rank for row in up.critical_path(up.Run(traces=(rank(0, compute=20), late)), rank=0)} == {0}


def test_other_ranks_arrive_as_recorded_in_a_prediction() -> None:
    result = up.what_if(run(), {"compute": 0})
    assert {row.rank: row.predicted_ns for row in result} == {0: 100, 1: 40}
    assert "ranks" in [each.code for each in result.assumptions]


def test_kernels_of_collectives_are_matched_by_the_collective_that_launched_them() -> None:
    traces = tuple(_with_kernels(number) for number in (0, 1))
    path = up.critical_path(up.Run(traces=traces))
    assert [(row.rank, row.kind) for row in path if row.name == "ncclKernel_SendRecv"] == [(0, "collective")]
    assert {row.rank for row in path} == {0, 1}


def _with_kernels(number: int) -> up.Trace:
    """Rank 0 enters the collective at 15 and rank 1 at 50; both wait for its end at 90."""
    start = 10 + 35 * number
    builder = TraceBuilder(rank=number, world_size=2).step(0, 0, 100 - number).op("compute", 0, start)
    runtime: dict[str, Any] = {"kind": "runtime", "layer": "runtime", "device": "cpu:0"}
    builder.op("nccl:all_to_all", start, 4, kind="collective").op(
        "cudaLaunchKernel", start, 4, **runtime, correlation_id=1
    )
    device = {"device": "cuda:0", "layer": "runtime", "pid": 0, "stream": 7, "tid": 7, "correlation_id": 1, "step": 0}
    builder.op("ncclKernel_SendRecv", start + 5, 85 - start, **device, kind="collective")
    return builder.op("cudaDeviceSynchronize", start + 6, 90 - start - 6, **runtime, correlation_id=2).build()


@pytest.mark.parametrize("name", ["data", "equal", "work"])
def test_paths_of_real_jobs_cover_their_steps(name: str) -> None:
    recorded = up.read(GOLDEN / "ranks" / "tensorflow" / name)
    path = up.critical_path(recorded)
    spans = up.query(recorded, "select rank, step, start_ns, duration_ns from events where kind = 'step'").rows
    for step in {row.step for row in spans}:
        last = max((row for row in spans if row.step == step), key=lambda row: row.start_ns + row.duration_ns)
        assert sum(row.duration_ns for row in path if row.step == step) == last.duration_ns


def test_the_rank_that_is_slow_in_loading_data_has_the_path_and_data_is_its_largest_part() -> None:
    largest = up.critical_path(up.read(GOLDEN / "ranks" / "tensorflow" / "data")).contributions.rows[0]
    assert (largest.rank, largest.kind) == (1, "data")


def test_a_trace_with_synchronization_of_neither_side_is_crossed_where_a_kernel_follows_a_collective() -> None:
    """Without records of synchronization, a kernel that starts directly after a collective waited for it."""
    traces = tuple(_without_records(number) for number in (0, 1))
    path = up.critical_path(up.Run(traces=traces), rank=0)
    assert next(row.rank for row in path) == 1
    assert [row.name for row in path if row.rank == 0][:2] == ["ncclKernel_AllReduce", "delay"]


def _without_records(number: int) -> up.Trace:
    """The kernel after the collective, on another stream, begins 2 us after it and ends after the step."""
    us, entered = 1000, 100 if number == 0 else 300
    builder = TraceBuilder(rank=number, world_size=2).step(0, 0, 900 * us).op("compute", 0, (entered - 20) * us)
    launch: dict[str, Any] = {"kind": "runtime", "layer": "runtime", "device": "cpu:0"}
    builder.op("cudaLaunchKernel", (entered - 20) * us, 5 * us, **launch, correlation_id=1)
    builder.op("cudaLaunchKernel", (entered - 10) * us, 5 * us, **launch, correlation_id=2)
    device = {"device": "cuda:0", "layer": "runtime", "pid": 0, "step": 0}
    columns = {**device, "kind": "collective", "op": "x:AllReduce", "stream": 8, "tid": 8, "correlation_id": 1}
    builder.op("ncclKernel_AllReduce", entered * us, (700 - entered) * us, **columns)
    columns = {**device, "kind": "kernel", "stream": 7, "tid": 7, "correlation_id": 2}
    return builder.op("optimizer", 702 * us, 300 * us, **columns).build()


def test_the_path_of_a_real_rank_crosses_to_the_one_that_entered_the_all_gather_last() -> None:
    traces = tuple(up.read(GOLDEN / "kineto" / f"filter_rank{number}.json.gz").traces[0] for number in (0, 1))
    sql = "select start_ns from events where kind = 'collective' and stream = 203 and step = 551"
    entered = [up.query(trace, sql).rows[0].start_ns for trace in traces]
    rows = up.critical_path(up.Run(traces=traces), step=551, rank=0).rows
    crossings = [(a.rank, b.rank, b.start_ns, b.kind) for a, b in pairwise(rows) if a.rank != b.rank]
    assert entered[1] > entered[0]
    assert crossings[-1] == (1, 0, entered[1], "collective")
