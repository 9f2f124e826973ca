from __future__ import annotations

import csv
import errno
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unified_profiler.errors import ConfigurationError, ExportError
from unified_profiler.export import EXPORTERS, write
from unified_profiler.export.spreadsheets import inert
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.run import Run
from unified_profiler.model.schema import EVENT_SCHEMA, event_table
from unified_profiler.model.text import storable
from unified_profiler.model.trace import Trace


@pytest.mark.parametrize("name", ["trace.txt", "trace", "trace.gz", ".json/trace"])
def test_unknown_suffix_is_refused_with_the_known_ones(name: str, trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"Use one of: \.json, \.json\.gz, \.parquet, \.csv"):
        write(trace, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", EXPORTERS)
def test_writing_returns_the_path_and_leaves_nothing_else(suffix: str, trace: Trace, tmp_path: Path) -> None:
    path = write(trace, str(tmp_path / f"Trace{suffix.upper()}"))
    assert list(tmp_path.iterdir()) == [path]


def test_missing_parent_directories_are_made(trace: Trace, tmp_path: Path) -> None:
    assert write(trace, tmp_path / "a" / "b" / "t.csv").exists()


@pytest.mark.parametrize("suffix", EXPORTERS)
def test_a_run_of_one_trace_is_that_trace(suffix: str, trace: Trace, tmp_path: Path) -> None:
    alone, of_run = write(trace, tmp_path / f"a{suffix}"), write(Run(traces=(trace,)), tmp_path / f"b{suffix}")
    assert alone.read_bytes() == of_run.read_bytes()


def test_a_run_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="has no trace"):
        write(Run(traces=()), tmp_path / "t.json")


def test_parquet_holds_one_trace_only(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="has one trace, but there are 2"):
        write(Run(traces=(trace, trace)), tmp_path / "t.parquet")


@pytest.mark.parametrize("suffix", EXPORTERS)
def test_a_path_that_is_a_directory_is_an_export_error(suffix: str, trace: Trace, tmp_path: Path) -> None:
    folder = tmp_path / f"t{suffix}"
    folder.mkdir()
    with pytest.raises(ExportError, match="cannot be written"):
        write(trace, folder)
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("suffix", EXPORTERS)
def test_a_failed_write_leaves_the_old_file(suffix: str, trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_text("old")

    def fail(columns: object) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ExportError, match="No space left"):
        write(Trace(fail, trace.info), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_parquet_has_the_columns_of_the_schema(trace: Trace, tmp_path: Path) -> None:
    assert pq.read_schema(write(trace, tmp_path / "t.parquet")).names == EVENT_SCHEMA.names


def test_csv_has_every_column_and_event(trace: Trace, tmp_path: Path) -> None:
    rows = read_csv(write(trace, tmp_path / "t.csv"))
    assert list(rows[0]) == EVENT_SCHEMA.names
    assert [int(row["start_ns"]) for row in rows] == trace.events["start_ns"].to_pylist()
    assert rows[1]["input_shapes"] == "[[2, 3],[3,4]]"
    assert rows[0]["op"] == ""


def test_csv_of_a_run_holds_all_traces(trace: Trace, tmp_path: Path) -> None:
    assert len(read_csv(write(Run(traces=(trace, trace)), tmp_path / "t.csv"))) == 2 * len(trace)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def any_text() -> st.SearchStrategy[str]:
    """Any text at all, lone surrogates included, as the entry points store it."""
    alphabet = st.characters() | st.characters(categories=["Cs"])
    if sys.version_info < (3, 11):  # whose csv module refuses NUL
        alphabet = alphabet.filter(lambda character: character != "\0")
    return st.text(alphabet).map(storable)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(names=st.lists(any_text(), min_size=1))
def test_csv_keeps_every_name(names: list[str], tmp_path: Path) -> None:
    assert [row["name"] for row in read_csv(write(named(names), tmp_path / "t.csv"))] == list(map(inert, names))


def named(names: list[str]) -> Trace:
    columns = {"name": names, "layer": "framework", "kind": "op", "start_ns": -1, "duration_ns": 1}
    return Trace(event_table(columns, rows=len(names)), TraceInfo(event_count=len(names)))


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@SUM(1)", "\t=1", "\r=1"])
def test_names_do_nothing_in_a_spreadsheet(name: str, tmp_path: Path) -> None:
    (row,) = read_csv(write(named([name]), tmp_path / "t.csv"))
    assert row["name"] == f"'{name}"


def test_negative_numbers_stay_numbers_in_a_spreadsheet(tmp_path: Path) -> None:
    (row,) = read_csv(write(named(["a"]), tmp_path / "t.csv"))
    assert row["start_ns"] == "-1"


def test_csv_of_a_table_in_several_chunks_is_inert_throughout(tmp_path: Path) -> None:
    events = pa.concat_tables([named(["=a", "b"]).events, named(["c", "=d"]).events])
    rows = read_csv(write(Trace(events, TraceInfo(event_count=4)), tmp_path / "t.csv"))
    assert [row["name"] for row in rows] == ["'=a", "b", "c", "'=d"]
