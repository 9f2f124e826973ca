"""The DuckDB database that queries of this package share, so that an analysis of small tables need not open its own.

It contains nothing: each query has a cursor of its own, with tables that no other cursor sees. It is locked as those of
users' queries are, cannot spill to a temporary directory, and has no threads of its own, which a forked process would
lose. Users' queries never run here.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unified_profiler.engine.embedded_settings import RESTRICTED, default_memory
from unified_profiler.engine.protocol import EngineTable

if TYPE_CHECKING:
    import duckdb

_LARGEST_BYTES = 32 << 20
"""Larger tables are worth a database with threads and a temporary directory."""
_MEMORY_RATIO = 16
"""A query of an analysis needs a few times the memory of its tables, and several may run at once."""
_NO_THREADS = {"threads": "1", "async_threads": "0"}


@dataclass(frozen=True)
class SharedDatabase:
    """A locked database in memory.

    Attributes:
        connection: Creates the cursors, and executes nothing itself.
        memory: The memory limit of all its queries together, in bytes.
        _lock: A connection refuses a call while another thread is in one.
    """

    connection: duckdb.DuckDBPyConnection
    memory: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _parsed: dict[str, Any] = field(default_factory=dict)

    def holds(self, tables: Mapping[str, EngineTable]) -> bool:
        """Return whether all tables are in memory, and small."""
        largest = min(_LARGEST_BYTES, self.memory // _MEMORY_RATIO)
        return all(isinstance(table, pa.Table) for table in tables.values()) and (
            sum(table.nbytes for table in tables.values()) <= largest
        )

    def parsed(self, sql: str) -> Any:
        """Return the statement of a query, which is parsed once; the package has a limited number of them."""
        statement = self._parsed.get(sql)
        if statement is None:
            with self._lock:
                (statement,) = self.connection.extract_statements(sql)
            self._parsed[sql] = statement
        return statement

    @contextmanager
    def cursor(self, tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection of its own that sees the tables and no others."""
        with self._lock:
            cursor = self.connection.cursor()
        with cursor:
            for name, table in tables.items():
                cursor.register(name, table)
            yield cursor


_databases: dict[int, SharedDatabase] = {}
"""The database of each process: a forked one opens its own, and leaves that of its parent alone."""


def shared_database() -> SharedDatabase:
    """Return the database of this process; the first call opens it."""
    process = os.getpid()
    if process not in _databases:
        _databases.setdefault(process, _opened())  # a lock could be held by a thread that a forked process lacks
        atexit.register(_databases.clear)  # DuckDB complains on stderr of connections that outlive the interpreter
    return _databases[process]


def _opened() -> SharedDatabase:
    connection = _connected()
    memory = default_memory(connection)
    connection.execute(f"set memory_limit = '{memory} bytes'")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return SharedDatabase(connection, memory)


def _connected() -> duckdb.DuckDBPyConnection:
    import duckdb

    settings = {**RESTRICTED, **_NO_THREADS}
    try:
        return duckdb.connect(":memory:", config=dict(settings))
    except duckdb.Error:  # before 2.0, DuckDB has no async threads and no such setting
        del settings["async_threads"]
        return duckdb.connect(":memory:", config=dict(settings))
