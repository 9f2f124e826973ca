"""Shared behavior of all engines: query checks, time limits, functions over traces, and plain result types."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import accumulate

import pyarrow as pa

from unified_profiler.engine.protocol import Engine, EngineTable
from unified_profiler.engine.source import Events
from unified_profiler.errors import ConfigurationError, QueryError
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.model.trace import Trace

_MAX_WORKERS = 4
"""Traces processed in parallel: more need more memory and are no faster."""

_LONGEST_QUERY = 100_000
_DEEPEST_NESTING = 200
"""Nested parentheses. DuckDB's parser is recursive, and subqueries nested 100 000 deep crash the process."""

_INTERRUPT_EVERY_SECONDS = 0.1


class PackageQuery(str):
    """The text of a query of this package: a single SELECT without any text of a user, which needs no checks."""

    __slots__ = ()


def checked_query(sql: object) -> str:
    """Return the text of a query.

    Raises:
        QueryError: It is not text, not valid Unicode, or too long or too deeply nested to be parsed safely.
    """
    if not isinstance(sql, str):
        msg = f"A query must be text; found {type(sql).__name__}."
        raise QueryError(msg)
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        msg = f"A query must be valid Unicode text: {error}."
        raise QueryError(msg) from error
    if len(sql) > _LONGEST_QUERY:
        msg = (
            f"Expected a query of at most {_LONGEST_QUERY} characters; found {len(sql)}. Write a "
            "condition instead of a long list, or filter the rows of a shorter query in Python."
        )
        raise QueryError(msg)
    if max(accumulate((char == "(") - (char == ")") for char in sql), default=0) > _DEEPEST_NESTING:
        raise too_deeply_nested()
    return sql


def too_deeply_nested() -> QueryError:
    """Return the error for a query with too many levels of parentheses, subqueries or expressions."""
    return QueryError(
        f"The query is nested too deeply; expected at most {_DEEPEST_NESTING} levels of parentheses and fewer of "
        "subqueries. Name inner queries with WITH, one after the other."
    )


def checked_timeout(seconds: object) -> float | None:
    """Return a time limit in seconds, or None for no limit.

    Raises:
        ConfigurationError: It is not a positive number.
    """
    if seconds is None:
        return None
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < math.inf:
        return min(float(seconds), threading.TIMEOUT_MAX)
    msg = f"`timeout` must be a positive number of seconds, or None for no limit; found {seconds!r}."
    raise ConfigurationError(msg)


@contextmanager
def time_limit(seconds: float | None, interrupt: Callable[[], object]) -> Iterator[None]:
    """Interrupt a block that runs longer than allowed.

    Args:
        seconds: The limit; None for none.
        interrupt: Makes the block raise. It is called from another thread, repeatedly until the block has ended,
            because an engine ignores an interrupt that arrives between two of its operations.

    Raises:
        QueryError: The block was interrupted.
    """
    if seconds is None:
        yield
        return
    finished, expired = threading.Event(), threading.Event()

    def watch() -> None:
        if finished.wait(seconds):
            return
        expired.set()
        while not finished.wait(_INTERRUPT_EVERY_SECONDS):
            interrupt()

    watcher = threading.Thread(target=watch, name="unified_profiler query timeout", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if not expired.is_set():
            raise
        msg = (
            f"The query was stopped after {seconds:g} s, its time limit. Select fewer rows or columns, or allow more: "
            "`timeout=600` in Python, `--timeout 600` on the command line."
        )
        raise QueryError(msg) from error
    finally:
        finished.set()
        watcher.join()


def not_single_select(statements: str) -> QueryError:
    """Return the error for another statement, several statements or none."""
    return QueryError(
        f"A query must be a single SELECT (or WITH ... SELECT) statement; found {statements}. Queries only read."
    )


def describe_columns(tables: Mapping[str, EngineTable]) -> str:
    """Return a line with the columns of each table."""
    return "\n".join(f"The columns of {name} are: {', '.join(_names(table))}." for name, table in tables.items())


def _names(table: EngineTable) -> list[str]:
    if isinstance(table, Events):
        return list(EVENT_SCHEMA.names)
    return list(table.column_names if isinstance(table, pa.Table) else table.columns)


def map_in_process(
    traces: Sequence[Trace], function: Callable[[pa.Table], pa.Table], *, columns: Sequence[str], schema: pa.Schema
) -> pa.Table:
    """Apply a function to each trace in this process, a few in parallel, and concatenate the results in order."""

    def apply(trace: Trace) -> pa.Table:
        return function(trace.columns(columns)).cast(schema)

    if len(traces) == 1:  # starting a thread would take longer than most functions
        return apply(traces[0])
    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, _MAX_WORKERS)) as pool:
        tables = list(pool.map(apply, traces))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def collected(table: EngineTable, engine: Engine) -> pa.Table:
    """Return all rows of a result of `each_trace`; those of the embedded engine are in memory already."""
    if isinstance(table, pa.Table):
        return table
    return engine.run(PackageQuery("select * from facts"), tables={"facts": table})


def plain_types(table: pa.Table) -> pa.Table:
    """Return a result with the same types from all engines: 64-bit integers where they fit, and nullable columns.

    DuckDB sums integers to 128 bits, which are decimals in Arrow; Spark marks columns without nulls as not nullable.
    """
    columns = [_plain(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        with suppress(pa.ArrowInvalid):
            return column.cast(pa.int64())
    return column
