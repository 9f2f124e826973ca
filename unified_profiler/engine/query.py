"""Runs a user's SQL query over a trace or a run."""

from __future__ import annotations

from unified_profiler.engine.contract import checked_timeout
from unified_profiler.engine.embedded import DuckDBEngine
from unified_profiler.engine.protocol import Engine
from unified_profiler.engine.result import Result
from unified_profiler.engine.source import Source, tables_of
from unified_profiler.keywords import checked_keywords

DEFAULT_TIMEOUT = 60.0
"""Seconds after which a query is stopped by default."""


@checked_keywords
def query(source: Source, sql: str, *, engine: Engine | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> Result:
    """Run a SELECT over the events of a trace or of all traces of a run.

    The table `events` has the columns of the event schema; in a run, ids are unique only within one `rank` and
    `cycle`. A run that was read from a directory also has the table `steps`: every step, recorded or not. Queries
    only read, and reach nothing but these tables.

    Args:
        source: A Trace or a Run.
        sql: One SELECT statement in the dialect of the engine.
        engine: The engine that executes it; the embedded DuckDB by default.
        timeout: The query is stopped after this many seconds; None for no limit.

    Raises:
        QueryError: The query is invalid, is not a SELECT, accesses anything but the tables, takes longer than
            `timeout` or needs more memory than the engine allows.
        ConfigurationError: `timeout` is not a positive number.
        EngineError: The engine failed.

    Example:
        >>> query(trace, "select name, sum(self_ns) as self_ns from events group by 1 order by 2 desc limit 5")
    """
    seconds = checked_timeout(timeout)
    return Result(table=(engine or DuckDBEngine()).run(sql, tables=tables_of(source), timeout=seconds))
