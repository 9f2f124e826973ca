"""`unified-profiler query`: SQL over the events of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from unified_profiler.cli.engine import EngineOption, MemoryLimitOption, engine_of
from unified_profiler.cli.output import Format, show
from unified_profiler.cli.traces import CycleOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError


def query(
    run: RunPath,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT over the table `events`.")],
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    engine: EngineOption = None,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Stop the query after this time; 0 for no limit."),
    ] = 60.0,
    memory_limit: MemoryLimitOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array of objects.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
) -> None:
    """Ask the events of a run with SQL (DuckDB or Spark), read only.

    A query reaches the tables `events` and `steps`, and no file, network or setting. It is stopped when it takes
    longer than --timeout or needs more memory than --memory-limit and the temporary directory give it.

    [bold]Examples[/bold]

      unified-profiler query profile "select name, sum(self_ns) from events group by 1 order by 2 desc limit 5"

      unified-profiler query profile "select step, count(*) from events where kind = 'op' group by 1" --csv

      unified-profiler query hdfs://name-node/profile "select count(*) from events" --engine spark://10.0.0.5:7077
    """
    from unified_profiler.analysis import query as ask

    if as_json and as_csv:
        msg = "--json and --csv exclude each other. Choose one."
        raise ConfigurationError(msg)
    with working("Asking"):
        computing = engine_of(engine, memory_limit=memory_limit)
        source = read_selected(run, rank=rank, cycle=cycle, engine=computing)
        result = ask(source, sql, engine=computing, timeout=timeout or None)
    show(result, Format.JSON if as_json else Format.CSV if as_csv else Format.TABLE)
