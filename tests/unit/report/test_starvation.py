from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import unified_profiler as up
from unified_profiler.cli.app import app
from unified_profiler.model.records import Manifest
from unified_profiler.model.run import Run, completed
from unified_profiler.model.steps import phase_codes, step_table
from unified_profiler.report.markdown import markdown
from unified_profiler.schedule import Phase
from unified_profiler.testing.builders import TraceBuilder

SECOND = 1_000_000_000
CORES = 2
NAMES = {
    "cpu": "process CPU %",
    "wait": "process CPU wait %",
    "system": "system CPU %",
    "steal": "system CPU steal %",
}


def trace(*, seconds: float = 10, covered: float = 0.9, cycle: float = 0, **percent: float) -> up.Trace:
    """Make a trace of one step with operators for a part of its time, and with counters that never change."""
    cycle, duration = int(cycle), int(seconds * SECOND)
    start = cycle * 100 * SECOND
    limits = {"start_ns": start, "end_ns": start + duration, "first_step": cycle, "last_step": cycle}
    builder = TraceBuilder(cycle=cycle, **limits)
    builder.step(cycle, start, duration).op("aten::sqrt", start, int(covered * duration), op="Sqrt")
    values: list[tuple[str, str | None, float]] = [(NAMES[key], None, value) for key, value in percent.items()]
    values += [("core CPU %", f"cpu:{core}", 50.0) for core in range(CORES)]
    for name, device, value in values:
        builder.op(name, start, 0, device=device, value=value, kind="counter", layer="hardware", framework=None)
    return builder.build()


def codes(source: up.Trace | Run) -> list[str]:
    return [notice.code for notice in up.summarize(source).notices]


def test_a_process_that_got_little_of_what_its_threads_wanted_is_starved() -> None:
    summary = up.summarize(trace(cpu=4, wait=96, system=100))
    first = summary.notices[0]
    assert (first.code, first.level) == ("starved", "warning")
    assert first.values == pytest.approx(
        {"rank": 0, "got_share": 0.04, "wanted_share": 1.0, "busy_share": 1.0, "stolen_share": None}
    )
    assert "got 4.0% of a core, but its threads wanted at least 100.0%" in first.text


def recorded(*, steps: int = 8, unrecorded_us: int = 10) -> Run:
    """Make a run of a starved trace, with unrecorded steps that took much less time than the recorded one."""
    starved = trace(cpu=4, wait=96, system=100)
    times = np.array([10_000_000, *[unrecorded_us] * steps], np.int64) * 1000
    phases = phase_codes([Phase.RECORD, *[Phase.IDLE] * steps])
    ends = np.cumsum(times)
    table = step_table(rank=0, first=0, start_ns=ends - times, end_ns=ends, phase=phases)
    manifest = Manifest(
        profiler_version="1", run="r", rank=0, host="h", pid=1, python="3", platform="p", started_ns=0, ended_ns=1
    )
    return Run(traces=(starved,), manifests={0: completed(manifest, (), table)}, steps=table)


def test_a_starved_process_does_not_show_the_cost_of_recording() -> None:
    run = recorded()
    assert run.manifests[0].overhead.unclear is None
    summary = up.summarize(run)
    assert (summary.steps.overhead_ratio, summary.steps.overhead_unclear) == (None, "starved")
    assert "the cost of recording is not clear, since the process was starved" in summary.findings[0].text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_stands_before_where_the_time_went(language: str) -> None:
    text = markdown(up.summarize(trace(cpu=4, wait=96, system=100)), language=language)
    assert text.index("4.0%") < text.index("aten::sqrt")


