"""The default engine: DuckDB inside this process, over Arrow tables that are not copied and over Parquet files.

Every query runs in a database of its own that is locked before it sees any SQL: no files but those of its tables, no
network, extensions, settings or Python variables, one SELECT at a time. Memory is limited: what a query needs beyond
that goes to a temporary directory. Nothing here is loaded before the first query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unified_profiler.engine.contract import checked, each_here, plain_types, time_limit
from unified_profiler.engine.embedded_errors import query_errors, result_too_large
from unified_profiler.engine.embedded_guard import single_select
from unified_profiler.engine.protocol import EngineTable
from unified_profiler.engine.source import Events, Files
from unified_profiler.errors import EngineError, TraceFormatError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.schema import EVENT_SCHEMA
from unified_profiler.model.scratch import Scratch
from unified_profiler.model.trace import Trace
from unified_profiler.presentation.units import parse_bytes

if TYPE_CHECKING:
    import duckdb

_CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # a query must not see the variables of its caller
    "temp_directory": "",  # without it a large query spills into the working directory
}

_SPILL_RATIO = 4
"""Bytes that a query may write to the temporary directory, per byte of memory that it may use."""

_BATCH_ROWS = 100_000
"""Rows of a result that are fetched at a time."""


@checked_keywords
class DuckDBEngine:
    """Executes queries with the embedded DuckDB.

    Args:
        memory_limit: The most memory that a query may use, and that its result may occupy, as "4GB" or a number of
            bytes; 40 % of the machine's if not given. What a query needs beyond that is written to a temporary
            directory, up to four times as much.

    Raises:
        ConfigurationError: The limit is no size.

    Example:
        >>> query(run, "select * from events order by duration_ns", engine=DuckDBEngine(memory_limit="8GB"))
    """

    def __init__(self, *, memory_limit: str | int | None = None) -> None:
        self._memory_limit = None if memory_limit is None else parse_bytes(memory_limit, option="memory_limit")

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

    def run(self, sql: str, *, tables: Mapping[str, EngineTable], timeout: float | None = None) -> pa.Table:
        """Return the rows that the query selects from the tables.

        Raises:
            QueryError: The query is wrong, is no SELECT, reaches for something else than the tables, or exceeds the
                limit of time or memory.
        """
        text = checked(sql)
        with (
            query_errors(tables),
            _database(tables, self._memory_limit) as (connection, memory),
            time_limit(timeout, connection.interrupt),
        ):
            return plain_types(_fetched(connection, single_select(connection, text), memory))

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
def _database(
    tables: Mapping[str, EngineTable], memory_limit: int | None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, int]]:
    """Open a database that contains the tables and is locked, and return it with the bytes of memory it may use.

    Files of traces are read as far as a query needs them.
    """
    import duckdb

    lazy = [table for table in tables.values() if _is_lazy(table)]
    allowed = [_local(place) for table in lazy for files in table.files() for place in files.places]
    with duckdb.connect(":memory:", config=dict(_CLOSED)) as connection, _spilling(connection, memory_limit) as memory:
        connection.execute(f"set allowed_paths = {_texts(allowed)}")
        connection.execute("set enable_external_access = false")
        for name, table in tables.items():
            if _is_lazy(table):
                _add_events(connection, name, table)
            else:
                connection.register(name, table)
        connection.execute("set lock_configuration = true")
        yield connection, memory


@contextmanager
def _spilling(connection: duckdb.DuckDBPyConnection, memory_limit: int | None) -> Iterator[int]:
    """Limit the memory of a database, give it a temporary directory, and return the limit."""
    memory = memory_limit or _default_memory(connection)
    connection.execute(f"set memory_limit = '{memory} bytes'")
    scratch = Scratch()
    try:
        with suppress(OSError):  # without a temporary directory a query has its memory only
            connection.execute(f"set temp_directory = {_text(str(scratch.folder('query')))}")
            connection.execute(f"set max_temp_directory_size = '{_SPILL_RATIO * memory} bytes'")
        yield memory
    finally:
        scratch.remove()


def _default_memory(connection: duckdb.DuckDBPyConnection) -> int:
    """Return half of DuckDB's own limit, which is 80 % of the memory of the machine or container."""
    ((text,),) = connection.execute("select current_setting('memory_limit')").fetchall()
    return parse_bytes(text.replace(" ", ""), option="memory_limit") // 2


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
    return "[{}]".format(", ".join(map(_text, values)))


def _text(value: str) -> str:
    return "'{}'".format(value.replace("'", "''"))


def _fetched(connection: duckdb.DuckDBPyConnection, statement: Any, memory: int) -> pa.Table:
    """Execute a statement and collect its rows, which DuckDB's own memory limit does not cover."""
    reader = connection.sql(statement).to_arrow_reader(_BATCH_ROWS)
    batches, size = [], 0
    for batch in reader:
        size += batch.nbytes
        if size > memory:
            raise result_too_large(memory)
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)
