from __future__ import annotations

from collections.abc import Callable

import pytest

import unified_profiler as up
from unified_profiler.errors import ConfigurationError, UsageError
from unified_profiler.model.records import Manifest, Overhead
from unified_profiler.model.run import Run
from unified_profiler.testing.builders import TraceBuilder

StepsOf = Callable[..., up.Trace]

STEP_NS = 1_000_000
CONV = {"op": "Conv", "origin": "Conv", "direction": "forward"}
CONV_BACK = {"op": "Conv", "origin": "Conv", "direction": "backward"}
RELU = {"op": "Relu", "origin": "Relu", "direction": "forward"}


def codes(found: up.Diff) -> set[str]:
    return {notice.code for notice in found.notices}


def test_a_run_and_itself_differ_in_nothing(steps_of: StepsOf) -> None:
    trace = steps_of([("conv", 300), ("relu", 20)], scale=lambda step: 1 + step / 10)
    found = up.diff(trace, trace)
    rows = [found.total, *found.rows]
    assert {row.difference_ns for row in rows} == {0.0}
    assert {row.ratio for row in rows} == {1.0}
    assert not any(row.differs for row in rows)
    assert all(row.same_calls for row in rows)


def test_runs_of_one_framework_are_compared_by_name_and_below_by_shapes(steps_of: StepsOf) -> None:
    before = steps_of([("conv", 300, {"input_shapes": "[[1,3]]"}), ("relu", 100)])
    after = steps_of([("conv", 900, {"input_shapes": "[[1,5]]"}), ("relu", 100)])
    found = up.diff(before, after)
    assert found.by == "name"
    first = found.rows[0]
    assert (first.name, first.difference_ns, first.ratio, first.differs) == ("conv", 600.0, 3.0, True)
    assert [(part.name, part.baseline is None, part.candidate is None) for part in first.rows] == [
        ("[[1,5]]", True, False),
        ("[[1,3]]", False, True),
    ]


def test_frameworks_are_compared_by_origin_in_groups_with_the_kernels_of_each_below(steps_of: StepsOf) -> None:
    torch = steps_of([("aten::conv2d", 300, CONV), ("conv_backward", 500, CONV_BACK), ("aten::relu", 50, RELU)])
    keras = steps_of(
        [("Conv2D", 200, CONV), ("BiasAdd", 10, {**CONV, "op": "Add"}), ("Relu", 50, RELU)], framework="tensorflow"
    )
    found = up.diff(torch, keras)
    assert (found.by, found.across_frameworks) == ("origin", True)
    assert [group.name for group in found.rows] == ["convolution", "activation"]
    forward = next(row for row in found.rows[0].rows if row.direction == "forward")
    assert forward.baseline is not None
    assert forward.candidate is not None
    times = (forward.baseline.time_ns, forward.candidate.time_ns)
    assert (forward.name, *times) == ("Conv", 300, 210)
    assert {(part.name, part.baseline is not None) for part in forward.rows} == {
        ("aten::conv2d", True),
        ("Conv2D", False),
        ("BiasAdd", False),
    }
    backward = next(row for row in found.rows[0].rows if row.direction == "backward")
    assert backward.candidate is None


def test_what_has_no_counterpart_is_listed_and_said(steps_of: StepsOf) -> None:
    found = up.diff(steps_of([("a", 300), ("b", 100)]), steps_of([("a", 300), ("c", 300)]))
    assert {row.name for row in found.rows} == {"a", "b", "c"}
    assert found.baseline.unmatched_share == pytest.approx(0.25)
    assert found.candidate.unmatched_share == pytest.approx(0.5)


def test_nothing_is_lost(steps_of: StepsOf) -> None:
    torch = steps_of([("conv", 300, CONV), ("x", 7), ("relu", 20, RELU)], scale=lambda step: 1 + step)
    keras = steps_of([("Conv2D", 210, CONV), ("y", 9)], framework="tensorflow")
    found = up.diff(torch, keras)
    for name, trace in (("baseline", torch), ("candidate", keras)):
        side = getattr(found, name)
        whole = sum(row.self_cpu_ns for row in up.op_table(trace))
        assert side.total_ns == whole
        assert getattr(found.total, name).total_ns == whole
        for rows in (found.rows, [row for group in found.rows for row in group.rows]):
            assert sum(getattr(row, name).total_ns for row in rows if getattr(row, name)) == whole


