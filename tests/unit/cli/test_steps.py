from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from unified_profiler.model.storage import write_parquet
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]


@pytest.mark.parametrize("options", [[], ["--json"], ["--rank", "1"], ["--cycle", "0", "--json"]])
def test_steps_prints_one_row_per_rank_and_step_of_the_selection(
    invoke: Invoke, run_dir: Path, options: list[str]
) -> None:
    result = invoke("steps", run_dir, *options)
    assert result.exit_code == 0, result.stderr
    count = 1 if "--rank" in options else 2
    rows = json.loads(result.stdout) if "--json" in options else result.stdout.splitlines()[2:-1]
    assert len(rows) == count


def test_json_holds_one_object_per_rank_and_step(invoke: Invoke, run_dir: Path) -> None:
    records = json.loads(invoke("steps", run_dir, "--json").stdout)
    assert [(record["rank"], record["step"], record["wall_ns"]) for record in records] == [(0, 0, 1000), (1, 0, 2000)]


def test_each_region_has_a_column(invoke: Invoke, tmp_path: Path) -> None:
    builder = TraceBuilder(first_step=0, last_step=1).step(0, 0, 100).step(1, 100, 100)
    builder.region("forward", 10, 20).region("forward", 110, 30).region("loss", 150, 5)
    write_parquet(builder.build(), tmp_path / "run.parquet")
    head, _, first, second, _ = invoke("steps", tmp_path / "run.parquet").stdout.splitlines()
    assert head.split()[-2:] == ["forward", "loss"]
    assert re.split("  +", first)[-2:] == ["0.020 us", "--"]
    assert re.split("  +", second)[-2:] == ["0.030 us", "0.005 us"]


def test_a_run_without_steps_says_so(invoke: Invoke, tmp_path: Path) -> None:
    write_parquet(TraceBuilder().op("a", 0, 1).build(), tmp_path / "run.parquet")
    assert "No step was recorded" in invoke("steps", tmp_path / "run.parquet").stdout


def test_a_rank_that_is_not_there_is_refused(invoke: Invoke, run_dir: Path) -> None:
    assert invoke("steps", run_dir, "--rank", "9").exit_code == 2
