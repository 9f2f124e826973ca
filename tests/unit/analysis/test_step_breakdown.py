from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unified_profiler.analysis import step_breakdown
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace

MakeTrace = Callable[..., Trace]


def _step(number: int, start: int, end: int) -> dict[str, Any]:
    name = f"step {number}"
    return {"name": name, "kind": "step", "layer": "application", "framework": None, "step": number, "at": (start, end)}


def _region(name: str, start: int, end: int) -> dict[str, Any]:
    return {"name": name, "kind": "region", "layer": "application", "framework": None, "at": (start, end)}


def test_time_is_split_between_operators_and_the_rest(make_trace: MakeTrace) -> None:
    trace = make_trace(_step(3, 0, 100), {"at": (10, 40)}, {"at": (15, 30)}, {"at": (50, 60)})
    (row,) = step_breakdown(trace)
    assert (row.rank, row.cycle, row.step) == (0, 0, 3)
    assert (row.wall_ns, row.op_ns, row.uncovered_ns) == (100, 40, 60)


def test_threads_that_run_at_once_count_once(make_trace: MakeTrace) -> None:
    trace = make_trace(_step(0, 0, 100), {"at": (10, 40)}, {"at": (20, 70), "tid": 2}, {"at": (90, 95), "tid": 3})
    assert step_breakdown(trace).rows[0].op_ns == 65


def test_a_moment_is_a_collective_before_a_copy_before_an_operator(make_trace: MakeTrace) -> None:
    trace = make_trace(
        _step(0, 0, 100),
        {"at": (0, 60)},
        {"kind": "collective", "at": (10, 30)},
        {"kind": "copy", "tid": 7, "at": (20, 50)},
        {"kind": "kernel", "tid": 8, "at": (55, 80)},
    )
    (row,) = step_breakdown(trace)
    assert (row.collective_ns, row.copy_ns, row.op_ns, row.uncovered_ns) == (20, 20, 40, 20)


def test_work_of_a_device_is_not_time_of_the_host(make_trace: MakeTrace) -> None:
    on_device = {"device": "cuda:0", "pid": 0, "layer": "runtime"}
    trace = make_trace(
        _step(0, 0, 100),
        {"at": (0, 10)},
        {"kind": "kernel", "tid": 7, "at": (5, 80), **on_device},
        {"kind": "collective", "tid": 8, "at": (5, 80), **on_device},
        {"kind": "copy", "tid": 9, "at": (5, 80), **on_device},
    )
    (row,) = step_breakdown(trace)
    assert (row.op_ns, row.collective_ns, row.copy_ns, row.uncovered_ns) == (10, 0, 0, 90)


def test_waiting_for_data_is_not_time_of_operators(make_trace: MakeTrace) -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    loading = {"name": name, "kind": "region", "at": (0, 40)}
    trace = make_trace(_step(0, 0, 100), loading, {"name": "aten::stack", "at": (10, 30)}, {"at": (50, 90)})
    (row,) = step_breakdown(trace)
    assert (row.data_ns, row.op_ns, row.uncovered_ns) == (40, 40, 20)


def test_a_region_of_the_user_that_loads_data_is_waiting_for_data(make_trace: MakeTrace) -> None:
    trace = make_trace(_step(0, 0, 100), _region("load_batch", 0, 40), {"at": (10, 60)})
    (row,) = step_breakdown(trace)
    assert (row.data_ns, row.op_ns) == (40, 20)


def test_compiling_is_no_operator_time_also_within_an_operator(make_trace: MakeTrace) -> None:
    trace = make_trace(
        _step(0, 0, 100), {"at": (10, 60)}, {"kind": "compile", "at": (20, 50)}, {"kind": "compile", "at": (25, 45)}
    )
    (row,) = step_breakdown(trace)
    assert (row.compile_ns, row.op_ns, row.uncovered_ns) == (30, 20, 50)


def test_the_printed_table_has_compiling_where_there_was_some(make_trace: MakeTrace) -> None:
    without, compiled = (make_trace(_step(0, 0, 100), {"kind": kind, "at": (10, 60)}) for kind in ("op", "compile"))
    assert "Compilation" not in str(step_breakdown(without))
    assert "Compilation" in str(step_breakdown(compiled))


def test_work_is_cut_at_the_borders_of_steps(make_trace: MakeTrace) -> None:
    kernel = {"kind": "kernel", "tid": 7, "at": (80, 230)}
    trace = make_trace(_step(0, 0, 100), _step(1, 100, 200), _step(2, 200, 300), kernel)
    assert [row.op_ns for row in step_breakdown(trace)] == [20, 100, 30]


def test_regions_are_told_by_name(make_trace: MakeTrace) -> None:
    trace = make_trace(_step(0, 0, 100), _region("forward", 0, 40), _region("loss", 30, 40), _region("forward", 50, 60))
    assert step_breakdown(trace).rows[0].regions_ns == {"forward": 50, "loss": 10}


