"""What an engine must be: the two things that analyses ask of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from unified_profiler.model.trace import Trace

EngineTable: TypeAlias = Any
"""A table where the engine has it: an Arrow table for the embedded one."""


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
            function: Takes the named columns of a trace's events. It may run in another process.
            columns: What it needs; nothing else is read.
            schema: The columns that it gives.
        """
        ...

    def run(self, sql: str, *, tables: Mapping[str, EngineTable]) -> pa.Table:
        """Return the rows that the query selects from the tables; nothing else can be reached from it.

        Raises:
            QueryError: The query is wrong, is no SELECT, or reaches for something else than the tables.
        """
        ...
