"""`unified-profiler query`: runs SQL over the events of a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from unified_profiler.cli.engine import EngineOption, MemoryLimitOption, engine_of
from unified_profiler.cli.help import CompactCommand
from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.output import Format, FormatOption, JsonOption, OutputOption, format_of, show
from unified_profiler.cli.traces import DEFAULT_RUN, CycleOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError


class QueryCommand(CompactCommand):
    """Takes one argument as the SQL."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments, of which the first may be missing."""
        del ctx
        return ["[OPTIONS]", "[RUN]", "SQL"]


def query(
    run: RunPath,
    sql: Annotated[
        str | None, typer.Argument(metavar="SQL", help="One SELECT over the tables `events` and `steps`.")
    ] = None,
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    engine: EngineOption = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Stop the query after this time; 0 for no limit.")
    ] = 60.0,
    memory_limit: MemoryLimitOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Short for --format csv.")] = False,
    out: OutputOption = None,
    language: LanguageOption = None,
) -> None:
    """Query the events of a run with SQL (DuckDB or Spark), read only.

    A single argument is the SQL, for the newest run in `profile`.

    A query can access the tables `events` and `steps`, and for devices `device_work`, `device_gaps`, `stream_gaps` and
    `launch_queue`, but no files, network or settings. It is stopped if it takes longer than --timeout, or needs more
    memory than --memory-limit and the temporary directory provide.

    Examples:
      unified-profiler query "select name, sum(self_ns) from events group by 1"
      unified-profiler query profile "select * from steps" -o steps.csv
      unified-profiler query hdfs://host/profile "select 1" --engine spark
    """
    from unified_profiler.analysis import query as run_query

    if sql is None:
        run, sql = DEFAULT_RUN, run
    if as_csv and (as_json or form not in {None, Format.CSV}):
        msg = "`--csv` cannot be combined with another format: leave one out."
        raise ConfigurationError(msg)
    chosen = format_of(Format.CSV if as_csv else form, out, default=Format.TABLE, as_json=as_json)
    spoken = language_of(language)
    with working("querying", language=spoken):
        query_engine = engine_of(engine, memory_limit=memory_limit)
        source = read_selected(run, rank=rank, cycle=cycle, engine=query_engine, language=spoken)
        result = run_query(source, sql, engine=query_engine, timeout=timeout or None)
    show(result, chosen, out=out, language=spoken, next_line=next_command("file", language=spoken))
