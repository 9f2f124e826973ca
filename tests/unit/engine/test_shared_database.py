"""Queries of the package share a database: what one does must not reach another, a user or another process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import unified_profiler as up
from unified_profiler.engine import DuckDBEngine, embedded_shared
from unified_profiler.engine.contract import PackageQuery
from unified_profiler.engine.embedded_shared import SharedDatabase, shared_database
from unified_profiler.errors import QueryError
from unified_profiler.model.trace import Trace

COUNT = PackageQuery("select count(*) as n, sum(a) as s from t")
ENDLESS = PackageQuery("select sum(a.range * b.range) as s from range(10000000) a, range(10000000) b")


def _table(rows: int) -> pa.Table:
    return pa.table({"a": range(rows)})


def _counted(rows: int) -> dict[str, Any]:
    row: dict[str, Any] = DuckDBEngine().run(COUNT, tables={"t": _table(rows)}).to_pylist()[0]
    return row


def _expected(rows: int) -> dict[str, Any]:
    return {"n": rows, "s": sum(range(rows)) if rows else None}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The tables of each query that the shared database executes."""
    calls: list[set[str]] = []
    cursor = SharedDatabase.cursor

    @contextmanager
    def spy(self: SharedDatabase, tables: Mapping[str, pa.Table]) -> Iterator[Any]:
        calls.append(set(tables))
        with cursor(self, tables) as connection:
            yield connection

    monkeypatch.setattr(SharedDatabase, "cursor", spy)
    return calls


def test_queries_of_the_package_over_small_tables_share_a_database(used: list[set[str]], trace: Trace) -> None:
    assert _counted(3) == _expected(3)
    up.op_table(trace)
    assert used == [{"t"}, {"calls"}]


def test_queries_of_users_have_a_database_of_their_own(used: list[set[str]], trace: Trace) -> None:
    up.query(trace, "select count(*) as n from events")
    DuckDBEngine().run("select count(*) as n from t", tables={"t": _table(3)})
    assert used == []


def test_a_memory_limit_is_that_of_a_database_of_its_own(used: list[set[str]]) -> None:
    engine = DuckDBEngine(memory_limit="100MB")
    with pytest.raises(QueryError, match=r"The result of the query exceeds 95\.37"):
        engine.run(PackageQuery("select range from range(100000000000)"), tables={})
    assert used == []


@pytest.mark.parametrize(("largest", "ratio"), [(23, 1), (1 << 20, 1 << 60)], ids=["table", "machine"])
def test_large_tables_have_a_database_that_can_spill(
    used: list[set[str]], monkeypatch: pytest.MonkeyPatch, largest: int, ratio: int
) -> None:
    monkeypatch.setattr(embedded_shared, "_LARGEST_BYTES", largest)
    monkeypatch.setattr(embedded_shared, "_MEMORY_RATIO", ratio)
    assert _counted(3) == _expected(3)
    assert used == []


def test_a_table_of_one_query_is_not_visible_to_another() -> None:
    engine, database = DuckDBEngine(), shared_database()
    with database.cursor({"secret": _table(3)}) as first, database.cursor({}) as second:
        assert first.sql("select count(*) from secret").fetchall() == [(3,)]
        assert second.sql("select view_name from duckdb_views() where not internal").fetchall() == []
        assert second.sql("select table_name from duckdb_tables()").fetchall() == []
        with pytest.raises(QueryError, match="secret does not exist"):
            engine.run(PackageQuery("select * from secret"), tables={})
    with pytest.raises(QueryError, match="secret does not exist"):
        engine.run(PackageQuery("select * from secret"), tables={})


