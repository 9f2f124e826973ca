"""What every engine does alike: it takes text for a query, works on single traces, and gives plain types."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate

import pyarrow as pa

from unified_profiler.engine.protocol import EngineTable
from unified_profiler.engine.source import Events
from unified_profiler.errors import ConfigurationError, QueryError
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.model.trace import Trace

_MOST_AT_ONCE = 4
"""Traces that are worked on at the same time: more need more memory and gain nothing."""

_LONGEST_QUERY = 100_000
_DEEPEST_NESTING = 200
"""Parentheses within parentheses. DuckDB's parser is recursive, and subqueries nested 100 000 deep end the process."""

_INTERRUPT_EVERY_SECONDS = 0.1


def checked(sql: object) -> str:
    """Return the text of a query.

    Raises:
        QueryError: It is no text, is not valid Unicode, or is too long or too deeply nested to be parsed safely.
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
    """Return the error of a query that contains too many levels of parentheses, subqueries or expressions."""
    return QueryError(
        f"The query is nested too deeply; expected at most {_DEEPEST_NESTING} levels of parentheses and fewer of "
        "subqueries. Name inner queries with WITH, one after the other."
    )


def checked_timeout(seconds: object) -> float | None:
    """Return a time limit in seconds; None stands for no limit.

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
        interrupt: Makes the block raise. It is called from another thread, until the block has ended, since an engine
            ignores an interrupt that arrives between two of its operations.

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


def no_single_select(found: str) -> QueryError:
    """Return the error of a text that is another statement, several or none."""
    return QueryError(
        f"A query must be a single SELECT (or WITH ... SELECT) statement; found {found}. Queries only read."
    )


def columns_named(tables: Mapping[str, EngineTable]) -> str:
    """Say which columns there are to choose from."""
    return "\n".join(f"The columns of {name} are: {', '.join(_names(table))}." for name, table in tables.items())


def _names(table: EngineTable) -> Sequence[str]:
    if isinstance(table, Events):
        return list(EVENT_SCHEMA.names)
    return list(table.column_names if isinstance(table, pa.Table) else table.columns)


def each_here(
    traces: Sequence[Trace],
    function: Callable[[pa.Table], pa.Table],
    *,
    columns: Sequence[str],
    schema: pa.Schema,
) -> pa.Table:
    """Apply a function to each trace in this process, a few at the same time, and keep the traces' order."""
    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, _MOST_AT_ONCE)) as pool:
        found = list(pool.map(lambda trace: function(trace.columns(columns)).cast(schema), traces))
    return pa.concat_tables(found) if found else schema.empty_table()


def plain_types(table: pa.Table) -> pa.Table:
    """Return an answer as all engines give it: whole numbers as 64-bit integers where they fit, any column nullable.

    DuckDB sums integers to 128 bits, which Arrow calls decimals; Spark knows which columns have no nulls.
    """
    columns = [_plain(column) for column in table.columns]
    fields = [pa.field(name, column.type) for name, column in zip(table.column_names, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_decimal(column.type) or column.type.scale != 0:
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
