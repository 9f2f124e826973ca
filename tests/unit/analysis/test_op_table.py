from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from unified_profiler.analysis import op_table
from unified_profiler.errors import ConfigurationError, UsageError
from unified_profiler.model.option_effects import without_effect
from unified_profiler.model.run import Run
from unified_profiler.model.schema import TEXT
from unified_profiler.model.trace import Trace
from unified_profiler.testing.builders import TraceBuilder

MakeTrace = Callable[..., Trace]


def _by_name(source: Trace | Run, **options: Any) -> dict[str, Any]:
    return {row.name: row for row in op_table(source, **options)}


@pytest.fixture
def linear(make_trace: MakeTrace) -> Trace:
    """Two calls of linear, the first with a transposition and a product, the second with a product alone."""
    return make_trace(
        {"name": "linear", "at": (0, 100), "op": "Gemm", "input_shapes": "[[4,2]]", "step": 0},
        {"name": "t", "at": (10, 20), "op": "Transpose"},
        {"name": "addmm", "at": (30, 90), "op": "Gemm", "flops": 64, "input_shapes": "[[4,2]]"},
        {"name": "linear", "at": (200, 250), "op": "Gemm", "input_shapes": "[[8,2]]"},
        {"name": "addmm", "at": (210, 250), "op": "Gemm", "flops": 128, "input_shapes": "[[8,2]]"},
    )


@pytest.mark.parametrize(
    ("by", "code"), [("shapes", "no_shapes"), ("module", "no_modules"), ("stack", "no_stacks"), ("op", None)]
)
def test_a_column_that_only_an_option_records_is_named_if_it_is_empty(
    make_trace: MakeTrace, by: str, code: str | None
) -> None:
    empty = make_trace({"name": "node", "at": (0, 100)})
    filled = make_trace({"name": "node", "at": (0, 100), "input_shapes": "[[1]]", "module": "m", "stack": "s"})
    assert [each.code for each in op_table(empty, by=by).remarks] == [*filter(None, [code]), "self_cpu_total"]
    assert [each.code for each in op_table(filled, by=by).remarks] == ["self_cpu_total"]


def test_modules_of_operators_that_ran_later_need_calls_that_wait(make_trace: MakeTrace) -> None:
    trace = make_trace({"name": "Cell", "kind": "module", "at": (0, 9)}, {"name": "MatMul", "at": (10, 100)})
    hints = tuple(without_effect(trace.events, ["with_modules"], waited=False))
    late = Trace(trace.events, trace.info.model_copy(update={"hints": hints}))
    assert "--api-synchronize" in op_table(late, by="module").footer[0]
    assert "--api-synchronize" not in op_table(trace, by="module").footer[0]


def test_a_table_without_rows_says_why() -> None:
    steps = TraceBuilder(first_step=0, last_step=0).step(0, 0, 10).build()
    assert [each.code for each in op_table(steps).remarks] == ["no_operator"]


def test_compiling_has_no_row_and_is_in_nobodys_self_time(make_trace: MakeTrace) -> None:
    trace = make_trace({"name": "node", "at": (0, 100)}, {"name": "dynamo", "kind": "compile", "at": (10, 90)})
    rows = _by_name(trace)
    assert rows.keys() == {"node"}
    assert (rows["node"].self_cpu_ns, rows["node"].cpu_ns) == (20, 100)
    assert _by_name(trace, regions=True)["dynamo"].self_cpu_ns == 80


def test_calls_totals_self_times_and_averages(linear: Trace) -> None:
    rows = _by_name(linear)
    assert (rows["linear"].call_count, rows["linear"].cpu_ns, rows["linear"].self_cpu_ns) == (2, 150, 40)
    assert (rows["addmm"].call_count, rows["addmm"].cpu_ns, rows["addmm"].self_cpu_ns) == (2, 100, 100)
    assert rows["linear"].cpu_average_ns == 75.0


def test_shares_are_of_all_self_time(linear: Trace) -> None:
    rows = _by_name(linear)
    assert rows["addmm"].self_cpu_share == pytest.approx(100 / 150)
    assert rows["linear"].cpu_share == pytest.approx(1.0)
    assert sum(row.self_cpu_share for row in rows.values()) == pytest.approx(1.0)


