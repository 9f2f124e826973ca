from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from unified_profiler.cli import export
from unified_profiler.readers import read

Invoke = Callable[..., Result]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace.csv"])
def test_a_run_of_several_ranks_goes_into_one_file(invoke: Invoke, run_dir: Path, tmp_path: Path, name: str) -> None:
    result = invoke("export", run_dir, tmp_path / name)
    assert result.exit_code == 0, result.stderr
    assert "events: 8" in result.stdout
    assert (tmp_path / name).stat().st_size > 0


def test_json_is_a_chrome_trace(invoke: Invoke, run_dir: Path, tmp_path: Path) -> None:
    invoke("export", run_dir, tmp_path / "trace.json.gz")
    document = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert {event["name"] for event in document["traceEvents"] if event["ph"] == "X"} >= {"aten::linear", "aten::relu"}


def test_rank_selects_the_trace_that_is_written(invoke: Invoke, run_dir: Path, tmp_path: Path) -> None:
    result = invoke("export", run_dir, tmp_path / "one.parquet", "--rank", "1")
    assert result.exit_code == 0, result.stderr
    assert [trace.info.rank for trace in read(tmp_path / "one.parquet").traces] == [1]


def test_an_unknown_suffix_is_refused_with_the_known_ones(invoke: Invoke, run_dir: Path, tmp_path: Path) -> None:
    result = invoke("export", run_dir, tmp_path / "trace.xyz")
    assert result.exit_code == 2
    assert ".json.gz" in result.stderr


def test_the_critical_path_is_a_process_of_its_own_in_the_timeline(
    invoke: Invoke, run_dir: Path, tmp_path: Path
) -> None:
    result = invoke("export", run_dir, tmp_path / "trace.json", "--critical-path")
    assert result.exit_code == 0, result.stderr
    events = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    (process,) = [event["pid"] for event in events if event.get("args") == {"name": "critical path"}]
    assert {event["name"] for event in events if event["ph"] == "B"} >= {"aten::relu"}
    assert {event["pid"] for event in events if event["ph"] in "BE"} == {process}


def test_a_table_has_no_critical_path(invoke: Invoke, run_dir: Path, tmp_path: Path) -> None:
    result = invoke("export", run_dir, tmp_path / "trace.csv", "--critical-path")
    assert result.exit_code == 2
    assert "needs a timeline" in result.stderr
    assert not (tmp_path / "trace.csv").exists()


@pytest.mark.parametrize("spec", [None, object()])
def test_the_viewer_is_suggested_only_if_it_is_installed(
    invoke: Invoke, run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: object
) -> None:
    monkeypatch.setattr(export, "find_spec", lambda _: spec)
    result = invoke("export", run_dir, tmp_path / "trace.json")
    assert ("unified-profiler view" in result.stdout) == (spec is not None)
