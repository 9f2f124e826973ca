"""The default engine: DuckDB inside this process, over Arrow tables that are not copied.

Every query runs in a database of its own that is locked before it sees any SQL: no files, network, extensions,
settings or Python variables, one SELECT at a time. Nothing here is loaded before the first query.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unified_profiler.errors import QueryError
from unified_profiler.model.trace import Trace

if TYPE_CHECKING:
    import duckdb

_LOCKED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # a query must not see the variables of its caller
    "temp_directory": "",  # without it a large query spills into the working directory
    "lock_configuration": "true",
}

_MOST_AT_ONCE = 4
"""Traces that are worked on at the same time: more need more memory and gain nothing."""

_TABLE_FUNCTIONS = frozenset({"generate_series", "range", "repeat", "repeat_row", "unnest"})
"""What may stand behind FROM besides tables. DuckDB refuses files by itself, but some functions change the database."""


class DuckDBEngine:
    """Executes queries with the embedded DuckDB."""

    def each_trace(
        self,
        traces: Sequence[Trace],
        function: Callable[[pa.Table], pa.Table],
        *,
        columns: Sequence[str],
        schema: pa.Schema,
    ) -> pa.Table:
        """Apply a function to each trace, a few at the same time, and put the rows together in the traces' order."""
        with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, _MOST_AT_ONCE)) as pool:
            found = list(pool.map(lambda trace: function(trace.columns(columns)).cast(schema), traces))
        return pa.concat_tables(found) if found else schema.empty_table()

    def run(self, sql: str, *, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the rows that the query selects from the tables.

        Raises:
            QueryError: The query is wrong, is no SELECT, or reaches for something else than the tables.
        """
        import duckdb

        with duckdb.connect(":memory:", config=dict(_LOCKED)) as connection:
            for name, table in tables.items():
                connection.register(name, table)
            try:
                found = connection.sql(_single_select(connection, sql)).to_arrow_table()
            except duckdb.Error as error:
                raise QueryError(_explain(error, tables)) from error
        return _with_plain_integers(found)


def _single_select(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    statements = connection.extract_statements(_checked(sql))
    tree = _parsed(connection, sql)
    if len(statements) != 1 or tree["error"]:
        found = ", ".join(statement.type.name for statement in statements) or "nothing"
        msg = f"A query must be a single SELECT (or WITH ... SELECT) statement; found {found}. Queries only read."
        raise QueryError(msg)
    refused = set(_table_functions(tree)) - _TABLE_FUNCTIONS
    if refused:
        msg = (
            f"A query may not call {', '.join(sorted(refused))}: it sees its tables and nothing outside them. "
            f"Table functions it may call: {', '.join(sorted(_TABLE_FUNCTIONS))}."
        )
        raise QueryError(msg)
    return statements[0]


def _parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    """Let DuckDB parse the query; anything but SELECT statements gives an `error`."""
    ((text,),) = connection.execute("select json_serialize_sql(?)", [sql]).fetchall()
    tree: dict[str, Any] = json.loads(text)
    return tree


def _table_functions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("type") == "TABLE_FUNCTION":
            yield node["function"]["function_name"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from _table_functions(part)


def _checked(sql: object) -> str:
    if not isinstance(sql, str):
        msg = f"A query must be text; found {type(sql).__name__}."
        raise QueryError(msg)
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        msg = f"A query must be valid Unicode text: {error}."
        raise QueryError(msg) from error
    return sql


def _explain(error: duckdb.Error, tables: Mapping[str, pa.Table]) -> str:
    """Give DuckDB's message, and the names there are to choose from."""
    import duckdb

    text = str(error).strip()
    if isinstance(error, duckdb.PermissionException):
        return f"{text}\nQueries see the tables {', '.join(tables)} and nothing outside them."
    if isinstance(error, duckdb.CatalogException):
        return f"{text}\nThe tables are: {', '.join(tables)}."
    if isinstance(error, duckdb.BinderException):
        columns = "\n".join(f"The columns of {name} are: {', '.join(t.column_names)}." for name, t in tables.items())
        return f"{text}\n{columns}"
    return text


def _with_plain_integers(table: pa.Table) -> pa.Table:
    """DuckDB sums integers to 128 bits, which Arrow calls decimals: give integers where they fit."""
    for index, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                column = table.column(index).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(index, field.name, column)
    return table