def test_what_runs_outside_of_steps_is_said(steps_of: StepsOf) -> None:
    builder = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=0)
    trace = builder.step(0, 0, 1000).op("a", 0, 100, framework="torch").op("b", 5000, 400, framework="torch").build()
    found = up.diff(trace, trace)
    assert (found.baseline.total_ns, found.baseline.outside_steps_ns) == (100, 400)
    assert "outside_steps" in codes(found)


def test_times_are_medians_with_quartiles_and_calls_are_per_step(steps_of: StepsOf) -> None:
    trace = steps_of([("a", 100), ("a", 100)], scale=lambda step: (1, 1, 2, 3, 50)[step])
    measured = up.diff(trace, trace).rows[0].baseline
    assert measured is not None
    assert (measured.low_ns, measured.time_ns, measured.high_ns) == (200.0, 400.0, 600.0)
    assert measured.call_count == 2.0


def test_a_step_without_a_row_counts_as_zero(steps_of: StepsOf) -> None:
    builder = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=2)
    for step in range(3):
        builder.step(step, step * 1000, 1000).op("a", step * 1000, 100, framework="torch")
    trace = builder.op("rare", 200, 300, framework="torch").build()
    rare = next(row for row in up.diff(trace, trace).rows if row.name == "rare")
    assert rare.baseline is not None
    assert (rare.baseline.time_ns, rare.baseline.total_ns) == (0.0, 300)


def test_members_of_a_family_are_folded_only_where_the_sides_differ_in_them(steps_of: StepsOf) -> None:
    def named(*origins: str, framework: str) -> up.Trace:
        return steps_of(
            [(f"{framework}.{o}", 100, {"op": o, "origin": o, "direction": "forward"}) for o in origins],
            framework=framework,
        )

    def rows(first: up.Trace, second: up.Trace) -> list[str]:
        return sorted(str(row.name) for group in up.diff(first, second).rows for row in group.rows)

    both = named("Gemm", "MatMul", framework="torch")
    assert rows(both, named("Gemm", "MatMul", framework="tensorflow")) == ["Gemm", "MatMul"]
    assert rows(both, named("MatMul", framework="tensorflow")) == ["MatMul"]


def test_flops_per_second_are_of_the_calls_whose_flops_are_known(steps_of: StepsOf) -> None:
    trace = steps_of([("mm", 100, {"flops": 5000}), ("relu", 100)])
    found = up.diff(trace, trace)
    measured = {row.name: row.baseline for row in found.rows}
    assert measured["mm"] is not None
    assert measured["relu"] is not None
    assert (measured["mm"].flops, measured["mm"].flops_per_s) == (5000.0, 5e10)
    assert measured["relu"].flops_per_s is None
    assert found.total.baseline is not None
    assert found.total.baseline.flops_per_s == 5e10


def test_work_of_accelerators_is_compared_where_both_have_it(steps_of: StepsOf) -> None:
    def trace(work: int) -> up.Trace:
        builder = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=2)
        for step in range(3):
            at, number = step * STEP_NS, step + 1
            builder.step(step, at, STEP_NS)
            builder.op("aten::mm", at, 50, framework="torch", **CONV)
            builder.op(
                "cudaLaunch", at + 10, 5, kind="runtime", layer="runtime", framework="torch", correlation_id=number
            )
            builder.op(
                "gemm_kernel",
                at + 100,
                work,
                kind="kernel",
                layer="runtime",
                framework="torch",
                device="cuda:0",
                tid=7,
                correlation_id=number,
            )
        return builder.build()

    found = up.diff(trace(1000), trace(3000), by="origin")
    assert found.time == "device"
    assert (found.total.difference_ns, found.total.ratio) == (2000.0, 3.0)
    assert found.rows[0].name == "convolution"
    only = up.diff(trace(1000), steps_of([("aten::mm", 60, CONV)]), by="origin")
    assert only.time == "host"
    assert "one_device" in codes(only)


