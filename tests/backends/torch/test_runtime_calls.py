"""Calls of a device's runtime are apart from operators in tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import unified_profiler as up

GOLDEN = Path(__file__).parents[2] / "golden" / "kineto"


@pytest.fixture(scope="module", params=["nccl_rank", "mi250_train", "alexnet_cuda"])
def trace(request: pytest.FixtureRequest) -> up.Trace:
    (trace,) = up.read(GOLDEN / f"{request.param}.json.gz").traces
    return trace


def calls(trace: up.Trace) -> set[str]:
    rows = trace.events.select(["name", "kind", "correlation_id"]).to_pylist()
    return {row["name"] for row in rows if row["kind"] == "runtime" and row["correlation_id"] is not None}


def test_they_are_a_category_of_their_own(trace: up.Trace) -> None:
    rows = up.op_table(trace, by=["category", "name"]).table.to_pylist()
    assert {row["name"] for row in rows if row["category"] == "runtime"} >= calls(trace) & {"cudaLaunchKernel"}
    assert not calls(trace) & {row["name"] for row in rows if row["category"] != "runtime"}


def test_they_have_no_origin(trace: up.Trace) -> None:
    rows = up.op_table(trace, by=["origin", "name"]).table.to_pylist()
    assert {row["origin"] for row in rows if row["name"] in calls(trace)} <= {None}


def test_they_have_rows_by_name_and_no_time_is_lost_in_other_groups(trace: up.Trace) -> None:
    by_name = up.op_table(trace, by="name").table.to_pylist()
    by_category = up.op_table(trace, by="category").table.to_pylist()
    assert {row["name"] for row in by_name} >= {"cudaLaunchKernel"} & calls(trace)
    total = sum(row["self_cpu_ns"] for row in by_name)
    assert sum(row["self_cpu_ns"] for row in by_category) == pytest.approx(total, rel=1e-9)