def test_a_table_is_released_after_the_query() -> None:
    before = pa.total_allocated_bytes()
    for _ in range(5):
        table = pa.table({"a": pa.repeat(7, 1_000_000)})
        assert DuckDBEngine().run(COUNT, tables={"t": table}).to_pylist() == [{"n": 1_000_000, "s": 7_000_000}]
    del table
    assert pa.total_allocated_bytes() - before < 8_000_000


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('/etc/hostname')",
        "select * from '/etc/hostname'",
        "set enable_external_access = true",
        "set temp_directory = '/tmp'",
        "set threads = 4",
        "install httpfs",
        "attach '/tmp/other.db'",
        "copy (select 1) to '/tmp/out.csv'",
    ],
)
def test_the_shared_database_is_locked(sql: str) -> None:
    with pytest.raises(QueryError):
        DuckDBEngine().run(PackageQuery(sql), tables={})


def test_queries_run_in_several_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(_counted, range(200))) == list(map(_expected, range(200)))


def test_an_interrupt_stops_its_own_query_only() -> None:
    finished = threading.Event()

    def count() -> int:
        rounds = 0
        while not finished.is_set():
            assert _counted(1000) == _expected(1000)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(count)
        try:
            with pytest.raises(QueryError, match=r"stopped after 0\.5 s, its time limit"):
                DuckDBEngine().run(ENDLESS, tables={}, timeout=0.5)
        finally:
            finished.set()
        assert others.result(60) > 0
    assert _counted(5) == _expected(5)


def test_an_error_leaves_the_database_usable() -> None:
    with pytest.raises(QueryError, match="Conversion Error"):
        DuckDBEngine().run(PackageQuery("select cast('x' as integer) from t"), tables={"t": _table(1)})
    assert _counted(5) == _expected(5)


FORKING = """
import os, sys, threading
import pyarrow as pa
from unified_profiler.engine import DuckDBEngine
from unified_profiler.engine.contract import PackageQuery

SQL = PackageQuery("select a % 10 as g, median(a) as m from t group by 1 order by 1")
TABLE = pa.table({"a": range(20_000)})

def check():
    assert len(DuckDBEngine().run(SQL, tables={"t": TABLE})) == 10

def keep_busy():
    while not finished:
        check()

check()
finished = []
threads = [threading.Thread(target=keep_busy) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for number in range(10):
    process = os.fork()
    if not process:
        check()
        if threads:
            os._exit(0)  # as multiprocessing does
        sys.exit(0)
    assert os.waitpid(process, 0)[1] == 0
    check()
finished.append(True)
for thread in threads:
    thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("busy_threads", [0, 3])
def test_a_forked_process_and_its_parent_go_on(busy_threads: int, tmp_path: Path) -> None:
    done = _python(FORKING, str(busy_threads), temporary=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


def test_a_forked_process_has_a_database_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    own = shared_database()
    assert shared_database() is own
    monkeypatch.setattr(os, "getpid", lambda: -1)
    try:
        assert shared_database() is not own
    finally:
        del embedded_shared._databases[-1]


WITHOUT_THREADS = """
import os
from unified_profiler.engine import DuckDBEngine
from unified_profiler.engine.contract import PackageQuery
import duckdb, pyarrow as pa

before = len(os.listdir("/proc/self/task"))
DuckDBEngine().run(PackageQuery("select count(*) from t"), tables={"t": pa.table({"a": [1]})})
assert len(os.listdir("/proc/self/task")) == before, os.listdir("/proc/self/task")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads in /proc")
def test_the_shared_database_starts_no_threads(tmp_path: Path) -> None:
    done = _python(WITHOUT_THREADS, temporary=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


def test_a_database_of_an_older_duckdb_is_opened_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    connect, seen = duckdb.connect, []

    def older(name: str, *, config: dict[str, Any]) -> Any:
        seen.append(set(config))
        if "async_threads" in config:
            msg = "unrecognized configuration parameter"
            raise duckdb.CatalogException(msg)
        return connect(name, config=config)

    monkeypatch.setattr(duckdb, "connect", older)
    with embedded_shared._connected() as connection:
        assert connection.sql("select 1").fetchall() == [(1,)]
    assert [("async_threads" in settings, "threads" in settings) for settings in seen] == [(True, True), (False, True)]


def _python(code: str, *arguments: str, temporary: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONWARNINGS": "ignore,error::ResourceWarning"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )
