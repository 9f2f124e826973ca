"""Runs a user's SQL query over a trace or a run."""

from __future__ import annotations

from unified_profiler.analysis.devices.views import views_in
from unified_profiler.engine import DuckDBEngine, Engine, Result, Source, tables_of
from unified_profiler.engine.contract import checked_query, checked_timeout
from unified_profiler.keywords import checked_keywords

DEFAULT_TIMEOUT = 60.0
"""Seconds after which a query is stopped by default."""


@checked_keywords
def query(source: Source, sql: str, *, engine: Engine | None = None, timeout: float | None = DEFAULT_TIMEOUT) -> Result:
    """Run a SELECT over the events of a trace or of all traces of a run.

    The table `events` has the columns of the event schema; in a run, ids are unique only within one `rank` and
    `cycle`. A run that was read from a directory also has the table `steps`: every step, recorded or not. Tables of the
    work of devices are computed if the query names them: `device_work` (every kernel, copy and collective with its
    class, launch and delay), `device_gaps` and `stream_gaps` (idle times with their causes) and `launch_queue` (the
    length of each stream's queue over time). Queries only read, and reach nothing but these tables.

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
    engine = engine or DuckDBEngine()
    tables = tables_of(source) | views_in(checked_query(sql), source, engine)
    return Result(table=engine.run(sql, tables=tables, timeout=seconds))
