"""What a query may do in DuckDB: one SELECT over its tables. DuckDB itself parses it, and executes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from unified_profiler.engine.contract import no_single_select
from unified_profiler.errors import QueryError

if TYPE_CHECKING:
    import duckdb

_TABLE_FUNCTIONS = frozenset({"generate_series", "range", "repeat", "repeat_row", "unnest"})
"""What may stand behind FROM besides tables. DuckDB refuses files by itself, but some functions change the database."""


def single_select(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """Return the statement of a query.

    Raises:
        QueryError: It is not a single SELECT, or calls a table function that reaches beyond the tables.
    """
    statements = connection.extract_statements(sql)
    tree = _parsed(connection, sql)
    if len(statements) != 1 or tree["error"]:
        found = ", ".join(statement.type.name for statement in statements) or "nothing"
        raise no_single_select(found)
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