def test_flops_are_summed(linear: Trace) -> None:
    assert {name: row.flops for name, row in _by_name(linear).items()} == {"addmm": 192, "linear": 0, "t": 0}


def test_largest_self_time_comes_first(linear: Trace) -> None:
    assert [row.name for row in op_table(linear)] == ["addmm", "linear", "t"]


@pytest.mark.parametrize(
    ("sort_by", "first"),
    [
        ("cpu_time_total", "linear"),
        ("cpu_ns", "linear"),
        ("self_cpu_time_total", "addmm"),
        ("cpu_time", "linear"),
        ("count", "addmm"),
        ("flops", "addmm"),
        ("name", "addmm"),
        ("key", "addmm"),
    ],
)
def test_sorts_by_torch_names_and_own_columns(linear: Trace, sort_by: str, first: str) -> None:
    assert op_table(linear, sort_by=sort_by).rows[0].name == first


@pytest.mark.parametrize("device", ["device", "cuda", "xpu", "npu", "privateuse1"])
@pytest.mark.parametrize("column", ["{}_time_total", "self_{}_time_total", "{}_time", "{}_memory_usage"])
def test_sort_keys_exist_for_every_device(linear: Trace, device: str, column: str) -> None:
    assert len(op_table(linear, sort_by=column.format(device))) == 3


def test_a_wrong_sort_key_is_answered_with_a_suggestion(linear: Trace) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be 'cpu_time_totl'\. Did you mean 'cpu_time_total'\?"):
        op_table(linear, sort_by="cpu_time_totl")


def test_a_sort_key_is_never_run_as_sql(linear: Trace) -> None:
    with pytest.raises(ConfigurationError):
        op_table(linear, sort_by="name; drop table calls")


def test_sorting_by_a_key_that_is_not_grouped_by_is_refused(linear: Trace) -> None:
    with pytest.raises(ConfigurationError, match="not a key here"):
        op_table(linear, by="op", sort_by="key")


def test_a_wrong_grouping_is_answered_with_a_suggestion(linear: Trace) -> None:
    with pytest.raises(
        ConfigurationError, match=r"`by` cannot be .*\. Did you mean 'origin'\? It must be one of name, .*\.\.\."
    ):
        op_table(linear, by="orgin")


def test_at_least_one_grouping_is_needed(linear: Trace) -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        op_table(linear, by=())


def test_the_share_of_a_total_cannot_exceed_what_the_threads_did(make_trace: MakeTrace) -> None:
    """Work of a thread pool has no row, but it is part of the total of the operator around it."""
    pool = {"name": "pool work", "kind": "runtime", "layer": "runtime", "at": (100, 900)}
    rows = _by_name(make_trace({"name": "MakeIterator", "at": (0, 1000)}, pool, {"name": "mm", "at": (1000, 1100)}))
    assert (rows["MakeIterator"].self_cpu_ns, rows["MakeIterator"].cpu_ns) == (200, 1000)
    assert rows["MakeIterator"].cpu_share == pytest.approx(1000 / 1100)
    assert rows["MakeIterator"].self_cpu_share == pytest.approx(200 / 300)


def test_row_limit_cuts_rows_and_leaves_shares(linear: Trace) -> None:
    (row,) = op_table(linear, row_limit=1)
    assert row.self_cpu_share == pytest.approx(100 / 150)


@pytest.mark.parametrize("row_limit", [-1, 1.5, "3"])
def test_a_wrong_row_limit_is_refused(linear: Trace, row_limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="row_limit"):
        op_table(linear, row_limit=row_limit)


def test_shapes_split_names(linear: Trace) -> None:
    rows = {(row.name, row.input_shapes): row.call_count for row in op_table(linear, by="shapes")}
    assert rows[("linear", "[[4,2]]")] == rows[("linear", "[[8,2]]")] == 1
    assert rows[("t", None)] == 1


def test_several_keys_can_be_given(linear: Trace) -> None:
    assert op_table(linear, by=["op", "name"]).columns[:2] == ("op", "name")


@pytest.mark.parametrize(
    "by", ["op", "origin", "module", "direction", "kind", "layer", "framework", "thread", "device", "stack", "step",
           "cycle", "rank", "host"],
)  # fmt: skip
def test_self_times_add_up_in_every_grouping(linear: Trace, by: str) -> None:
    assert sum(row.self_cpu_ns for row in op_table(linear, by=by)) == 150