def test_regions_are_compared_by_wall_time_and_the_rest_of_a_step_has_a_row() -> None:
    def trace(load: int) -> up.Trace:
        builder = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=2)
        for step in range(3):
            at = step * 10_000
            builder.step(step, at, 10_000).region("load", at, load).region("model", at + 5000, 2000)
            builder.region("forward", at + 5000, 500)
        return builder.build()

    found = up.diff(trace(1000), trace(4000), by="region")
    times = {
        row.name: (row.baseline and row.baseline.time_ns, row.candidate and row.candidate.time_ns) for row in found.rows
    }
    assert times == {
        "load": (1000.0, 4000.0),
        "model": (1500.0, 1500.0),
        "forward": (500.0, 500.0),
        "x:OutsideRegions": (7000.0, 4000.0),
    }
    assert found.total.difference_ns == 0.0
    assert found.time == "wall"


def test_api_calls_of_two_frameworks_meet_by_the_last_part_of_their_names(steps_of: StepsOf) -> None:
    call = {"kind": "api_call", "layer": "api"}
    torch = steps_of([("torch.nn.Conv2d", 300, call), ("torch.nn.functional.relu", 20, call)])
    other = steps_of([("mindspore.nn.Conv2d", 500, call), ("mindspore.ops.gelu", 20, call)], framework="mindspore")
    found = up.diff(torch, other, by="api")
    conv = next(row for row in found.rows if row.name == "conv2d")
    assert conv.difference_ns == 200.0
    assert {part.name for part in conv.rows} == {"torch.nn.Conv2d", "mindspore.nn.Conv2d"}
    assert {row.name for row in found.rows} == {"conv2d", "relu", "gelu"}


def test_modules_are_compared_where_they_were_recorded(steps_of: StepsOf) -> None:
    before = steps_of([("a", 100, {"module": "net.first"}), ("a", 100, {"module": "net.second"})])
    after = steps_of([("a", 100, {"module": "net.first"}), ("a", 700, {"module": "net.second"})])
    found = up.diff(before, after, by="module")
    assert [(row.name, row.difference_ns) for row in found.rows] == [("net.second", 600.0), ("net.first", 0.0)]


def test_a_side_without_origins_is_compared_by_kernel_and_that_is_said(steps_of: StepsOf) -> None:
    torch = steps_of([("aten::mm", 300, {"op": "MatMul", "origin": "Gemm", "direction": "forward"})])
    eager = steps_of([("MatMul", 300, {"op": "MatMul"})], framework="tensorflow")
    found = up.diff(torch, eager)
    assert found.by == "op"
    assert "by_kernel" in codes(found)
    assert "without_origins" in codes(up.diff(torch, eager, by="origin"))
    assert "names_differ" in codes(up.diff(torch, eager, by="name"))


def test_regions_compiled_as_a_whole_are_said(steps_of: StepsOf) -> None:
    compiled = {"op": "x:Compiled", "origin": "x:Compiled", "kind": "region"}
    found = up.diff(steps_of([("## Call CompiledFxGraph", 300, compiled)]), steps_of([("a", 300)]), by="op")
    assert "compiled" in codes(found)


def test_annotations_of_a_framework_count_as_calls_of_the_optimizer_and_as_python_time(steps_of: StepsOf) -> None:
    adam = {"op": "Adam", "origin": "Adam", "direction": "update"}
    builder = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=0).step(0, 0, 10_000)
    builder.op("Optimizer.step#Adam.step", 0, 1000, framework="torch", kind="region", **adam)
    for place in range(3):
        builder.op("aten::mul_", place * 100, 50, framework="torch", **{**adam, "op": "Mul"})
    trace = builder.build()
    found = up.diff(trace, trace, by="origin")
    rows = {row.name: row.baseline for group in found.rows for row in group.rows}
    assert rows.keys() == {"Adam", "x:Python"}
    assert rows["Adam"] is not None
    assert rows["x:Python"] is not None
    assert (rows["Adam"].call_count, rows["Adam"].total_ns, rows["x:Python"].total_ns) == (1.0, 150, 850)
    assert found.baseline.unmatched_share == 0.0


def test_overlapping_operators_are_said(steps_of: StepsOf) -> None:
    builder = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=0).step(0, 0, 1000)
    trace = builder.op("a", 0, 900, framework="torch").op("a", 0, 900, framework="torch", tid=2).build()
    found = up.diff(trace, trace)
    assert "overlap" in codes(found)
    assert found.baseline.thread_count == 2
    one = (
        TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=0)
        .step(0, 0, 1000)
        .op("a", 0, 900, framework="torch")
        .build()
    )
    assert "different_threads" in codes(up.diff(trace, one))


