from __future__ import annotations

import csv
import inspect
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import unified_profiler as up
from unified_profiler.cli.query import query

Invoke = Callable[..., Result]

ALL = "select rank, name, self_ns from events where kind = 'op' order by rank, name"


def test_query_prints_a_table(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("query", run_dir, ALL)
    assert result.exit_code == 0, result.stderr
    assert "aten::relu" in result.stdout


def test_json_holds_one_object_per_row(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("query", run_dir, ALL, "--json", "--rank", "0")
    assert json.loads(result.stdout) == [
        {"rank": 0, "name": "aten::addmm", "self_ns": 400},
        {"rank": 0, "name": "aten::linear", "self_ns": 200},
        {"rank": 0, "name": "aten::relu", "self_ns": 200},
    ]


def test_csv_has_a_header_and_a_line_per_row(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("query", run_dir, ALL, "--csv")
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows[0] == ["rank", "name", "self_ns"]
    assert len(rows) == 1 + 6


def test_text_does_nothing_in_a_spreadsheet(invoke: Invoke, run_dir: Path) -> None:
    sql = "select '=cmd()' as \"=head\", -1 as number, null as nothing, '-x' as text"
    rows = list(csv.reader(io.StringIO(invoke("query", run_dir, sql, "--csv").stdout)))
    assert rows == [["'=head", "number", "nothing", "text"], ["'=cmd()", "-1", "", "'-x"]]


def test_json_keeps_text_as_it_is(invoke: Invoke, run_dir: Path) -> None:
    assert json.loads(invoke("query", run_dir, "select '=cmd()' as a", "--json").stdout) == [{"a": "=cmd()"}]


def test_json_and_csv_exclude_each_other(invoke: Invoke, run_dir: Path) -> None:
    assert invoke("query", run_dir, ALL, "--csv", "--json").exit_code == 2


def test_wrong_sql_is_refused_with_the_reason(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("query", run_dir, "select nmae from events")
    assert result.exit_code == 2
    assert "nmae" in result.stderr


def test_a_query_cannot_write_a_file(invoke: Invoke, run_dir: Path, tmp_path: Path) -> None:
    target = tmp_path / "stolen.csv"
    result = invoke("query", run_dir, f"copy events to '{target}'")
    assert result.exit_code == 2
    assert not target.exists()


def _no_constants(text: str) -> float:
    raise ValueError(text)


def test_json_is_valid_for_numbers_that_json_does_not_have(invoke: Invoke, run_dir: Path) -> None:
    sql = "select 'nan'::double as a, ['inf'::double, 1] as b, {'x': '-inf'::float} as c, map {1.5: 'nan'::double} as d"
    printed = invoke("query", run_dir, sql, "--json").stdout
    expected = {"a": None, "b": [None, 1], "c": {"x": None}, "d": {"1.5": None}}
    assert json.loads(printed, parse_constant=_no_constants) == [expected]


def test_json_keeps_every_column_of_the_same_name(invoke: Invoke, run_dir: Path) -> None:
    printed = invoke("query", run_dir, "select 1 as a, 2 as a, 3 as a_1, 4 as a", "--json").stdout
    assert json.loads(printed) == [{"a": 1, "a_1": 2, "a_1_1": 3, "a_2": 4}]


@pytest.mark.parametrize("form", ["--csv", "--json", None])
def test_no_control_character_of_a_name_reaches_the_terminal(invoke: Invoke, run_dir: Path, form: str | None) -> None:
    sql = """select concat('a', chr(27), '[2J', chr(155), chr(7), 'b') as "h\x1b[31m", [chr(27)] as l"""
    printed = invoke("query", run_dir, sql, *filter(None, [form])).stdout
    assert printed
    assert not {char for char in printed if not char.isprintable()} - {"\r", "\n"}


def test_csv_spells_control_characters_out_and_keeps_line_ends(invoke: Invoke, run_dir: Path) -> None:
    sql = "select concat('a', chr(27), chr(10), 'b') as t, 1.5 as x, 12.50::decimal(4, 2) as d, null as n"
    rows = list(csv.reader(io.StringIO(invoke("query", run_dir, sql, "--csv").stdout, newline="")))
    assert rows == [["t", "x", "d", "n"], ["a\\x1b\nb", "1.5", "12.50", ""]]


@pytest.mark.parametrize("form", ["--csv", "--json", None])
def test_times_that_python_cannot_hold_are_printed(invoke: Invoke, run_dir: Path, form: str | None) -> None:
    sql = "select 'infinity'::timestamp as t, ['-infinity'::date] as d"
    result = invoke("query", run_dir, sql, *filter(None, [form]))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("infinity") == 2


def test_a_query_is_stopped_at_its_time_limit(invoke: Invoke, run_dir: Path) -> None:
    endless = "select sum(a.range * b.range) from range(10000000) a, range(10000000) b"
    result = invoke("query", run_dir, endless, "--timeout", "0.2")
    assert result.exit_code == 2
    assert "stopped after 0.2 s" in result.stderr


def test_the_time_limit_can_be_lifted(invoke: Invoke, run_dir: Path) -> None:
    assert invoke("query", run_dir, ALL, "--timeout", "0").exit_code == 0


def test_the_time_limit_of_the_command_is_that_of_the_function() -> None:
    limits = [inspect.signature(function).parameters["timeout"].default for function in (query, up.query)]
    assert limits == [60, 60]


def test_a_query_is_stopped_at_its_memory_limit(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("query", run_dir, "select range from range(1000000000)", "--memory-limit", "50MB")
    assert result.exit_code == 2
    assert "--memory-limit 16GB" in " ".join(result.stderr.split())


def test_the_memory_limit_is_for_duckdb(invoke: Invoke, run_dir: Path) -> None:
    result = invoke("query", run_dir, ALL, "--memory-limit", "1GB", "--engine", "spark")
    assert result.exit_code == 2
    assert "spark.driver.memory" in result.stderr