def test_nested_calls_of_a_group_count_once_with_the_outermost(linear: Trace) -> None:
    rows = {row.op: row for row in op_table(linear, by="op")}
    assert (rows["Gemm"].call_count, rows["Gemm"].cpu_ns, rows["Gemm"].self_cpu_ns) == (2, 150, 140)
    assert (rows["Transpose"].call_count, rows["Transpose"].cpu_ns) == (1, 10)


def test_a_call_within_its_own_group_counts_once_even_below_another_group(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "conv", "op": "Conv", "at": (0, 100)},
        {"name": "pad", "op": "Pad", "at": (10, 90)},
        {"name": "conv_inner", "op": "Conv", "at": (20, 80)},
    )
    rows = {row.op: row for row in op_table(trace, by="op")}
    assert (rows["Conv"].call_count, rows["Conv"].cpu_ns, rows["Conv"].self_cpu_ns) == (1, 100, 80)


def test_groups_on_different_threads_do_not_hide_each_other(make_trace: MakeTrace) -> None:
    trace = make_trace({"at": (0, 100), "tid": 1}, {"at": (10, 20), "tid": 2})
    (row,) = op_table(trace, by="kind")
    assert (row.call_count, row.cpu_ns) == (2, 110)


def test_only_child_of_the_same_name_is_the_same_call(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "sum", "at": (0, 100)},
        {"name": "sum", "at": (10, 90)},
        {"name": "sum", "at": (20, 80)},
        {"name": "fill", "at": (30, 40)},
    )
    row = _by_name(trace)["sum"]
    assert (row.call_count, row.cpu_ns, row.self_cpu_ns) == (1, 100, 90)


def test_one_of_several_children_of_the_same_name_is_a_call(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "sum", "at": (0, 100)}, {"name": "sum", "at": (10, 50)}, {"name": "fill", "at": (60, 70)}
    )
    row = _by_name(trace)["sum"]
    assert (row.call_count, row.cpu_ns, row.self_cpu_ns) == (2, 140, 90)


@pytest.mark.parametrize("by", ["name", "direction", "kind", "op"])
def test_a_runtime_call_of_the_same_name_is_part_of_its_operator_in_every_grouping(
    by: str, make_trace: MakeTrace
) -> None:
    trace = make_trace(
        {"name": "next", "op": "x:Data", "direction": "forward", "at": (0, 100)},
        {"name": "next", "kind": "runtime", "layer": "runtime", "at": (10, 90)},
    )
    (row,) = op_table(trace, by=by)
    assert (row.call_count, row.cpu_ns, row.self_cpu_ns) == (1, 100, 100)


def test_a_duplicate_of_other_shapes_joins_the_shapes_of_its_call(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "sum", "at": (0, 100), "input_shapes": "[[4]]"}, {"name": "sum", "at": (10, 90), "input_shapes": "[]"}
    )
    (row,) = op_table(trace, by="shapes")
    assert (row.input_shapes, row.call_count, row.self_cpu_ns) == ("[[4]]", 1, 100)


OWN = {"framework": None, "layer": "application"}


def test_steps_and_regions_of_the_facade_leave_operators_as_they_are(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {**OWN, "name": "step", "kind": "step", "step": 0, "at": (0, 1000)},
        {**OWN, "name": "forward", "kind": "region", "at": (0, 500)},
        {"name": "linear", "at": (10, 110)},
        {**OWN, "name": "inside", "kind": "region", "at": (20, 100)},
        {"name": "mm", "at": (30, 60)},
    )
    rows = _by_name(trace)
    assert set(rows) == {"linear", "mm"}
    assert rows["linear"].self_cpu_ns == 70


def test_regions_have_rows_on_request(make_trace: MakeTrace) -> None:
    trace = make_trace({**OWN, "name": "forward", "kind": "region", "at": (0, 500)}, {"name": "mm", "at": (30, 60)})
    rows = _by_name(trace, regions=True)
    assert (rows["forward"].cpu_ns, rows["forward"].self_cpu_ns, rows["mm"].self_cpu_ns) == (500, 470, 30)


