"""The default engine: DuckDB embedded in this process, which queries Arrow tables without copying, and Parquet files.

Every query of a user runs in a database of its own, locked before it receives any SQL: no files except those of its
tables, no network, extensions, settings or Python variables, and one SELECT at a time. Memory is limited; larger
queries spill to a temporary directory. Queries of this package over small tables share a database, which takes a tenth
of the time. DuckDB is imported by the first query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unified_profiler.engine.contract import PackageQuery, checked_query, map_in_process, plain_types, time_limit
from unified_profiler.engine.embedded_errors import query_errors, result_too_large
from unified_profiler.engine.embedded_guard import single_select
from unified_profiler.engine.embedded_settings import RESTRICTED, default_memory
from unified_profiler.engine.embedded_shared import shared_database
from unified_profiler.engine.protocol import EngineTable, TraceFunction
from unified_profiler.engine.source import Events, TraceFiles
from unified_profiler.errors import EngineError, TraceFormatError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.model.scratch import Scratch
from unified_profiler.model.trace import Trace
from unified_profiler.presentation.units import parse_bytes

if TYPE_CHECKING:
    import duckdb

_SPILL_RATIO = 4
"""Limit of the temporary directory, relative to the memory limit."""
_BATCH_ROWS = 100_000
"""Rows of a result that are fetched at a time."""


@checked_keywords
class DuckDBEngine:
    """Executes queries with the embedded DuckDB.

    Args:
        memory_limit: The most memory that a query may use, and that its result may occupy, as "4GB" or a number of
            bytes; 40 % of the machine's by default. Larger queries spill to a temporary directory, up to four times
            the limit.

    Raises:
        ConfigurationError: The limit is not a size.

    Example:
        >>> query(run, "select * from events order by duration_ns", engine=DuckDBEngine(memory_limit="8GB"))
    """

    def __init__(self, *, memory_limit: str | int | None = None) -> None:
        self._memory_limit = None if memory_limit is None else parse_bytes(memory_limit, option="memory_limit")

    def each_trace(
        self, traces: Sequence[Trace], function: TraceFunction, *, columns: Sequence[str], schema: pa.Schema
    ) -> pa.Table:
        """Apply a function to each trace, a few in parallel, and concatenate the results in order."""
        return map_in_process(traces, function, columns=columns, schema=schema)

    def run(self, sql: str, *, tables: Mapping[str, EngineTable], timeout: float | None = None) -> pa.Table:
        """Return the rows that the query selects from the tables.

        Raises:
            QueryError: The query is invalid, is not a SELECT, accesses anything but the tables, or exceeds the time or
                memory limit.
        """
        with (
            query_errors(tables),
            self._prepared(sql, tables) as (connection, statement, memory),
            time_limit(timeout, connection.interrupt),
        ):
            return plain_types(_fetch(connection, statement, memory))

    def files(self, pattern: str) -> dict[str, bytes]:
        """Return the content of the files that match a `file://` URL with wildcards, by path.

        Raises:
            EngineError: The URL has another scheme, or a file cannot be read.
        """
        import duckdb

        with duckdb.connect(":memory:", config=dict(RESTRICTED)) as connection:
            try:
                rows = connection.execute("select filename, content from read_blob(?)", [_local(pattern)]).fetchall()
            except duckdb.Error as error:
                msg = f"DuckDB cannot read {pattern}: {error}"
                raise EngineError(msg) from error
        return dict(rows)

    @contextmanager
    def _prepared(
        self, sql: str, tables: Mapping[str, EngineTable]
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, Any, int]]:
        """Yield a connection that sees the tables, the statement of the query, and the memory limit."""
        is_ours = isinstance(sql, PackageQuery)
        if is_ours and self._memory_limit is None and (shared := shared_database()).holds(tables):
            with shared.cursor(tables) as connection:
                yield connection, shared.parsed(sql), shared.memory
            return
        text = sql if is_ours else checked_query(sql)
        with _own_database(tables, self._memory_limit) as (connection, memory):
            yield connection, text if is_ours else single_select(connection, text), memory


@contextmanager
def _own_database(
    tables: Mapping[str, EngineTable], memory_limit: int | None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, int]]:
    """Open a locked database with the tables, and yield it with its memory limit; trace files are read lazily."""
    import duckdb

    events = [table for table in tables.values() if isinstance(table, Events)]
    allowed = [_local(path) for table in events for files in table.files() for path in files.paths]
    with (
        duckdb.connect(":memory:", config=dict(RESTRICTED)) as connection,
        _limited_memory(connection, memory_limit) as memory,
    ):
        connection.execute(f"set allowed_paths = {_sql_list(allowed)}")
        connection.execute("set enable_external_access = false")
        for name, table in tables.items():
            if isinstance(table, Events):
                _add_events(connection, name, table)
            else:
                connection.register(name, table)
        connection.execute("set lock_configuration = true")
        yield connection, memory


@contextmanager
def _limited_memory(connection: duckdb.DuckDBPyConnection, memory_limit: int | None) -> Iterator[int]:
    """Set the memory limit and the temporary directory of a database, and yield the limit."""
    memory = memory_limit or default_memory(connection)
    connection.execute(f"set memory_limit = '{memory} bytes'")
    scratch = Scratch()
    try:
        with suppress(OSError):  # without a temporary directory, queries cannot spill
            connection.execute(f"set temp_directory = {_sql_text(str(scratch.folder('query')))}")
            connection.execute(f"set max_temp_directory_size = '{_SPILL_RATIO * memory} bytes'")
        yield memory
    finally:
        scratch.remove()


def _add_events(connection: duckdb.DuckDBPyConnection, name: str, events: Events) -> None:
    import duckdb

    in_memory, parts = events.in_memory(), [_select_from(files) for files in events.files()]
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


def _select_from(files: TraceFiles) -> str:
    columns = [f"{files.start_ns} as start_ns" if name == "start_ns" else name for name in EVENT_SCHEMA.names]
    paths = _sql_list([_local(path) for path in files.paths])
    return f"select {', '.join(columns)} from read_parquet({paths}, hive_partitioning = false)"  # noqa: S608  not a user's


def _local(location: Path | str) -> str:
    if isinstance(location, Path):
        return str(location.absolute())
    scheme, _, path = location.partition("://")
    if scheme == "file":
        return path
    msg = (
        f"The embedded DuckDB reads only files of this machine; found {location}. "
        "Read it with SparkEngine, or `--engine spark` on the command line."
    )
    raise EngineError(msg)


def _sql_list(values: Sequence[str]) -> str:
    return "[{}]".format(", ".join(map(_sql_text, values)))


def _sql_text(value: str) -> str:
    return "'{}'".format(value.replace("'", "''"))


def _fetch(connection: duckdb.DuckDBPyConnection, statement: Any, memory: int) -> pa.Table:
    """Execute a statement and collect its rows, which DuckDB's own memory limit does not cover."""
    reader = connection.sql(statement).to_arrow_reader(_BATCH_ROWS)
    batches, size = [], 0
    for batch in reader:
        size += batch.nbytes
        if size > memory:
            raise result_too_large(memory)
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)
