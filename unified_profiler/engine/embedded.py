"""The default engine: DuckDB inside this process, over Arrow tables that are not copied and over Parquet files.

Every query runs in a database of its own that is locked before it sees any SQL: no files but those of its tables, no
network, extensions, settings or Python variables, one SELECT at a time. Nothing here is loaded before the first query.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unified_profiler.engine.contract import checked, columns_named, each_here, no_single_select, plain_types
from unified_profiler.engine.protocol import EngineTable
from unified_profiler.engine.source import Events, Files
from unified_profiler.errors import EngineError, QueryError, TraceFormatError
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.model.trace import Trace

if TYPE_CHECKING:
    import duckdb

_CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # a query must not see the variables of its caller
    "temp_directory": "",  # without it a large query spills into the working directory
}

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
        return each_here(traces, function, columns=columns, schema=schema)

    def run(self, sql: str, *, tables: Mapping[str, EngineTable]) -> pa.Table:
        """Return the rows that the query selects from the tables.

        Raises:
            QueryError: The query is wrong, is no SELECT, or reaches for something else than the tables.
        """
        import duckdb

        with _database(tables) as connection:
            try:
                found = connection.sql(_single_select(connection, sql)).to_arrow_table()
            except duckdb.Error as error:
                raise QueryError(_explain(error, tables)) from error
        return plain_types(found)

    def files(self, pattern: str) -> dict[str, bytes]:
        """Return the content of the files that a `file://` url with * in it stands for, by their paths.

        Raises:
            EngineError: The url has another scheme, or a file cannot be read.
        """
        import duckdb

        with duckdb.connect(":memory:", config=dict(_CLOSED)) as connection:
            try:
                found = connection.execute("select filename, content from read_blob(?)", [_local(pattern)]).fetchall()
            except duckdb.Error as error:
                msg = f"DuckDB cannot read {pattern}: {error}"
                raise EngineError(msg) from error
        return dict(found)


@contextmanager
def _database(tables: Mapping[str, EngineTable]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database that holds the tables, and is locked. Files of traces are read as far as a query needs them."""
    import duckdb

    lazy = [table for table in tables.values() if _is_lazy(table)]
    allowed = [_local(place) for table in lazy for files in table.files() for place in files.places]
    with duckdb.connect(":memory:", config=dict(_CLOSED)) as connection:
        connection.execute(f"set allowed_paths = {_texts(allowed)}")
        connection.execute("set enable_external_access = false")
        for name, table in tables.items():
            if _is_lazy(table):
                _add_events(connection, name, table)
            else:
                connection.register(name, table)
        connection.execute("set lock_configuration = true")
        yield connection


def _is_lazy(table: EngineTable) -> bool:
    return isinstance(table, Events)


def _add_events(connection: duckdb.DuckDBPyConnection, name: str, events: Events) -> None:
    import duckdb

    in_memory, parts = events.in_memory(), [_reading(files) for files in events.files()]
    if not parts:
        connection.register(name, in_memory)
        return
    if len(in_memory):
        connection.register(f"{name}_in_memory", in_memory)
        parts.append(f"select {', '.join(EVENT_SCHEMA.names)} from {name}_in_memory")  # noqa: S608  not a user's
    try:
        connection.execute(f"create view {name} as {' union all '.join(parts)}")
    except duckdb.Error as error:
        msg = f"The files of these traces cannot be read: {error}"
        raise TraceFormatError(msg) from error


def _reading(files: Files) -> str:
    columns = [f"{files.start_ns} as start_ns" if name == "start_ns" else name for name in EVENT_SCHEMA.names]
    places = _texts([_local(place) for place in files.places])
    return f"select {', '.join(columns)} from read_parquet({places}, hive_partitioning = false)"  # noqa: S608  not a user's


def _local(place: Path | str) -> str:
    if isinstance(place, Path):
        return str(place.absolute())
    scheme, _, path = place.partition("://")
    if scheme == "file":
        return path
    msg = (
        f"The embedded DuckDB reads files of this machine, and {place} lies elsewhere. "
        "Read it with SparkEngine, or `--engine spark` on the command line."
    )
    raise EngineError(msg)


def _texts(values: Sequence[str]) -> str:
    """Return a list of texts as SQL has it."""
    return "[{}]".format(", ".join("'{}'".format(value.replace("'", "''")) for value in values))


def _single_select(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    statements = connection.extract_statements(checked(sql))
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


def _explain(error: duckdb.Error, tables: Mapping[str, EngineTable]) -> str:
    """Give DuckDB's message, and the names there are to choose from."""
    import duckdb

    text = str(error).strip()
    if isinstance(error, duckdb.PermissionException):
        return f"{text}\nQueries see the tables {', '.join(tables)} and nothing outside them."
    if isinstance(error, duckdb.CatalogException):
        return f"{text}\nThe tables are: {', '.join(tables)}."
    if isinstance(error, duckdb.BinderException):
        return f"{text}\n{columns_named(tables)}"
    return text
