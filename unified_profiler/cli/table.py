"""`unified-profiler table`: prints the operators or the API calls of a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from unified_profiler.cli.completion import groupings, sort_keys
from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.op_map import OpMapOption, mapped
from unified_profiler.cli.output import Format, FormatOption, JsonOption, OutputOption, column_of, format_of, show
from unified_profiler.cli.traces import DEFAULT_RUN, CycleOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError


def table(
    run: RunPath = DEFAULT_RUN,
    *,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="COLUMN",
            autocompletion=groupings,
            help="Group rows by name (default), shapes, op, origin, module, direction, category, kind, layer, "
            "framework, thread, device, stack, step, cycle, rank or host; repeatable.",
        ),
    ] = None,
    sort_by: Annotated[
        str | None,
        typer.Option(
            autocompletion=sort_keys,
            help="Column to sort by, or its heading; for operators also one of torch's sort keys.",
        ),
    ] = None,
    row_limit: Annotated[int, typer.Option(min=0, help="Maximum number of rows; 0 for all.")] = 20,
    rank: RankOption = None,
    cycle: CycleOption = None,
    regions: Annotated[
        bool, typer.Option("--regions", help="Add rows for steps and regions, as torch does for record_function.")
    ] = False,
    api: Annotated[
        bool, typer.Option("--api", help="Show the calls of the frameworks' API instead of operators.")
    ] = False,
    op_map: OpMapOption = None,
    engine: EngineOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    out: OutputOption = None,
    language: LanguageOption = None,
) -> None:
    """Print the operators of a run with counts, times, memory and FLOPs.

    With --api, print the API calls that `run --api` records. For steps see `unified-profiler steps`.

    Examples:
      unified-profiler table profile
      unified-profiler table --by op --by direction --sort-by cpu_time_total
      unified-profiler table profile --rank 0 -o operators.csv
      unified-profiler table profile --regions
      unified-profiler table --api --sort-by total_ns
    """
    conflict = "--regions" if regions else "--by" if by else None
    if api and conflict:
        msg = f"--api and {conflict} cannot be combined: leave one out."
        raise ConfigurationError(msg)
    chosen = format_of(form, out, default=Format.TABLE, as_json=as_json)
    from unified_profiler.analysis import api_table, op_table

    spoken = language_of(language)
    with working("adding", language=spoken):
        query_engine = engine_of(engine)
        whole = read_selected(run, rank=rank, cycle=cycle, engine=query_engine, language=spoken)
        selected = mapped(whole, op_map)
        options: dict[str, Any] = {"sort_by": column_of(sort_by, spoken), "engine": query_engine}
        if api:
            result = api_table(selected, **options)
        else:
            result = op_table(selected, by=tuple(by or ["name"]), regions=regions, **options)
    following = next_command("critical_path", "critical-path", run, language=spoken)
    next_line = following if len(result) else None
    show(result, chosen, out=out, most_rows=None, row_limit=row_limit, language=spoken, next_line=next_line)