def test_a_region_within_itself_counts_once(make_trace: MakeTrace) -> None:
    trace = make_trace(_step(0, 0, 100), _region("block", 0, 40), _region("block", 10, 20))
    assert step_breakdown(trace).rows[0].regions_ns == {"block": 40}


def test_a_region_of_one_step_is_not_in_the_next(make_trace: MakeTrace) -> None:
    trace = make_trace(_step(0, 0, 100), _region("setup", 0, 40), _step(1, 100, 200))
    assert [row.regions_ns for row in step_breakdown(trace)] == [{"setup": 40}, {}]


def test_memory_counters_and_frames_of_python_cover_nothing(make_trace: MakeTrace) -> None:
    frame = {"kind": "runtime", "layer": "runtime", "at": (0, 90)}
    trace = make_trace(_step(0, 0, 100), frame, {"kind": "counter", "at": (0, 50)}, {"kind": "memory", "at": (1, 1)})
    assert step_breakdown(trace).rows[0].uncovered_ns == 100


def test_ranks_and_cycles_are_kept_apart(make_trace: MakeTrace) -> None:
    run = Run(
        traces=[
            make_trace(_step(0, 0, 100), {"at": (0, 10)}, rank=0),
            make_trace(_step(0, 0, 100), {"at": (0, 20)}, rank=1),
            make_trace(_step(5, 0, 100), {"at": (0, 30)}, rank=1, cycle=1),
        ]
    )
    rows = [(row.rank, row.cycle, row.step, row.op_ns) for row in step_breakdown(run)]
    assert rows == [(0, 0, 0, 10), (1, 0, 0, 20), (1, 1, 5, 30)]


def test_a_trace_without_steps_says_so(make_trace: MakeTrace) -> None:
    result = step_breakdown(make_trace({"at": (0, 10)}))
    assert len(result) == 0
    assert "Call step()" in str(result)


def test_an_empty_run_has_no_steps() -> None:
    assert step_breakdown(Run(traces=())).rows == ()


def test_regions_are_a_map_in_arrow(make_trace: MakeTrace) -> None:
    table = step_breakdown(make_trace(_step(0, 0, 100), _region("a", 0, 5))).to_arrow()
    assert table.schema.field("regions_ns").type == pa.map_(pa.string(), pa.int64())


def test_the_printed_table_shows_regions_with_units(make_trace: MakeTrace) -> None:
    trace = make_trace(_step(0, 0, 100_000), _region("forward", 0, 5000))
    assert "forward 5.000 us" in str(step_breakdown(trace))


@pytest.mark.parametrize("name", ["'; drop table events; --", 'a"b', "a\nb", "🔥", ""])
def test_hostile_region_names_are_only_names(make_trace: MakeTrace, name: str) -> None:
    trace = make_trace(_step(0, 0, 100), _region(name, 0, 5))
    assert step_breakdown(trace).rows[0].regions_ns == {name: 5}


def test_annotations_of_the_framework_are_no_regions_of_the_user(make_trace: MakeTrace) -> None:
    annotation = {"name": "Optimizer.step#SGD.step", "kind": "region", "layer": "framework", "at": (5, 50)}
    row = step_breakdown(make_trace(_step(0, 0, 100), annotation)).rows[0]
    assert (row.regions_ns, row.op_ns, row.uncovered_ns) == ({}, 0, 100)


KINDS = ["op", "copy", "collective", "kernel", "region"]
LAYERS = {"region": "application"}
QUICK = settings(max_examples=30)
SPANS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(0, 80), st.sampled_from(KINDS), st.integers(1, 3)), max_size=30
)


@QUICK
@given(spans=SPANS)
def test_every_moment_counts_exactly_once(make_trace: MakeTrace, spans: list[tuple[int, int, str, int]]) -> None:
    steps = [_step(0, 20, 120), _step(1, 120, 150), _step(2, 200, 280)]
    rows = [
        {"kind": kind, "layer": LAYERS.get(kind, "framework"), "tid": 10 + tid, "at": (start, start + length)}
        for start, length, kind, tid in spans
    ]
    for row in step_breakdown(make_trace(*steps, *rows)):
        start, end = steps[row.step]["at"]
        busy: dict[int, set[str]] = {moment: set() for moment in range(start, end)}
        for begin, length, kind, _ in spans:
            for moment in range(max(begin, start), min(begin + length, end)):
                busy[moment].add(kind)
        collective = sum("collective" in kinds for kinds in busy.values())
        copy = sum("copy" in kinds and "collective" not in kinds for kinds in busy.values())
        idle = sum(not kinds - {"region"} for kinds in busy.values())
        region = sum("region" in kinds for kinds in busy.values())
        assert (row.collective_ns, row.copy_ns, row.uncovered_ns) == (collective, copy, idle)
        parts = row.op_ns + row.collective_ns + row.copy_ns + row.compile_ns + row.uncovered_ns
        assert parts == row.wall_ns == end - start
        assert row.regions_ns == ({"op": region} if region else {})
