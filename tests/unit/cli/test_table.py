from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import unified_profiler as up
from unified_profiler.analysis.op_table import GROUPINGS
from unified_profiler.model.storage import write_parquet
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]


def test_table_prints_every_operator(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir)
    assert result.exit_code == 0, result.stderr
    assert all(name in result.stdout for name in ("aten::linear", "aten::addmm", "aten::relu"))


def test_a_directory_of_runs_stands_for_its_newest_run(invoke: Invoke, run_dir: Path) -> None:
    newest = invoke("table", run_dir.parent)
    assert newest.stdout == invoke("table", run_dir).stdout.replace(str(run_dir), str(run_dir.parent))
    assert newest.stderr == f"unified-profiler: reading {run_dir}: the only run there\n"


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


@pytest.fixture
def api_run(tmp_path: Path) -> Path:
    """A trace with a call of norm that calls sqrt, and one of relu."""
    builder = TraceBuilder()
    for name, start, duration in (("torch.norm", 0, 1000), ("torch.sqrt", 100, 700), ("torch.relu", 2000, 400)):
        builder.op(name, start, duration, layer="api", kind="api_call")
    path = tmp_path / "api.parquet"
    write_parquet(builder.op("aten::sqrt", 200, 100).build(), path)
    return path


def test_api_prints_the_calls_of_each_api(invoke: Invoke, api_run: Path) -> None:
    result = invoke("table", api_run, "--api")
    assert result.exit_code == 0, result.stderr
    assert all(name in result.stdout for name in ("torch.norm", "torch.sqrt", "torch.relu", "API time total: 1.400 us"))
    assert "aten::sqrt" not in result.stdout


def test_api_sorts_limits_and_prints_json_as_the_table_of_operators_does(invoke: Invoke, api_run: Path) -> None:
    result = invoke("table", api_run, "--api", "--sort-by", "total_ns", "--row-limit", "2", "--json")
    records = json.loads(result.stdout)
    assert [(record["name"], record["self_ns"]) for record in records] == [("torch.norm", 300), ("torch.sqrt", 700)]


def test_api_refuses_an_unknown_sort_key(invoke: Invoke, api_run: Path) -> None:
    result = invoke("table", api_run, "--api", "--sort-by", "totl_ns")
    assert result.exit_code == 2
    assert "Did you mean 'total_ns'?" in result.stderr


def test_api_of_a_run_without_api_calls_says_how_to_record_them(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("table", run_dir, "--api")
    assert result.exit_code == 0, result.stderr
    assert "unified-profiler run --api" in result.stdout


def test_regions_have_rows_on_request(invoke: Invoke, run_dir: Path) -> None:
    rows = {
        flag: {row["name"] for row in json.loads(invoke("table", run_dir, "--json", *flag.split()).stdout)}
        for flag in ("", "--regions")
    }
    expected = {row.name for row in up.op_table(up.read(run_dir), regions=True)}
    assert rows["--regions"] == expected > rows[""]


@pytest.mark.parametrize("other", [["--by", "op"], ["--regions"]])
def test_api_and_what_makes_other_tables_exclude_each_other(invoke: Invoke, api_run: Path, other: list[str]) -> None:
    result = invoke("table", api_run, "--api", *other)
    assert result.exit_code == 2
    assert f"--api and {other[0]} cannot be combined" in result.stderr


def test_the_help_lists_all_groupings(invoke: Invoke) -> None:
    text = " ".join(invoke("table", "--help").stdout.partition("--by COLUMN")[2].partition("--sort-by")[0].split())
    assert set(GROUPINGS) <= set(re.findall(r"\w+", text))


def test_of_a_table_without_rows_only_the_reason_is_printed(invoke: Invoke, tmp_path: Path) -> None:
    write_parquet(TraceBuilder(first_step=0, last_step=0).step(0, 0, 10).build(), tmp_path / "trace.parquet")
    printed = invoke("table", tmp_path / "trace.parquet").stdout
    assert printed.startswith("No operator was recorded: either level 1 was chosen")
    assert "Self CPU" not in printed


@pytest.mark.parametrize(
    ("heading", "language"),
    [("CPU total", "en"), ("Calls", "en"), ("Name", "en"), ("CPU \u603b\u8017\u65f6", "zh"), ("\u540d\u79f0", "zh")],
)
def test_rows_are_sorted_by_a_printed_heading(invoke: Invoke, run_dir: Path, heading: str, language: str) -> None:
    columns = {"CPU total": "cpu_ns", "Calls": "call_count", "CPU \u603b\u8017\u65f6": "cpu_ns"}
    by_heading = invoke("table", run_dir, "--sort-by", heading, "--language", language, "--json")
    assert by_heading.exit_code == 0, by_heading.stderr
    assert by_heading.stdout == invoke("table", run_dir, "--sort-by", columns.get(heading, "name"), "--json").stdout


def test_names_of_other_profilers_are_not_listed_for_a_wrong_column(invoke: Invoke, run_dir: Path) -> None:
    message = invoke("table", run_dir, "--sort-by", "nonsense").stderr
    assert "self_cpu_ns" in message
    assert "cuda" not in message


def test_people_get_words_and_programs_get_keys(invoke: Invoke, tmp_path: Path) -> None:
    builder = TraceBuilder().op("aten::mm", 0, 10, op="MatMul", direction="backward", tid=(1 << 40) + 3)
    write_parquet(builder.build(), tmp_path / "trace.parquet")
    by = ("--by", "category", "--by", "direction", "--by", "thread")
    printed = invoke("table", tmp_path / "trace.parquet", *by).stdout
    assert "matrix multiplication  backward   lane 3" in printed
    assert "\u53cd\u5411" in invoke("table", tmp_path / "trace.parquet", *by, "--language", "zh").stdout
    (record,) = json.loads(invoke("table", tmp_path / "trace.parquet", *by, "--json").stdout)
    assert (record["category"], record["direction"], record["tid"]) == ("matmul", "backward", (1 << 40) + 3)
