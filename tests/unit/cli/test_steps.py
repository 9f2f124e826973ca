from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from unified_profiler import read, step_breakdown
from unified_profiler.cli.step_series import emphasis_of_steps
from unified_profiler.model.storage import write_parquet
from unified_profiler.testing.builders import TraceBuilder
from unified_profiler.testing.fleets import Fleet

Invoke = Callable[..., Result]
BLOCKS = re.compile("[\u2581-\u2588]+")


@pytest.mark.parametrize("options", [[], ["--json"], ["--rank", "1"], ["--cycle", "0", "--json"]])
def test_steps_prints_one_row_per_rank_and_step_of_the_selection(
    invoke: Invoke, run_dir: Path, options: list[str]
) -> None:
    result = invoke("steps", run_dir, *options)
    assert result.exit_code == 0, result.stderr
    count = 1 if "--rank" in options else 2
    rows = json.loads(result.stdout) if "--json" in options else result.stdout.splitlines()[2:-2]
    assert len(rows) == count


def test_json_holds_one_object_per_rank_and_step(invoke: Invoke, run_dir: Path) -> None:
    records = json.loads(invoke("steps", run_dir, "--json").stdout)
    assert [(record["rank"], record["step"], record["wall_ns"]) for record in records] == [(0, 0, 1000), (1, 0, 2000)]


def test_each_region_has_a_column(invoke: Invoke, tmp_path: Path) -> None:
    builder = TraceBuilder(first_step=0, last_step=1).step(0, 0, 100).step(1, 100, 100)
    builder.region("forward", 10, 20).region("forward", 110, 30).region("loss", 150, 5)
    write_parquet(builder.build(), tmp_path / "run.parquet")
    head, _, first, second, *_ = invoke("steps", tmp_path / "run.parquet").stdout.splitlines()
    assert head.split()[-2:] == ["forward", "loss"]
    assert re.split("  +", first)[-2:] == ["0.020 us", "--"]
    assert re.split("  +", second)[-2:] == ["0.030 us", "0.005 us"]


def test_a_run_without_steps_says_so(invoke: Invoke, tmp_path: Path) -> None:
    write_parquet(TraceBuilder().op("a", 0, 1).build(), tmp_path / "run.parquet")
    assert "No step was recorded" in invoke("steps", tmp_path / "run.parquet").stdout


def test_a_rank_that_is_not_there_is_refused(invoke: Invoke, run_dir: Path) -> None:
    assert invoke("steps", run_dir, "--rank", "9").exit_code == 2


# --- how steps develop ------------------------------------------------------------------------------------------------


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Four steps of 100 ns and a fifth of 400; in the third, half of the time is in no operator."""
    builder, start = TraceBuilder(first_step=0, last_step=4), 0
    for step, duration in enumerate([100, 100, 100, 100, 400]):
        builder.step(step, start, duration).op("mm", start, duration // 2 if step == 2 else duration)
        start += duration
    write_parquet(builder.build(), tmp_path / "uneven.parquet")
    return tmp_path / "uneven.parquet"


def test_a_line_has_the_median_the_slowest_step_and_a_sparkline(invoke: Invoke, uneven: Path) -> None:
    lines = invoke("steps", uneven).stdout.splitlines()
    assert "Wall  ▁▁▁▁█  median 0.100 us, slowest 0.400 us (step 4)" in lines


def test_each_rank_has_a_sparkline_on_a_common_scale(invoke: Invoke, tmp_path: Path) -> None:
    lines = invoke("steps", Fleet(ranks=3, steps=30, outer_ops=1).write(tmp_path)).stdout.splitlines()
    drawn = [BLOCKS.search(line) for line in lines if line.startswith("Rank ")][1:]
    assert [len(match[0]) for match in drawn if match] == [30, 30, 30]


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_the_lines_of_a_long_run_fit_the_terminal(
    invoke: Invoke, tmp_path: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(ranks=2, steps=3000, outer_ops=1).write(tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = [line for line in invoke("steps", fleet).stdout.splitlines() if "median" in line]
    assert len(lines) == 2
    assert max(map(len, lines)) <= columns
    assert all(BLOCKS.search(line) for line in lines) == (columns > 60)


def test_too_few_steps_have_no_line(invoke: Invoke, run_dir: Path) -> None:
    assert "median" not in invoke("steps", run_dir).stdout


def test_many_ranks_are_left_to_ranks(invoke: Invoke, tmp_path: Path) -> None:
    assert "median" not in invoke("steps", Fleet(ranks=20, steps=5, outer_ops=1).write(tmp_path)).stdout


@pytest.mark.parametrize("piped", [["--json"], ["--format", "csv"], ["-o", "steps.txt"], []])
def test_what_is_not_for_a_terminal_has_no_block_characters(
    invoke: Invoke, uneven: Path, piped: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    if not piped:
        monkeypatch.delenv("COLUMNS")
    result = invoke("steps", uneven, *piped)
    printed = Path("steps.txt").read_text(encoding="utf-8") if "-o" in piped else result.stdout
    assert not BLOCKS.search(printed)
    assert ("slowest 0.400 us (step 4)" in printed) == (piped in ([], ["-o", "steps.txt"]))
    assert "Highlighted" not in printed


def test_slow_steps_and_large_parts_are_emphasized(uneven: Path) -> None:
    emphasis = emphasis_of_steps(step_breakdown(read(uneven)).table)
    assert emphasis["wall_ns"] == ["", "", "", "", "high"]
    assert emphasis["uncovered_ns"] == ["low", "low", "high", "low", "low"]
    assert emphasis["op_ns"] == [""] * 5
    assert emphasis["copy_ns"] == ["low"] * 5


def test_a_cycle_is_named_if_there_are_several(invoke: Invoke, run_dir: Path) -> None:
    assert invoke("steps", run_dir).stdout.split()[:3] == ["Rank", "Step", "Wall"]
    builder = TraceBuilder(cycle=1, first_step=5, last_step=5).step(5, 5000, 10)
    write_parquet(builder.build(), run_dir / "rank-00000" / "cycle-00001.parquet")
    assert invoke("steps", run_dir).stdout.split()[:4] == ["Rank", "Cycle", "Step", "Wall"]
