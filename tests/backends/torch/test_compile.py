"""Compilation by torch.compile is of a kind of its own, and no operator time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from unified_profiler import Profiler, op_table, schedule, step_breakdown, summarize

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler imports deprecated parts


@pytest.fixture(scope="module")
def recompiled() -> Iterator[Profiler]:
    """Three recorded steps, of which the second compiles anew, forward and backward."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.relu(x @ x).sum(), backend="aot_eager")
    compiled(torch.ones(4, 4, requires_grad=True)).backward()
    plan = schedule(wait=0, warmup=1, active=3, repeat=1)
    with Profiler(schedule=plan, backend="torch", with_flops=True) as profiler:
        for size in (4, 4, 5, 5):
            compiled(torch.ones(size, size, requires_grad=True)).backward()
            profiler.step()
    assert not profiler.failures
    yield profiler
    torch._dynamo.reset()


def _events(profiler: Profiler) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = profiler.traces[0].events.to_pylist()
    return events


def test_what_the_compiler_does_is_of_the_kind_compile(recompiled: Profiler) -> None:
    events = _events(recompiled)
    named = [row for row in events if row["name"].endswith("(dynamo_timed)") or row["name"] == "entire_frame_compile"]
    assert len(named) > 3
    assert {(row["kind"], row["layer"], row["step"]) for row in named} == {("compile", "framework", 2)}
    compiles = [row for row in events if row["kind"] == "compile"]
    assert {(row["op"], row["origin"], row["direction"], row["flops"]) for row in compiles} == {(None,) * 4}
    assert {row["step"] for row in compiles} == {2}


def test_a_step_that_compiles_has_the_operators_of_any_other(recompiled: Profiler) -> None:
    table = op_table(recompiled.traces[0], by=("op", "step"))
    products = {row.step: row.call_count for row in table if row.op == "MatMul"}
    assert products == {1: 3, 2: 3, 3: 3}


def test_the_time_of_compiling_is_in_no_operator_and_counts_once(recompiled: Profiler) -> None:
    trace = recompiled.traces[0]
    outermost = [row for row in _events(recompiled) if row["name"] == "dynamo"]
    rows = {row.step: row for row in step_breakdown(trace)}
    assert rows[2].compile_ns >= sum(row["duration_ns"] for row in outermost) > 0
    assert (rows[1].compile_ns, rows[3].compile_ns) == (0, 0)
    assert rows[2].op_ns + rows[2].compile_ns + rows[2].uncovered_ns == rows[2].wall_ns
    total = sum(row.self_cpu_ns for row in op_table(trace))
    assert total <= sum(row.wall_ns - row.compile_ns for row in rows.values())
    assert not [row.name for row in op_table(trace) if "dynamo_timed" in row.name]
    assert rows[2].regions_ns == {}


def test_the_summary_has_the_share_of_compiling(recompiled: Profiler) -> None:
    summary = summarize(recompiled.traces[0])
    (finding,) = [finding for finding in summary.findings if finding.code == "compile"]
    assert finding.values["compile_share"] == summary.step_parts.compile_ns / summary.step_parts.wall_ns > 0


def test_a_users_region_named_as_a_phase_of_the_compiler_stays_a_region(record: Any) -> None:
    from unified_profiler_torch.read.normalizer import KinetoNormalizer

    def work() -> None:
        with torch.profiler.record_function("dynamo"):
            torch.ones(2) + 1

    events = KinetoNormalizer().normalize(record(work)).to_pylist()
    kinds = {row["name"]: row["kind"] for row in events}
    assert (kinds["dynamo"], kinds["aten::add"]) == ("region", "op")