def test_annotations_of_the_native_profiler_take_their_time_from_operators(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "Function", "at": (0, 100)},
        {"name": "annotation", "kind": "region", "layer": "application", "at": (10, 90)},
        {"name": "mul", "at": (20, 40)},
    )
    rows = _by_name(trace)
    assert set(rows) == {"Function", "mul"}
    assert rows["Function"].self_cpu_ns == 20


def test_spans_that_the_framework_names_have_rows(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "Optimizer.step#Adam", "kind": "region", "at": (0, 100)}, {"name": "mul", "at": (20, 40)}
    )
    rows = _by_name(trace)
    assert (rows["Optimizer.step#Adam"].call_count, rows["Optimizer.step#Adam"].self_cpu_ns) == (1, 80)


def test_frames_of_python_have_no_row_and_their_time_is_not_the_operators(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "Function", "at": (0, 100)},
        {"name": "model.py(3): forward", "kind": "runtime", "layer": "runtime", "at": (10, 90)},
        {"name": "mul", "at": (20, 40)},
    )
    rows = _by_name(trace)
    assert {name: row.self_cpu_ns for name, row in rows.items()} == {"Function": 20, "mul": 20}


def test_memory_counts_for_the_operators_around_it(make_trace: MakeTrace) -> None:
    memory = {"name": "[memory]", "kind": "memory", "layer": "runtime"}
    trace = make_trace(
        {"name": "linear", "at": (0, 100)},
        {"name": "empty", "at": (10, 20)},
        {**memory, "bytes": 400, "at": (15, 15)},
        {**memory, "bytes": -100, "at": (50, 50)},
        {**memory, "bytes": 7, "device": "cuda:0", "at": (15, 15)},
        {**memory, "bytes": 1000, "at": (500, 500)},
    )
    rows = _by_name(trace)
    assert (rows["linear"].cpu_bytes, rows["linear"].self_cpu_bytes) == (300, -100)
    assert (rows["empty"].cpu_bytes, rows["empty"].self_cpu_bytes) == (400, 400)
    assert (rows["linear"].device_bytes, rows["linear"].self_device_bytes) == (7, 0)
    assert rows["linear"].self_cpu_ns == 90


@pytest.fixture
def gpu(make_trace: MakeTrace) -> Trace:
    """A product launches a kernel, the layer around it a copy, and somebody unknown a second kernel."""
    launch = {"name": "cudaLaunchKernel", "kind": "runtime", "layer": "runtime"}
    device = {"layer": "runtime", "device": "cuda:0", "pid": 0, "tid": 7, "stream": 7}
    return make_trace(
        {"name": "linear", "at": (0, 100)},
        {"name": "mm", "at": (10, 50)},
        {**launch, "correlation_id": 1, "at": (20, 30)},
        {**launch, "name": "cudaMemcpyAsync", "correlation_id": 2, "at": (60, 70)},
        {**device, "name": "gemm", "kind": "kernel", "correlation_id": 1, "at": (200, 1200)},
        {**device, "name": "Memcpy HtoD", "kind": "copy", "correlation_id": 2, "at": (1300, 1500)},
        {**device, "name": "gemm", "kind": "kernel", "correlation_id": 99, "at": (2000, 2300)},
    )


def test_device_time_counts_for_the_operator_that_launched_it(gpu: Trace) -> None:
    rows = _by_name(gpu)
    assert (rows["mm"].device_ns, rows["mm"].self_device_ns) == (1000, 1000)
    assert (rows["linear"].device_ns, rows["linear"].self_device_ns) == (1200, 200)
    assert (rows["cudaLaunchKernel"].device_ns, rows["cudaLaunchKernel"].self_cpu_ns) == (0, 10)


def test_device_work_has_rows_of_its_own_without_cpu_time(gpu: Trace) -> None:
    row = _by_name(gpu)["gemm"]
    assert (row.call_count, row.device_ns, row.self_device_ns, row.cpu_ns, row.self_cpu_ns) == (2, 1300, 1300, 0, 0)


def test_where_a_device_worked_its_time_comes_first(gpu: Trace, linear: Trace) -> None:
    table = op_table(gpu)
    times = [row.self_device_ns for row in table]
    assert times == sorted(times, reverse=True)
    assert list(table.headings or ())[:3] == ["name", "self_device_share", "self_device_ns"]
    assert table.sorted_by == "self_device_ns"
    assert op_table(linear).sorted_by == "self_cpu_ns"