def test_recording_that_cost_much_is_said(steps_of: StepsOf) -> None:
    trace = steps_of([("a", 300)])
    found = up.diff(trace, _with_overhead(trace))
    assert found.candidate.overhead_ratio is None  # one step alone does not show it
    assert found.candidate.unrecorded_step_ns == 500_000


def _with_overhead(trace: up.Trace) -> Run:
    manifest = Manifest(
        profiler_version="1",
        run="r",
        rank=0,
        host="h",
        pid=1,
        python="3",
        platform="x",
        started_ns=0,
        overhead=Overhead(unrecorded_step_ns=500_000, recorded_step_ns=1_000_000),
    )
    return Run(traces=(trace,), manifests={0: manifest})


def test_different_ranks_are_said_and_each_step_of_each_rank_counts(steps_of: StepsOf) -> None:
    one = steps_of([("a", 300)], rank=0)
    two = Run(traces=(one, steps_of([("a", 300)], rank=1)))
    found = up.diff(one, two)
    assert "different_ranks" in codes(found)
    assert (found.baseline.step_count, found.candidate.step_count) == (5, 10)
    assert found.total.difference_ns == 0.0


def test_few_steps_are_said(steps_of: StepsOf) -> None:
    assert "few_steps" in codes(up.diff(steps_of([("a", 300)], steps=2), steps_of([("a", 300)])))


def test_runs_without_steps_are_compared_as_wholes_and_that_is_said(steps_of: StepsOf) -> None:
    found = up.diff(steps_of([("a", 300)], steps=0), steps_of([("a", 500)], steps=0))
    assert "no_steps" in codes(found)
    assert (found.total.difference_ns, found.baseline.step_count) == (200.0, 0)


def test_steps_are_not_set_against_a_recording_without_them(steps_of: StepsOf) -> None:
    with pytest.raises(ConfigurationError, match="candidate has no steps"):
        up.diff(steps_of([("a", 300)]), steps_of([("a", 500)], steps=0))
    with pytest.raises(ConfigurationError, match="baseline has no steps"):
        up.diff(steps_of([("a", 300)], steps=0), steps_of([("a", 500)]))


@pytest.mark.parametrize("nothing", [Run(traces=()), TraceBuilder().build()])
def test_an_empty_side_is_refused(steps_of: StepsOf, nothing: up.Run | up.Trace) -> None:
    with pytest.raises(ConfigurationError, match="baseline holds no operators"):
        up.diff(nothing, steps_of([("a", 300)]))
    with pytest.raises(ConfigurationError, match="candidate holds no operators"):
        up.diff(steps_of([("a", 300)]), nothing)


def test_what_was_not_recorded_is_refused_with_how_to_record_it(steps_of: StepsOf) -> None:
    trace = steps_of([("a", 300)])
    with pytest.raises(ConfigurationError, match=r"holds no API calls.*api=True"):
        up.diff(trace, trace, by="api")


def test_an_unknown_sort_of_row_is_refused_with_the_nearest(steps_of: StepsOf) -> None:
    trace = steps_of([("a", 300)])
    with pytest.raises(ConfigurationError, match="Did you mean 'origin'"):
        up.diff(trace, trace, by="orign")


@pytest.mark.parametrize("wrong", ["five", "-1%", "120%", 1.5, "nan", ""])
def test_a_wrong_threshold_is_refused(steps_of: StepsOf, wrong: float | str) -> None:
    trace = steps_of([("a", 300)])
    with pytest.raises(ConfigurationError, match="threshold"):
        up.diff(trace, trace, threshold=wrong)


def test_anything_but_a_run_is_refused(steps_of: StepsOf) -> None:
    with pytest.raises(UsageError, match="Expected a Trace or a Run, found str"):
        up.diff("profile", steps_of([("a", 300)]))  # type: ignore[arg-type]


def test_it_survives_json(steps_of: StepsOf) -> None:
    found = up.diff(steps_of([("a", 300)]), steps_of([("b", 400)]))
    assert up.Diff.model_validate_json(found.model_dump_json()) == found
