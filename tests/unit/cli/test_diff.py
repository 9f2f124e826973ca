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


def recorded(path: Path, *, conv: int, framework: str = "torch", rank: int = 0) -> Path:
    builder = TraceBuilder(frameworks={framework: "1"}, first_step=0, last_step=4, rank=rank)
    for step in range(5):
        at = step * 10_000
        columns = {"framework": framework, "op": "Conv", "origin": "Conv", "direction": "forward"}
        builder.step(step, at, 10_000).op("conv", at, conv, **columns).op("mine", at + 5000, 300, framework=framework)
    write_parquet(builder.build(), path)
    return path


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return recorded(tmp_path / "before.parquet", conv=1000)


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return recorded(tmp_path / "after.parquet", conv=3000)


def test_the_first_row_names_what_got_slower(invoke: Invoke, before: Path, after: Path) -> None:
    result = invoke("diff", before, after)
    assert result.exit_code == 0, result.stderr
    rows = [re.split(r"  +", line.strip()) for line in result.stdout.splitlines()]
    first = next(row for row in rows if row[0].startswith("conv"))
    assert "*" in (first[0] + first[1])
    assert "2.000 us" in first
    assert str(before) in result.stdout


def test_json_holds_all_of_it(invoke: Invoke, before: Path, after: Path) -> None:
    found = json.loads(invoke("diff", before, after, "--format", "json").stdout)
    assert found["by"] == "name"
    assert found["baseline"]["name"] == str(before)
    assert [row["name"] for row in found["rows"]] == ["conv", "mine"]


def test_frameworks_are_told_apart(invoke: Invoke, before: Path, tmp_path: Path) -> None:
    other = recorded(tmp_path / "other.parquet", conv=500, framework="mindspore")
    assert json.loads(invoke("diff", before, other, "--format", "json").stdout)["by"] == "origin"
    result = invoke("diff", before, other, "--by", "name", "--format", "json")
    assert json.loads(result.stdout)["by"] == "name"


@pytest.mark.parametrize(("suffix", "start"), [(".md", "# Comparison"), (".html", "<!DOCTYPE html>"), (".json", "{")])
def test_a_file_is_written_by_its_suffix(
    invoke: Invoke, before: Path, after: Path, tmp_path: Path, suffix: str, start: str
) -> None:
    out = tmp_path / f"diff{suffix}"
    result = invoke("diff", before, after, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == str(out)
    assert out.read_text(encoding="utf-8").startswith(start)


def test_a_threshold_decides_what_is_marked(invoke: Invoke, before: Path, after: Path) -> None:
    marked = {
        threshold: json.loads(invoke("diff", before, after, "--threshold", threshold, "--format", "json").stdout)[
            "rows"
        ][0]["differs"]
        for threshold in ("5%", "80%")
    }
    assert marked == {"5%": True, "80%": False}


def test_a_map_of_the_user_decides_what_things_are(invoke: Invoke, before: Path, after: Path, tmp_path: Path) -> None:
    op_map = tmp_path / "map.toml"
    op_map.write_text('[origin]\n"mine" = "Attention"\n')
    result = invoke("diff", before, after, "--by", "origin", "--op-map", op_map, "--format", "json")
    groups = {group["name"] for group in json.loads(result.stdout)["rows"]}
    assert groups == {"convolution", "attention"}
    table = invoke("table", before, "--by", "origin", "--op-map", op_map, "--json")
    assert {row["origin"] for row in json.loads(table.stdout)} == {"Conv", "Attention"}


def test_rows_are_limited_and_that_is_said(invoke: Invoke, before: Path, after: Path) -> None:
    assert "Shown: 1 of 3 rows." in invoke("diff", before, after, "--row-limit", "1").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--by", "orign"), "Did you mean 'origin'"),
        (("--threshold", "much"), "threshold"),
        (("--by", "api"), "holds no API calls"),
        (("--open",), "-o with a file name that ends in .html"),
        (("--op-map", "none.toml"), "cannot be read"),
        (("--rank", "7"), "no trace of rank 7"),
    ],
)
def test_wrong_use_is_refused_with_what_to_do(
    invoke: Invoke, before: Path, after: Path, options: tuple[str, ...], said: str
) -> None:
    result = invoke("diff", before, after, *options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_nothing_recorded_is_refused(invoke: Invoke, before: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.parquet"
    write_parquet(TraceBuilder().build(), empty)
    result = invoke("diff", before, empty)
    assert result.exit_code == 2
    assert "holds no operators" in result.stderr


def test_help_has_examples(invoke: Invoke) -> None:
    assert "unified-profiler diff torch_run mindspore_run" in invoke("diff", "--help").stdout
