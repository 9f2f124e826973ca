"""`unified-profiler critical-path` on a step whose path is known by construction."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from unified_profiler.model.storage import write_parquet
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Two steps of 1000 ns, each with a product of 600 ns, a sum of 300 ns and nothing for 100 ns."""
    builder = TraceBuilder(first_step=0, last_step=1)
    for step in (0, 1):
        builder.step(step, 1000 * step, 1000)
        builder.op("mm", 1000 * step, 600).op("sum", 1000 * step + 600, 300)
    path = tmp_path / "run.parquet"
    write_parquet(builder.build(), path)
    return path


def test_the_largest_contribution_comes_first(invoke: Invoke, recorded: Path) -> None:
    rows = json.loads(invoke("critical-path", recorded, "--json").stdout)
    assert [(row["kind"], row["name"], row["path_ns"]) for row in rows[:2]] == [("op", "mm", 1200), ("op", "sum", 600)]


def test_the_lines_below_name_the_kinds_and_the_next_command(invoke: Invoke, recorded: Path) -> None:
    *_, kinds, command = invoke("critical-path", recorded).stdout.splitlines()
    assert kinds == "By kind: op 90.0%, gap 10.0%."
    assert command.endswith(f"unified-profiler critical-path {recorded} --what-if mm=0.5")


def test_the_segments_of_a_step_cover_it_in_order(invoke: Invoke, recorded: Path) -> None:
    rows = json.loads(invoke("critical-path", recorded, "--path", "--step", "1", "--json").stdout)
    assert [(row["name"], row["duration_ns"]) for row in rows[:2]] == [("mm", 600), ("sum", 300)]
    assert sum(row["duration_ns"] for row in rows) == 1000
    head, _, first, *_ = invoke("critical-path", recorded, "--path").stdout.splitlines()
    assert head.split()[:3] == ["Rank", "Step", "After"]
    assert first.split()[2:4] == ["0.000", "us"]


def test_a_prediction_shows_measured_and_predicted_times_and_assumptions(invoke: Invoke, recorded: Path) -> None:
    options = ("--what-if", "mm=0.5", "--what-if", "sum=0", "--step", "0")
    (row,) = json.loads(invoke("critical-path", recorded, *options, "--json").stdout)
    assert (row["measured_ns"], row["predicted_ns"]) == (1000, 400)
    assert "stays as recorded" in invoke("critical-path", recorded, *options).stdout
    assert "与记录一致" in invoke("critical-path", recorded, *options, "--language", "zh").stdout


@pytest.mark.parametrize("change", ["mm", "mm=", "=0.5", "mm=half"])
def test_a_change_without_name_or_factor_is_refused(invoke: Invoke, recorded: Path, change: str) -> None:
    result = invoke("critical-path", recorded, "--what-if", change)
    assert result.exit_code == 2
    assert "a name and a factor such as" in result.stderr


@pytest.mark.parametrize("other", [["--path"], ["--rank", "0"]])
def test_a_prediction_has_no_path(invoke: Invoke, recorded: Path, other: list[str]) -> None:
    result = invoke("critical-path", recorded, "--what-if", "mm=0", *other)
    assert result.exit_code == 2
    assert f"--what-if and {other[0]} cannot be combined" in result.stderr


def test_rows_beyond_the_limit_are_counted(invoke: Invoke, recorded: Path) -> None:
    assert "Shown: 1 of 3 rows." in invoke("critical-path", recorded, "--row-limit", "1").stdout


@pytest.mark.parametrize("arguments", [(), ("--path",)])
def test_a_gap_has_no_name_of_its_own(invoke: Invoke, recorded: Path, arguments: tuple[str, ...]) -> None:
    rows = json.loads(invoke("critical-path", recorded, *arguments, "--json").stdout)
    assert any((row["kind"], row["name"]) == ("gap", "gap") for row in rows)
    lines = invoke("critical-path", recorded, *arguments).stdout.splitlines()
    assert any("gap" in line for line in lines)
    assert not any(line.split().count("gap") > 1 for line in lines)


def test_kinds_are_words_in_chinese(invoke: Invoke, recorded: Path) -> None:
    printed = invoke("critical-path", recorded, "--language", "zh").stdout
    assert "\u6309\u7c7b\u578b\uff1a\u7b97\u5b50 90.0%\uff0c\u95f4\u9694 10.0%\u3002" in printed
