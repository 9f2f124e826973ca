"""Queries that take too long, need too much memory or cannot be represented: a QueryError or a valid result."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.analysis import query
from unified_profiler.engine import DuckDBEngine
from unified_profiler.engine.contract import time_limit
from unified_profiler.errors import ArgumentError, ConfigurationError, QueryError
from unified_profiler.model.trace import Trace

ENDLESS = {
    "product": "select sum(a.range * b.range) as s from range(10000000) a, range(10000000) b",
    "recursion": "with recursive r(i) as (select 1 union all select i % 7 from r) select count(*) as n from r",
    "rows": "select range from range(1000000000000) where range % 100000 = 1",
}
SORTING = "select count(*) as n from (select distinct range % 3000000 as i, hash(range) as h from range(6000000))"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("sql", ENDLESS.values(), ids=ENDLESS)
def test_a_query_is_stopped_at_its_time_limit(trace: Trace, sql: str) -> None:
    with pytest.raises(QueryError, match=r"stopped after 0\.5 s, its time limit.*--timeout"):
        query(trace, sql, timeout=0.5)


def test_a_query_within_its_time_limit_is_not_touched(trace: Trace) -> None:
    before = threading.active_count()
    assert query(trace, "select count(*) as n from events", timeout=3600).rows[0].n == 3
    assert query(trace, "select count(*) as n from events", timeout=None).rows[0].n == 3
    assert threading.active_count() == before


def test_an_error_within_the_time_limit_stays_what_it_is() -> None:
    with pytest.raises(KeyError), time_limit(3600, lambda: None):
        raise KeyError


def test_an_interrupt_that_comes_between_two_operations_is_repeated() -> None:
    third, calls = threading.Event(), itertools.count(1)

    def interrupt() -> None:
        if next(calls) == 3:
            third.set()

    def deaf_at_first() -> None:
        assert third.wait(60)
        raise RuntimeError

    with pytest.raises(QueryError), time_limit(0.01, interrupt):
        deaf_at_first()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "60", [60]])
def test_a_time_limit_is_a_positive_number(trace: Trace, timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="`timeout` must be a positive number of seconds"):
        query(trace, "select 1", timeout=timeout)


def test_what_exceeds_the_memory_goes_to_a_private_temporary_directory(trace: Trace, temporary: Path) -> None:
    modes: set[int] = set()
    finished = threading.Event()

    def look() -> None:
        while not finished.wait(0.001):
            with suppress(OSError):  # it is gone already
                modes.update(file.parents[1].stat().st_mode & 0o777 for file in temporary.glob("*/query/*storage*"))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        rows = query(trace, SORTING, engine=DuckDBEngine(memory_limit="150MB")).rows
    finally:
        finished.set()
        looking.join()
    assert rows[0].n == 6_000_000
    assert modes == {0o700}
    assert not list(temporary.iterdir())


def test_a_query_that_exceeds_memory_and_temporary_directory_is_stopped(trace: Trace, temporary: Path) -> None:
    with pytest.raises(QueryError, match=r"needs more memory than its limit.*memory_limit=\"16GB\".*--memory-limit"):
        query(trace, SORTING, engine=DuckDBEngine(memory_limit="20MB"))
    assert not list(temporary.iterdir())


def test_a_result_that_exceeds_the_memory_is_stopped(trace: Trace) -> None:
    with pytest.raises(QueryError, match=r"The result of the query exceeds 95\.37.*, its memory limit.*LIMIT"):
        query(trace, "select range from range(100000000000)", engine=DuckDBEngine(memory_limit="100MB"))


def test_without_a_temporary_directory_a_query_has_its_memory(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert query(trace, "select count(*) as n from events").rows[0].n == 3
    with pytest.raises(QueryError, match="needs more memory"):
        query(trace, SORTING, engine=DuckDBEngine(memory_limit="50MB"))


def test_a_memory_limit_of_next_to_nothing_is_an_error_of_the_query(trace: Trace) -> None:
    with pytest.raises(QueryError, match="memory"):
        query(trace, SORTING, engine=DuckDBEngine(memory_limit=1))


@pytest.mark.parametrize("limit", ["much", "-1GB", 0, True, 1.5])
def test_a_memory_limit_is_a_size(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="`memory_limit` must be a number of bytes"):
        DuckDBEngine(memory_limit=limit)


def test_a_misspelt_limit_is_named() -> None:
    with pytest.raises(ArgumentError, match="memory_limit"):
        DuckDBEngine(memory_limits="1GB")  # type: ignore[call-arg]


NESTED = {
    "parentheses": "select " + "(" * 400 + "1" + ")" * 400,
    "subqueries": "select * from " + "(select * from " * 400 + "(select 1)" + ")" * 400,
    "functions": "select " + "abs(" * 400 + "1" + ")" * 400,
    "lists": "select " + "[" * 400 + "1" + "]" * 400,
    "sums": "select " + "1 + " * 400 + "1 as a",
    "negations": "select " + "not " * 5000 + "true as a",
    "unions": "select 1 as a" + " union all select 1" * 400,
    "subqueries that end the process": "select * from " + "(from " * 100_000 + "(select 1)" + ")" * 100_000,
    "a long list": f"select 1 where 1 in ({', '.join(map(str, range(100_000)))})",
}


@pytest.mark.parametrize("sql", NESTED.values(), ids=NESTED)
def test_deep_nesting_is_answered_or_refused(trace: Trace, sql: str) -> None:
    with suppress(QueryError):
        assert query(trace, sql).rows


def test_deep_nesting_is_explained(trace: Trace) -> None:
    with pytest.raises(QueryError, match=r"nested too deeply; expected at most 200 levels.*WITH"):
        query(trace, NESTED["subqueries"])
    with pytest.raises(QueryError, match="at most 100000 characters; found 7"):
        query(trace, NESTED["subqueries that end the process"])


TIMES = {
    "'infinity'::timestamp": "infinity",
    "'-infinity'::date": "-infinity",
    "'infinity'::timestamptz": "infinity",
    "'290000-01-01'::timestamp": "290000-01-01T00:00:00.000000",
    "'20000-01-01'::date": "20000-01-01",
    "['infinity'::timestamp, null]": ["infinity", None],
    "{'x': 'infinity'::date, 'y': 1}": {"x": "infinity", "y": 1},
    "map {1: 'infinity'::timestamp}": {1: "infinity"},
    "map {['infinity'::date]: 2}": [(["infinity"], 2)],
    "union_value(a := 'infinity'::date)": "infinity",
}


@pytest.mark.parametrize("sql", TIMES)
def test_times_that_python_cannot_hold_become_text(trace: Trace, sql: str) -> None:
    result = query(trace, f"select {sql} as t from range(3)")  # noqa: S608  not a user's
    assert [row.t for row in result.rows] == [TIMES[sql]] * 3
    assert "infinity" in str(result) or "0000-01-01" in str(result)
    assert result._repr_html_()


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
from unified_profiler.engine import DuckDBEngine

def kill():
    while not list(Path(sys.argv[1]).glob("*/query/*storage*")):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill, daemon=True).start()
DuckDBEngine(memory_limit="150MB").run(sys.argv[2], tables={})
"""


def test_the_next_query_removes_what_a_killed_one_left(trace: Trace, temporary: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", KILLED, str(temporary), SORTING], env=environment, check=False, timeout=600)
    assert len(list(temporary.iterdir())) == 1
    query(trace, "select 1")
    assert not list(temporary.iterdir())


@pytest.fixture
def analyses(trace: Trace) -> Iterator[Any]:
    """Every analysis that runs SQL of ours."""
    return iter([up.op_table, up.step_breakdown, up.api_table])


def test_analyses_of_ours_have_no_time_limit(
    trace: Trace, analyses: Iterator[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float | None] = []
    run = DuckDBEngine.run

    def spy(self: DuckDBEngine, sql: str, **options: Any) -> Any:
        limits.append(options.get("timeout"))
        return run(self, sql, **options)

    monkeypatch.setattr(DuckDBEngine, "run", spy)
    for analysis in analyses:
        analysis(trace)
    assert limits
    assert set(limits) == {None}
