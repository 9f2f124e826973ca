"""Every way out of a query that DuckDB knows, tried."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from unified_profiler.analysis import query
from unified_profiler.errors import QueryError
from unified_profiler.model.storage import read_parquet, write_parquet
from unified_profiler.model.trace import Trace


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file beside the program, which is the working directory too."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "secret.csv"
    path.write_text("a\nclassified\n")
    return path


READS = [
    "select * from 'secret.csv'",
    "select * from 'file://secret.csv'",
    "select * from read_csv('secret.csv')",
    "select * from read_csv_auto('secret.csv')",
    "select * from read_text('secret.csv')",
    "select * from read_blob('secret.csv')",
    "select * from read_json('secret.csv')",
    "select * from read_parquet('secret.csv')",
    "select * from parquet_metadata('secret.csv')",
    "select * from sniff_csv('secret.csv')",
    "select * from glob('*')",
    "select * from events where name in (select content from read_text('secret.csv'))",
    "select * from query('select * from read_text(''secret.csv'')')",
    "select * from json_execute_serialized_sql(json_serialize_sql('select * from read_text(''secret.csv'')'))",
    "select * from 'https://example.com/x.parquet'",
    "select * from read_csv('s3://bucket/x.csv')",
    "select getenv('HOME')",
    "select * from duckdb_secrets()",
]


@pytest.fixture(params=["memory", "file"])
def source(request: pytest.FixtureRequest, trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The trace, in memory or in a file that the query itself reads."""
    if request.param == "memory":
        return trace
    file = tmp_path_factory.mktemp("trace") / "trace.parquet"
    write_parquet(trace, file)
    return read_parquet(file)


@pytest.mark.parametrize("sql", [*READS, "select * from '{beside}'", "select * from read_parquet('{beside}')"])
def test_nothing_outside_the_tables_can_be_read(source: Trace, secret: Path, sql: str) -> None:
    beside = Path(source.file or secret).with_name("beside.parquet")
    write_parquet(source, beside)
    with pytest.raises(QueryError) as caught:
        query(read_parquet(source.file) if isinstance(source.file, Path) else source, sql.format(beside=beside))
    beside.unlink()
    assert "classified" not in str(caught.value)


WRITES = [
    "copy events to 'out.csv'",
    "copy (select 1) to 'out.parquet' (format parquet)",
    "export database 'out'",
    "select * from query('copy events to ''out.csv''')",
    "attach 'out.db'",
    "attach ':memory:' as other",
    "create table t as select 1 as a",
    "create or replace view events as select 1 as a",
    "create macro f(x) as x",
    "create secret s (type s3)",
    "insert into events select * from events",
    "update events set name = 'x'",
    "delete from events",
    "drop view events",
    "explain analyze select 1",
    "prepare p as select 1",
    "begin",
    "checkpoint",
    "vacuum",
    "call pragma_version()",
    "use memory",
]


@pytest.mark.parametrize("sql", WRITES)
def test_nothing_can_be_written(source: Trace, secret: Path, sql: str) -> None:
    with pytest.raises(QueryError):
        query(source, sql)
    assert [path.name for path in secret.parent.iterdir()] == ["secret.csv"]


SETTINGS = [
    "install httpfs",
    "load httpfs",
    "pragma version",
    "pragma enable_profiling",
    "set threads = 1",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset enable_external_access",
    "set variable x = 1",
    "select * from enable_profiling(save_location := 'out.json')",
    "select * from enable_logging()",
]


@pytest.mark.parametrize("sql", SETTINGS)
def test_no_setting_or_extension_can_be_changed(source: Trace, secret: Path, sql: str) -> None:
    with pytest.raises(QueryError):
        query(source, sql)
    assert [path.name for path in secret.parent.iterdir()] == ["secret.csv"]


def test_a_refused_file_is_explained(trace: Trace, secret: Path) -> None:
    with pytest.raises(QueryError, match="may not call read_text: it sees its tables and nothing outside them"):
        query(trace, "select * from read_text('secret.csv')")


GLOBAL_VARIABLE = pa.table({"a": [1]})


def test_variables_of_python_cannot_be_seen(trace: Trace) -> None:
    local_variable = GLOBAL_VARIABLE
    assert len(local_variable) == 1
    for sql in ("select * from local_variable", "select * from GLOBAL_VARIABLE"):
        with pytest.raises(QueryError, match="does not exist"):
            query(trace, sql)


def test_the_default_connection_of_duckdb_is_not_touched(trace: Trace) -> None:
    import duckdb

    query(trace, "select 1")
    assert duckdb.execute("select current_setting('lock_configuration')").fetchall() == [(False,)]


def test_duckdb_is_not_imported_before_the_first_query() -> None:
    code = "import sys, unified_profiler.analysis, unified_profiler.engine; sys.exit('duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
