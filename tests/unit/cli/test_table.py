from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

Invoke = Callable[..., Result]


def test_table_prints_every_operator(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir)
    assert result.exit_code == 0, result.stderr
    assert all(name in result.stdout for name in ("aten::linear", "aten::addmm", "aten::relu"))


def test_a_directory_of_runs_stands_for_its_newest_run(invoke: Invoke, run_dir: Path) -> None:
    assert invoke("table", run_dir.parent).stdout == invoke("table", run_dir).stdout


def test_json_holds_one_object_per_operator_of_all_ranks(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir, "--json")
    records = {record["name"]: record for record in json.loads(result.stdout)}
    assert records.keys() == {"aten::linear", "aten::addmm", "aten::relu"}
    assert records["aten::addmm"]["self_cpu_ns"] == 400 + 800


def test_rank_selects_the_traces_of_one_rank(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir, "--rank", "1", "--json")
    records = {record["name"]: record for record in json.loads(result.stdout)}
    assert records["aten::addmm"]["self_cpu_ns"] == 800


def test_a_rank_that_is_not_there_is_refused_with_what_is(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir, "--rank", "7")
    assert result.exit_code == 2
    assert "no trace of rank 7" in result.stderr
    assert "rank 0 cycle 0, rank 1 cycle 0" in result.stderr


def test_a_cycle_that_is_not_there_is_refused(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir, "--cycle", "3")
    assert result.exit_code == 2
    assert "no trace of cycle 3" in result.stderr


def test_row_limit_keeps_the_first_rows_of_the_order(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir, "--sort-by", "self_cpu_time_total", "--row-limit", "1", "--json")
    assert [record["name"] for record in json.loads(result.stdout)] == ["aten::addmm"]


def test_an_unknown_sort_key_is_refused(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir, "--sort-by", "self_cpu_tiem_total")
    assert result.exit_code == 2
    assert "self_cpu_time_total" in result.stderr


def test_rows_can_be_made_by_several_columns(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir, "--by", "name", "--by", "kind", "--json")
    assert {(record["name"], record["kind"]) for record in json.loads(result.stdout)} >= {("aten::relu", "op")}


def test_steps_gives_one_row_per_rank_and_step(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir, "--steps", "--json")
    assert [(record["rank"], record["step"]) for record in json.loads(result.stdout)] == [(0, 0), (1, 0)]
