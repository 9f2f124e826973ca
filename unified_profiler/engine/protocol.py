"""What an engine must be: the three things that analyses and readers ask of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from unified_profiler.model.trace import Trace

EngineTable: TypeAlias = Any
"""A table that `run` takes: an Arrow table, the `Events` of traces, or what `each_trace` of the same engine gave."""


class Engine(Protocol):
    """Executes one SELECT over named tables. SQL is written in the common subset of DuckDB and Spark."""

    def each_trace(
        self,
        traces: Sequence[Trace],
        function: Callable[[pa.Table], pa.Table],
        *,
        columns: Sequence[str],
        schema: pa.Schema,
    ) -> EngineTable:
        """Apply a function to each trace by itself and return all of its rows as one table, which `run` takes.

        What concerns single events and their places in the tree of calls is worked out this way, beside the data.

        Args:
            traces: The traces.
            function: Takes the named columns of a trace's events. It may run in another process or machine, and may
                not be called for a trace without events.
            columns: What it needs; nothing else is read.
            schema: The columns that it gives.
        """
        ...

    def run(self, sql: str, *, tables: Mapping[str, EngineTable], timeout: float | None = None) -> pa.Table:
        """Return the rows that the query selects from the tables; nothing else can be reached from it.

        Args:
            sql: The query.
            tables: The tables, by name.
            timeout: The query is stopped after this many seconds; None for no limit.

        Raises:
            QueryError: The query is wrong, is no SELECT, reaches for something else than the tables, or exceeds a
                limit.
            EngineError: The engine failed.
        """
        ...

    def files(self, pattern: str) -> dict[str, bytes]:
        """Return the content of the small files that a url with * in it stands for, by their urls or paths.

        Raises:
            EngineError: The engine cannot read there.
        """
        ...
