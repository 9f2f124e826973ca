from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from unified_profiler import rank_table, read
from unified_profiler.cli.rank_series import emphasis_of_ranks
from unified_profiler.testing.fleets import Fleet, HostClock, Straggler

Invoke = Callable[..., Result]
SLOW = Straggler(rank=2, since=30, extra_ns=4_000_000, operator="layer_3")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    clocks = {1: HostClock(offset_ns=1_000_000_000, drift=1e-5)}
    return Fleet(ranks=3, steps=60, stragglers=[SLOW], clocks=clocks).write(tmp_path)


def test_the_slow_rank_is_named_with_step_and_operator(invoke: Invoke, fleet: Path) -> None:
    result = invoke("ranks", fleet)
    assert result.exit_code == 0, result.stderr
    assert "Rank 2 is slow since step 30" in result.stdout
    assert "layer_3 +" in result.stdout
    assert "The clocks of the machines differ, that of rank 1 most, by 1.000 s" in result.stdout


def test_medians_by_default_and_every_step_on_request(invoke: Invoke, fleet: Path) -> None:
    lines = invoke("ranks", fleet).stdout.splitlines()
    assert [line.split()[:2] for line in lines if line[:4].strip().isdigit()] == [["0", "60"], ["1", "60"], ["2", "60"]]
    every = invoke("ranks", fleet, "--steps").stdout.splitlines()
    assert sum(line[:4].strip().isdigit() for line in every) == 180


def test_the_time_of_each_rank_is_drawn_over_the_steps(invoke: Invoke, fleet: Path) -> None:
    lines = [line for line in invoke("ranks", fleet).stdout.splitlines() if line[:4].strip().isdigit()]
    drawn = [re.findall("[\u2581-\u2588]+", line) for line in lines]
    assert [len(each[0]) for each in drawn] == [24, 24, 24]
    assert drawn[2][0].endswith("\u2588" * 12)
    assert not drawn[2][0].startswith("\u2588")
    assert "\u2588" not in drawn[0][0] + drawn[1][0]


@pytest.mark.parametrize("options", [["--json"], ["--format", "csv"], ["--steps"]])
def test_programs_get_no_block_characters(invoke: Invoke, fleet: Path, options: list[str]) -> None:
    assert not re.search("[\u2581-\u2588]", invoke("ranks", fleet, *options).stdout)


def test_a_terminal_without_blocks_gets_the_numbers(fleet: Path) -> None:
    environment = {**os.environ, "COLUMNS": "140", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "unified_profiler", "ranks", str(fleet)]
    result = subprocess.run(command, capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert "Own by step" not in result.stdout.decode("ascii")


def test_slow_ranks_are_emphasized_since_the_step_in_which_they_became_slow(fleet: Path) -> None:
    table = rank_table(read(fleet))
    assert emphasis_of_ranks(table, table.ranks.table)["own_ns"] == ["", "", "high"]
    rows = zip(table["rank"], table["step"], emphasis_of_ranks(table, table.table)["own_ns"], strict=True)
    assert {(rank, step >= 30) for rank, step, emphasis in rows if emphasis == "high"} == {(2, True)}


def test_parts_that_no_rank_has_are_not_printed(invoke: Invoke, fleet: Path, tmp_path: Path) -> None:
    assert "Copies" not in invoke("ranks", fleet).stdout
    single = invoke("ranks", Fleet(ranks=1, steps=10).write(tmp_path, "single")).stdout
    assert "Skew" not in single
    assert "Data" in single


def test_json_holds_all_of_it(invoke: Invoke, fleet: Path) -> None:
    found = json.loads(invoke("ranks", fleet, "--json").stdout)
    assert found["verdict"][0]["code"] == "slow_since"
    assert found["verdict"][0]["values"]["rank"] == 2
    assert found["clocks"]["method"] == "collectives"
    assert (len(found["ranks"]), len(found["steps"])) == (3, 180)


def test_it_speaks_chinese(invoke: Invoke, fleet: Path) -> None:
    assert "rank 2 从第 30 步起偏慢" in invoke("ranks", fleet, "--language", "zh").stdout


def test_the_clocks_are_kept_in_the_run(invoke: Invoke, fleet: Path) -> None:
    assert invoke("ranks", fleet).exit_code == 0
    assert json.loads((fleet / "clocks.json").read_text())["method"] == "collectives"
    again = invoke("ranks", fleet)
    assert "Rank 2 is slow since step 30" in again.stdout
    assert "The clocks of the machines differ" in again.stdout


def test_a_run_of_one_rank_says_that_there_is_nothing_to_compare(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("ranks", Fleet(ranks=1, steps=10).write(tmp_path))
    assert result.exit_code == 0
    assert "nothing to compare it with" in result.stdout


def test_something_that_is_no_run_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("ranks", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_all_ranks_are_exported_by_one_clock(invoke: Invoke, fleet: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.json"
    result = invoke("export", fleet, out, "--all-ranks")
    assert result.exit_code == 0, result.stderr
    events = json.loads(out.read_text())["traceEvents"]
    steps = [event for event in events if event.get("name") == "step" and event["ph"] == "X"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert len(names) == 3
    begun = [step["ts"] for step in steps if step.get("args", {}).get("step") == 0]
    assert len(begun) == 3
    assert max(begun) - min(begun) < 50  # microseconds: the steps began together, by clocks a second apart


def test_all_ranks_and_one_rank_exclude_each_other(invoke: Invoke, fleet: Path, tmp_path: Path) -> None:
    result = invoke("export", fleet, tmp_path / "x.json", "--all-ranks", "--rank", "1")
    assert result.exit_code == 2
    assert "cannot be combined" in result.stderr