def test_device_shares_are_of_the_work_itself(gpu: Trace) -> None:
    rows = _by_name(gpu)
    assert rows["gemm"].self_device_share == pytest.approx(1300 / 1500)
    assert rows["mm"].self_device_share == pytest.approx(1000 / 1500)


def test_launched_work_is_not_counted_again_where_it_has_no_row(gpu: Trace) -> None:
    (row,) = op_table(gpu, by="framework")
    assert (row.self_device_ns, row.device_ns) == (1500, 1500)
    assert row.self_device_share == pytest.approx(1.0)


def test_waiting_on_a_device_is_no_time_of_the_cpu(make_trace: MakeTrace) -> None:
    sync = {"name": "Stream Sync", "kind": "runtime", "layer": "runtime", "device": "cuda:0", "pid": 0, "tid": 7}
    assert set(_by_name(make_trace({"at": (0, 10)}, {**sync, "correlation_id": 3, "at": (0, 500)}))) == {"op"}


def test_ranks_and_cycles_are_separate_trees(make_trace: MakeTrace) -> None:
    rows = ({"name": "a", "at": (0, 100)}, {"name": "b", "at": (10, 30)})
    run = Run(traces=[make_trace(*rows, rank=rank, cycle=cycle) for rank in (0, 1) for cycle in (0, 1)])
    assert {row.name: (row.call_count, row.self_cpu_ns) for row in op_table(run)} == {"a": (4, 320), "b": (4, 80)}
    split = {(row.rank, row.name): row.call_count for row in op_table(run, by=("rank", "name"))}
    assert split == {(0, "a"): 2, (0, "b"): 2, (1, "a"): 2, (1, "b"): 2}


def test_ids_need_not_be_row_numbers(make_trace: MakeTrace) -> None:
    trace = make_trace({"name": "a", "at": (0, 100)}, {"name": "b", "at": (10, 30)}, {"name": "c", "at": (40, 50)})
    backwards = Trace(trace.events.take([2, 1, 0]), trace.info)
    assert {row.name: row.self_cpu_ns for row in op_table(backwards)} == {"a": 70, "b": 20, "c": 10}


@pytest.mark.parametrize("by", ["name", "op"])
def test_parts_of_a_table_with_dictionaries_of_their_own_are_one(linear: Trace, by: str) -> None:
    def recoded(part: pa.Table) -> pa.Table:
        columns = [c.cast(pa.string()).dictionary_encode() if c.type == TEXT else c for c in part.columns]
        return pa.table(columns, schema=part.schema)

    events = pa.concat_tables([recoded(linear.events.slice(0, 2)), recoded(linear.events.slice(2))])
    assert op_table(Trace(events, linear.info), by=by).rows == op_table(linear, by=by).rows


@pytest.mark.parametrize("by", ["name", "op", "thread", ("rank", "shapes")])
def test_nothing_recorded_gives_an_empty_table(make_trace: MakeTrace, by: Any) -> None:
    assert len(op_table(make_trace(), by=by)) == 0
    assert len(op_table(Run(traces=()), by=by)) == 0
    assert "Self CPU" in str(op_table(make_trace(), by=by))


@pytest.mark.parametrize("name", ["'; drop table calls; --", 'a"b', "a\nb", "\x00", "🔥", "", "{keys}", "%s"])
def test_hostile_names_are_only_names(make_trace: MakeTrace, name: str) -> None:
    table = op_table(make_trace({"name": name, "at": (0, 10)}))
    assert table.rows[0].name == name
    assert len(str(table).splitlines()) == 6


def test_what_was_not_recorded_is_not_printed(linear: Trace, gpu: Trace) -> None:
    assert "Device" not in str(op_table(linear))
    assert "CPU Mem" not in str(op_table(linear))
    assert "FLOPs" in str(op_table(linear))
    assert "Self device time total: 1.500 us" in str(op_table(gpu))


def test_a_path_is_refused_with_the_way_to_read_it() -> None:
    with pytest.raises(UsageError, match=r"unified_profiler\.read"):
        op_table("trace.json")  # type: ignore[arg-type]
