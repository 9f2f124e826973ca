from __future__ import annotations

from typing import Any

import pytest

from unified_profiler import registry
from unified_profiler.analysis import rank_table
from unified_profiler.analysis.rank_facts import rank_facts
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.testing import TraceBuilder

GROUP = '{"Collective name":"allreduce","Process Group Ranks":"[0, 1]"}'


def _facts(trace: Trace, fact: str) -> list[dict[str, Any]]:
    return [row for row in rank_facts(trace.events, registry.conventions()).to_pylist() if row["fact"] == fact]


def _spent(trace: Trace) -> dict[str, int]:
    parts = ("wall", "compute", "data", "copy", "collective", "uncovered")
    spent: dict[str, int] = dict.fromkeys(parts, 0)
    for row in rank_facts(trace.events, registry.conventions()).to_pylist():
        if row["fact"] in spent:
            spent[row["fact"]] += row["spent_ns"]
    return spent


def _collective(builder: TraceBuilder, name: str, start: int, duration: int, **columns: Any) -> TraceBuilder:
    return builder.op(name, start, duration, **{"kind": "collective", "framework": "torch"} | columns)


def test_without_a_device_own_work_comes_before_what_is_moved() -> None:
    builder = TraceBuilder().step(0, 0, 100).op("mm", 10, 30).region("load_data", 0, 10)
    _collective(builder, "gloo:all_reduce", 30, 40, tid=2)
    assert _spent(builder.build()) == {
        "wall": 100, "compute": 30, "data": 10, "copy": 0, "collective": 30, "uncovered": 30
    }  # fmt: skip


def test_with_a_device_its_work_counts_before_that_of_the_host() -> None:
    builder = TraceBuilder().step(0, 0, 100).op("launch", 0, 20).op("copy", 40, 10, kind="copy", tid=7, device="cuda:0")
    builder.op("gemm", 10, 30, kind="kernel", tid=7, device="cuda:0")
    _collective(builder, "ncclKernel_AllReduce", 45, 25, tid=8, device="cuda:0")
    assert _spent(builder.build()) == {
        "wall": 100, "compute": 40, "data": 0, "copy": 10, "collective": 20, "uncovered": 30
    }  # fmt: skip


def test_the_span_of_an_annotation_on_a_device_loads_no_data() -> None:
    builder = TraceBuilder().step(0, 0, 100)
    builder.op("load_data", 0, 50, kind="region", layer="runtime", device="cuda:0", tid=7, framework="torch")
    assert _spent(builder.build())["data"] == 0


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("DataLoader", True),
        ("IteratorGetNext", False),
        ("load_data", True),
        ("next batch", False),
        ("next_batch", True),
        ("data", True),
        ("aten::detach", False),
        ("update", False),
        ("metadata", False),
        ("batch_norm", False),
    ],
)
def test_regions_that_load_data_are_recognized_by_their_names(name: str, loads: bool) -> None:
    trace = TraceBuilder().step(0, 0, 100).region(name, 10, 20).build()
    assert bool(_spent(trace)["data"]) is loads


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        ("torch", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        ("tensorflow", "IteratorGetNext"),
        ("tensorflow", "ReduceIterator::Root"),
        ("mindspore", "GetNext"),
    ],
)
def test_operators_that_load_data_are_recognized_by_the_conventions_of_their_framework(
    framework: str, name: str
) -> None:
    trace = TraceBuilder().step(0, 0, 100).op(name, 10, 20, framework=framework).build()
    assert _spent(trace)["data"] == 20


def test_words_for_data_do_not_make_an_operator_load_it() -> None:
    trace = TraceBuilder().step(0, 0, 100).op("aten::_log_softmax_backward_data", 10, 20, framework="torch").build()
    assert _spent(trace)["data"] == 0


def test_the_conventions_of_one_framework_do_not_apply_to_another() -> None:
    trace = TraceBuilder().step(0, 0, 100).op("IteratorGetNext", 10, 20, framework="torch").build()
    assert _spent(trace)["data"] == 0


def test_synchronizing_collectives_are_those_that_end_for_all_ranks_together() -> None:
    builder = TraceBuilder().step(0, 0, 100)
    for at, name in enumerate(("gloo:all_reduce", "gloo:broadcast", "c10d::barrier", "gloo:send")):
        _collective(builder, name, at * 10, 5, tid=2)
    _collective(builder, "CollectiveReduceV2", 50, 5, tid=2, framework="tensorflow")
    names = [row["name"] for row in _facts(builder.build(), "synchronizing_collective")]
    assert names == ["gloo:all_reduce", "c10d::barrier", "CollectiveReduceV2"]


