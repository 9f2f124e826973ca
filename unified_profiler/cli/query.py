"""`unified-profiler query`: runs SQL over the events of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from unified_profiler.cli.engine import EngineOption, MemoryLimitOption, engine_of
from unified_profiler.cli.output import Format, show
from unified_profiler.cli.traces import CycleOption, JsonOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError


def query(
    run: RunPath,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT over the tables `events` and `steps`.")],
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    engine: EngineOption = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Stop the query after this time; 0 for no limit.")
    ] = 60.0,
    memory_limit: MemoryLimitOption = None,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
) -> None:
    """Query the events of a run with SQL (DuckDB or Spark), read only.

    A query can access the tables `events` and `steps`, and for devices `device_work`, `device_gaps`, `stream_gaps` and
    `launch_queue`, but no files, network or settings. It is stopped if it takes longer than --timeout, or needs more
    memory than --memory-limit and the temporary directory provide.

    [bold]Examples[/bold]

      unified-profiler query profile "select name, sum(self_ns) from events group by 1 order by 2 desc limit 5"

      unified-profiler query profile "select step, count(*) from events where kind = 'op' group by 1" --csv

      unified-profiler query hdfs://name-node/profile "select count(*) from events" --engine spark://10.0.0.5:7077
    """
    from unified_profiler.analysis import query as run_query

    if as_json and as_csv:
        msg = "--json and --csv cannot be combined. Choose one."
        raise ConfigurationError(msg)
    with working("Running the query"):
        query_engine = engine_of(engine, memory_limit=memory_limit)
        source = read_selected(run, rank=rank, cycle=cycle, engine=query_engine)
        result = run_query(source, sql, engine=query_engine, timeout=timeout or None)
    show(result, Format.JSON if as_json else Format.CSV if as_csv else Format.TABLE)
