"""What every engine does alike: it takes text for a query, works on single traces, and gives plain types."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from unified_profiler.engine.protocol import EngineTable
from unified_profiler.engine.source import Events
from unified_profiler.errors import QueryError
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.model.trace import Trace

_MOST_AT_ONCE = 4
"""Traces that are worked on at the same time: more need more memory and gain nothing."""


def checked(sql: object) -> str:
    """Return the text of a query.

    Raises:
        QueryError: It is no text, or holds what is no Unicode.
    """
    if not isinstance(sql, str):
        msg = f"A query must be text; found {type(sql).__name__}."
        raise QueryError(msg)
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        msg = f"A query must be valid Unicode text: {error}."
        raise QueryError(msg) from error
    return sql


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
