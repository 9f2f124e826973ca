"""The interface of engines: the three operations that analyses and readers use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from unified_profiler.model.trace import Trace

EngineTable: TypeAlias = Any
"""A table for `run`: an Arrow table, the `Events` of traces, or a result of `each_trace` of the same engine."""
TraceFunction: TypeAlias = Callable[[pa.Table], pa.Table]


class Engine(Protocol):
    """Executes one SELECT over named tables. SQL is written in the common subset of DuckDB and Spark."""

    def each_trace(
        self, traces: Sequence[Trace], function: TraceFunction, *, columns: Sequence[str], schema: pa.Schema
    ) -> EngineTable:
        """Apply a function to each trace and return all resulting rows as one table for `run`.

        This computes per-event results that depend on the tree of calls, close to the data.

        Args:
            traces: The traces.
            function: Takes the named columns of a trace's events. It may run in another process or on another machine,
                and may be skipped for a trace without events.
            columns: The columns that it needs; no others are read.
            schema: The columns that it returns.
        """
        ...

    def run(self, sql: str, *, tables: Mapping[str, EngineTable], timeout: float | None = None) -> pa.Table:
        """Return the rows that the query selects from the tables; it can access nothing else.

        Args:
            sql: The query.
            tables: The tables, by name.
            timeout: The query is stopped after this many seconds; None for no limit.

        Raises:
            QueryError: The query is invalid, is not a SELECT, accesses anything but the tables, or exceeds a limit.
            EngineError: The engine failed.
        """
        ...

    def files(self, pattern: str) -> dict[str, bytes]:
        """Return the content of the small files that match a URL with wildcards, by URL or path.

        Raises:
            EngineError: The engine cannot read from there.
        """
        ...
