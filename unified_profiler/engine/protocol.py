"""What an engine must be: the one thing the analyses ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa


class Engine(Protocol):
    """Executes one SELECT over named tables. SQL is written in the common subset of DuckDB and Spark."""

    def run(self, sql: str, *, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the rows that the query selects from the tables; nothing else can be reached from it.

        Raises:
            QueryError: The query is wrong, is no SELECT, or reaches for something else than the tables.
        """
        ...
