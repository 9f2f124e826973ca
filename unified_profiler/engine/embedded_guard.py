"""Checks that a DuckDB query is one SELECT over its tables, by DuckDB's own parser and without executing it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from unified_profiler.engine.contract import not_single_select
from unified_profiler.errors import QueryError

if TYPE_CHECKING:
    import duckdb

_TABLE_FUNCTIONS = frozenset({"generate_series", "range", "repeat", "repeat_row", "unnest"})
"""Functions allowed in FROM besides tables. DuckDB itself rejects files, but some functions change the database."""


def single_select(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """Return the statement of a query.

    Raises:
        QueryError: It is not a single SELECT, or calls a table function that accesses anything but the tables.
    """
    statements = connection.extract_statements(sql)
    ((text,),) = connection.execute("select json_serialize_sql(?)", [sql]).fetchall()
    tree = json.loads(text)
    if len(statements) != 1 or tree["error"]:  # anything but SELECT statements results in an error
        raise not_single_select(", ".join(statement.type.name for statement in statements) or "nothing")
    rejected = set(_table_functions(tree)) - _TABLE_FUNCTIONS
    if rejected:
        msg = (
            f"A query may not call {', '.join(sorted(rejected))}: it sees its tables and nothing outside them. "
            f"Table functions it may call: {', '.join(sorted(_TABLE_FUNCTIONS))}."
        )
        raise QueryError(msg)
    return statements[0]


def _table_functions(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("type") == "TABLE_FUNCTION":
            yield node["function"]["function_name"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from _table_functions(part)
