from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

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
