"""Predictions by hand: each trace is small enough to see what a change would do."""

from __future__ import annotations

from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.errors import ConfigurationError
from unified_profiler.testing import TraceBuilder

GPU = {"device": "cuda:0", "layer": "runtime", "pid": 0}
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
MS = 1_000_000


def predicted(builder: TraceBuilder, changes: dict[str, float]) -> list[int]:
    return [row.predicted_ns for row in up.what_if(builder.build(), changes)]


def host() -> TraceBuilder:
    """A step of 100: a gap of 10, `outer` from 10 to 70 with `inner` from 20 to 50, and a gap of 30."""
    return TraceBuilder().step(0, 0, 100).op("outer", 10, 60, op="Conv").op("inner", 20, 30)


def with_device() -> TraceBuilder:
    """A launch from 0 to 10, its kernel from 12 to 62, an operator from 10 to 40, and a wait for the kernel."""
    builder = TraceBuilder().step(0, 0, 100)
    runtime: dict[str, Any] = {"kind": "runtime", "layer": "runtime", "device": "cpu:0"}
    builder.op("aten::mm", 0, 10).op("cudaLaunchKernel", 0, 10, **runtime, correlation_id=1)
    builder.op("busy", 10, 30)
    builder.op("cudaDeviceSynchronize", 40, 22, **runtime, correlation_id=2)
    return builder.op("gemm", 12, 50, **GPU, kind="kernel", stream=7, tid=7, correlation_id=1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"inner": 0}, 70),
        ({"inner": 2}, 130),
        ({"outer": 0}, 40),
        ({"outer": 0.5}, 70),
        ({"Conv": 0.5}, 70),
        ({"convolution": 0}, 40),
        ({"out*": 0}, 40),
        ({"gap": 0}, 60),
        ({"outer": 0, "inner": 1}, 70),
        ({"op": 0, "gap": 0}, 0),
        ({"inner": 1}, 100),
    ],
)
def test_an_operator_includes_what_is_within_it_unless_that_has_a_change_of_its_own(
    changes: dict[str, float], expected: int
) -> None:
    assert predicted(host(), changes) == [expected]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"gemm": 0.5}, 78),  # the kernel ends at 37, before the host would wait for it at 40
        ({"gemm": 0.8}, 90),  # it ends at 52, and 38 remain
        ({"gemm": 3}, 200),
        ({"busy": 0}, 100),  # hidden behind the kernel
        ({"busy": 2}, 108),  # the host waits no more: it comes to the call at 70
        ({"launch": 0}, 98),
        ({"kernel": 0}, 78),
        ({"aten::mm": 0}, 68),  # with the launch within it and the kernel: only the 30 of `busy` and the 38 after it
    ],
)
def test_work_of_a_device_starts_after_its_launch_and_holds_up_who_waits_for_it(
    changes: dict[str, float], expected: int
) -> None:
    assert predicted(with_device(), changes) == [expected]


def test_a_device_that_is_behind_its_host_determines_the_time_from_step_to_step() -> None:
    builder = TraceBuilder().step(0, 0, 50).step(1, 50, 50)
    for step in (0, 1):
        columns = {"kind": "runtime", "layer": "runtime", "device": "cpu:0", "correlation_id": step + 1}
        builder.op("cudaLaunchKernel", 50 * step, 10, **columns)
        builder.op("k", 12 + 50 * step, 50, **GPU, kind="kernel", stream=7, tid=7, correlation_id=step + 1, step=step)
    assert predicted(builder, {"k": 2}) == [100, 100]


def test_a_program_that_waits_for_its_loader_is_not_faster_if_it_computes_faster() -> None:
    assert predicted(loading(), {"compute": 0.5})[1:] == [50 * MS, 50 * MS]


def test_a_program_that_waits_for_its_loader_is_faster_if_that_is_faster() -> None:
    assert predicted(loading(), {"data": 0.5})[2] == 25 * MS


def test_a_program_that_computes_longer_than_its_loader_loads_takes_batches_without_waiting() -> None:
    assert predicted(loading(), {"compute": 4}) == [110 * MS, 81 * MS, 81 * MS]


def loading() -> TraceBuilder:
    """Steps of 50 ms: taking a batch takes 1 ms if it is there, as in the first step, else 30 ms; computing 20 ms."""
    builder = TraceBuilder()
    for step in range(3):
        start = 50 * step * MS
        builder.step(step, start, 50 * MS)
        taking = 1 if step == 0 else 30
        columns = {"kind": "region", "framework": "torch"}
        builder.op(LOADER, start, taking * MS, **columns)
        builder.op("compute", start + 30 * MS, 20 * MS, framework="torch")
    return builder


def test_saved_time_is_also_given_as_a_share() -> None:
    (row,) = up.what_if(host().build(), {"inner": 0})
    assert (row.measured_ns, row.saved_ns, row.saved_share) == (100, 30, 0.3)


def test_only_one_step_is_predicted_on_request() -> None:
    builder = TraceBuilder().step(0, 0, 50).step(1, 50, 60).op("a", 0, 20).op("a", 60, 20)
    assert [(row.step, row.predicted_ns) for row in up.what_if(builder.build(), {"a": 0}, step=1)] == [(1, 40)]


def test_a_recording_without_steps_is_predicted_as_a_whole() -> None:
    builder = TraceBuilder().op("a", 0, 20).op("b", 30, 20)
    assert [(row.step, row.measured_ns, row.predicted_ns) for row in up.what_if(builder.build(), {"a": 0})] == [
        (None, 50, 30)
    ]


@pytest.mark.parametrize(("factor", "code"), [(0, "shorter"), (1, "unchanged"), (3, "longer")])
def test_the_verdict_is_the_median_step(factor: float, code: str) -> None:
    result = up.what_if(host().build(), {"inner": factor})
    (verdict,) = result.verdict
    row = result.rows[0]
    assert verdict.code == code
    assert (verdict.values["measured_ns"], verdict.values["predicted_ns"]) == (row.measured_ns, row.predicted_ns)
    assert verdict.text in str(result)


def test_assumptions_are_stated() -> None:
    result = up.what_if(host().build(), {"inner": 0})
    assert [each.code for each in result.assumptions] == ["order", "lags", "loading", "speed", "recording"]
    assert result.assumptions[0].text in str(result)


@pytest.mark.parametrize("changes", [{}, None, {"a": -1}, {"a": float("nan")}, {"a": "x"}, {"a": True}, {1: 2}, ["a"]])
def test_changes_that_are_no_factors_are_refused(changes: Any) -> None:
    with pytest.raises(ConfigurationError):
        up.what_if(host().build(), changes)


def test_a_change_that_applies_to_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="aten::nothing"):
        up.what_if(host().build(), {"aten::nothing": 0})


@pytest.mark.parametrize(("name", "suggested"), [("inne", "'inner'"), ("dat", "'data'")])
def test_a_misspelled_name_is_corrected(name: str, suggested: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Did you mean .*{suggested}.*\\?"):
        up.what_if(host().build(), {name: 0})


def test_nothing_is_suggested_for_a_kind_that_was_not_recorded() -> None:
    with pytest.raises(ConfigurationError, match="'data'") as error:
        up.what_if(host().build(), {"data": 0})
    assert "Did you mean" not in str(error.value)


def test_a_step_that_was_not_recorded_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="step 7"):
        up.what_if(host().build(), {"inner": 0}, step=7)
    with pytest.raises(ConfigurationError, match="step 7"):
        up.critical_path(host().build(), step=7)