@pytest.mark.parametrize(
    "percent",
    [
        {"cpu": 95, "wait": 3, "system": 60},
        {"cpu": 4, "wait": 2, "system": 100},  # it hardly wants anything
        {"cpu": 180, "wait": 400, "system": 100},  # it has too many threads, and waits for itself
        {"cpu": 60, "wait": 40, "system": 100},
        {"cpu": 4, "system": 30},  # blocked, by whatever it was, while cores were free
        {"cpu": 4, "system": 100, "covered": 0.1},  # no operator that wanted a core
        {"cpu": 4, "wait": 96, "system": 100, "seconds": 0.2},
        {"system": 100},
        {},
    ],
)
def test_nothing_is_claimed_without_clear_evidence(percent: dict[str, float]) -> None:
    assert not [code for code in codes(trace(**percent)) if code.startswith("starved")]


@pytest.mark.parametrize(
    ("percent", "code"),
    [
        ({"cpu": 4, "system": 99}, "starved"),  # operators ran nine tenths of the time, on a crowded machine
        ({"cpu": 30, "system": 40, "steal": 35}, "starved_by_hypervisor"),
        ({"cpu": 4, "wait": 96, "system": 10}, "starved"),  # a limit on its CPU time
    ],
)
def test_what_else_shows_it(percent: dict[str, float], code: str) -> None:
    assert codes(trace(**percent))[0] == code


def test_the_time_between_cycles_does_not_count() -> None:
    starved = trace(cpu=4, wait=96, system=100)
    fine = trace(cycle=1, cpu=100, wait=0, system=100)
    assert "starved" not in codes(Run(traces=(starved, trace(cycle=1, seconds=50, cpu=100, wait=0, system=100))))
    assert "starved" in codes(Run(traces=(starved, fine)).select(cycle=0))


STARVING = """
import os, subprocess, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import unified_profiler as up
others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
try:
    with up.Profiler(level=1, output_dir=sys.argv[1]) as prof:
        end = time.process_time() + 0.4
        while time.process_time() < end:
            sum(range(100_000))
            prof.step()
finally:
    for other in others:
        other.kill()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the waiting for cores")
def test_a_process_beside_four_others_on_one_core_is_starved(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", STARVING, str(tmp_path)], check=True)
    shown = json.loads(CliRunner().invoke(app, ["summary", str(tmp_path), "--json"]).stdout)
    assert shown["notices"][0]["code"].startswith("starved")
    assert shown["notices"][0]["values"]["got_share"] < 0.5


# --- one step that dominates ----------------------------------------------------------------------------------------


def steps(sqrt_us: list[int]) -> up.Trace:
    """Make steps in which a matrix product takes 100 us, and a root as long as given."""
    builder, at = TraceBuilder(first_step=0, last_step=len(sqrt_us) - 1), 0
    for step, root in enumerate(sqrt_us):
        builder.step(step, at, (150 + root) * 1000).op("aten::mm", at, 100_000, op="MatMul")
        builder.op("aten::sqrt", at + 100_000, root * 1000, op="Sqrt")
        at += (150 + root) * 1000
    return builder.build()


def test_where_one_step_dominates_operators_are_ranked_by_a_usual_step() -> None:
    summary = up.summarize(steps([10, 10, 50_000, 10, 10]))
    assert summary.dominating_step is not None
    assert summary.dominating_step.step == 2
    assert [(row["name"], row["step_self_cpu_ns"]) for row in summary.operators] == [
        ("aten::mm", 100_000),
        ("aten::sqrt", 10_000),
    ]
    texts = {finding.code: finding.text for finding in summary.findings}
    assert "aten::mm" in texts["operator_usual"]
    assert "operator" not in texts
    assert summary.findings[2].values["category"] == "matmul"
    assert "dominating_step" in codes(steps([10, 10, 50_000, 10, 10]))
    assert "Self CPU per step" in markdown(summary)


@pytest.mark.parametrize("sqrt_us", [[10] * 5, [400, 500, 600], [10, 10, 500], [10, 50_000], [50_000]])
def test_else_by_their_totals(sqrt_us: list[int]) -> None:
    summary = up.summarize(steps(sqrt_us))
    assert summary.dominating_step is None
    assert "operator" in [finding.code for finding in summary.findings]
    assert "step_self_cpu_ns" not in summary.operators[0]