def test_collectives_of_an_unknown_framework_are_recognized_by_their_canonical_operator_only() -> None:
    builder = TraceBuilder().step(0, 0, 100)
    _collective(builder, "sum_over_ranks", 10, 5, tid=2, framework="unknown", op="x:AllReduce", attributes=GROUP)
    _collective(builder, "all_reduce", 20, 5, tid=2, framework="unknown")
    assert [row["name"] for row in _facts(builder.build(), "synchronizing_collective")] == ["sum_over_ranks"]


def test_calls_that_only_launch_a_collective_do_not_synchronize() -> None:
    builder = TraceBuilder().step(0, 0, 100).op("mm", 0, 5)
    _collective(builder, "c10d::allreduce_", 10, 2)
    _collective(builder, "gloo:all_reduce", 11, 40, tid=2)
    (collective,) = _facts(builder.build(), "synchronizing_collective")
    assert (collective["name"], collective["start_ns"], collective["end_ns"]) == ("gloo:all_reduce", 11, 51)


def test_collectives_on_a_device_take_precedence_and_are_named_by_operation_and_group() -> None:
    builder = TraceBuilder().step(0, 0, 100).op("gemm", 0, 5, kind="kernel", device="cuda:0", tid=7)
    _collective(builder, "nccl:all_reduce", 10, 2)
    _collective(builder, "ncclKernel_RING_LL", 20, 40, tid=7, device="cuda:0", attributes=GROUP)
    (collective,) = _facts(builder.build(), "synchronizing_collective")
    assert (collective["name"], collective["start_ns"]) == ("allreduce [0, 1]", 20)


def test_synchronizing_collectives_are_numbered_within_their_step() -> None:
    builder = TraceBuilder().step(0, 0, 100).step(1, 100, 100)
    for start in (10, 50, 120):
        _collective(builder, "gloo:all_reduce", start, 5, tid=2)
    assert [(row["step"], row["nth"]) for row in _facts(builder.build(), "synchronizing_collective")] == [
        (0, 0),
        (0, 1),
        (1, 0),
    ]


def test_a_trace_without_steps_has_no_facts() -> None:
    assert not len(rank_facts(TraceBuilder().op("mm", 0, 10).build().events, {}))


def _pair(*, late: int, work_in_background: int = 0) -> Run:
    """Return two ranks of a step each; the second one comes later to the all-reduce."""
    ranks = []
    for rank, extra in ((0, 0), (1, late)):
        builder = TraceBuilder(rank=rank, world_size=2, host="one").step(0, 0, 1000).op("mm", 0, 200 + extra)
        if rank == 0 and work_in_background:
            builder.op("mm", 210, work_in_background)
        start = 200 + extra
        _collective(builder, "gloo:all_reduce", start, 700 - start, tid=2)
        ranks.append(builder.build())
    return Run(traces=tuple(ranks))


def test_a_rank_waits_until_the_last_one_has_come() -> None:
    early, late = rank_table(_pair(late=300)).rows
    assert (early.waiting_ns, early.own_ns, early.collective_ns) == (300, 700, 500)
    assert (late.waiting_ns, late.own_ns, late.collective_ns) == (0, 1000, 200)
    assert (early.skew_ns, late.skew_ns) == (-300, 300)


def test_who_computes_meanwhile_does_not_wait() -> None:
    early, _ = rank_table(_pair(late=300, work_in_background=100)).rows
    assert early.waiting_ns == 200


def test_collectives_of_which_ranks_have_different_numbers_are_not_matched() -> None:
    run = _pair(late=300)
    builder = TraceBuilder(rank=1, world_size=2, host="one").step(0, 0, 1000)
    for start in (100, 500):
        _collective(builder, "gloo:all_reduce", start, 100, tid=2)
    table = rank_table(Run(traces=(run.traces[0], builder.build())))
    assert [row.waiting_ns for row in table.rows] == [0, 0]


def test_parts_add_up_to_the_wall_time() -> None:
    for row in rank_table(_pair(late=150, work_in_background=60)).rows:
        parts = row.compute_ns + row.collective_ns + row.copy_ns + row.data_ns + row.uncovered_ns
        assert parts == row.wall_ns
        assert row.own_ns == row.wall_ns - row.waiting_ns
