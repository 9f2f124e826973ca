"""`unified-profiler table`: the operators or the API calls of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.op_map import OpMapOption, mapped
from unified_profiler.cli.output import Format, show
from unified_profiler.cli.traces import CycleOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError

if TYPE_CHECKING:
    from unified_profiler.analysis import Result
    from unified_profiler.engine import Engine
    from unified_profiler.model.run import Run


def table(
    run: RunPath,
    *,
    by: Annotated[
        list[str] | None, typer.Option("--by", help="What makes a row: name (default), op, shapes, ...; repeatable.")
    ] = None,
    sort_by: Annotated[str | None, typer.Option(help="A column; of operators also one of torch's sort keys.")] = None,
    row_limit: Annotated[int, typer.Option(min=0, help="Most rows to print; 0 for all.")] = 20,
    rank: RankOption = None,
    cycle: CycleOption = None,
    regions: Annotated[
        bool, typer.Option("--regions", help="Rows for steps and regions too, as torch has for record_function.")
    ] = False,
    api: Annotated[bool, typer.Option("--api", help="The calls of the frameworks' API, instead.")] = False,
    op_map: OpMapOption = None,
    engine: EngineOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array of objects.")] = False,
) -> None:
    """Print the operators of a run with counts, times, memory and FLOPs.

    With --api it is the calls of each API, which `run --api` records. `unified-profiler steps` has the steps.

    [bold]Examples[/bold]

      unified-profiler table profile

      unified-profiler table profile --by op --by direction --sort-by self_cpu_time_total

      unified-profiler table profile --rank 0 --json

      unified-profiler table profile --regions

      unified-profiler table profile --api --sort-by total_ns --row-limit 10
    """
    _check_choice({"--by": bool(by), "--regions": regions}, api=api)
    with working("Reading and adding up"):
        computing = engine_of(engine)
        selected = mapped(read_selected(run, rank=rank, cycle=cycle, engine=computing), op_map)
        if api:
            result = _api_table(selected, sort_by, row_limit, computing)
        else:
            result = _op_table(selected, by or ["name"], sort_by, row_limit, computing, regions=regions)
    show(result, Format.JSON if as_json else Format.TABLE, most_rows=None)


def _check_choice(options: Mapping[str, bool], *, api: bool) -> None:
    """Refuse options of which one would have no effect."""
    given = [option for option, is_given in options.items() if is_given]
    if api and given:
        msg = f"--api and {given[-1]} exclude each other: leave one out."
        raise ConfigurationError(msg)


def _op_table(run: Run, by: list[str], sort_by: str | None, row_limit: int, engine: Engine, *, regions: bool) -> Result:
    from unified_profiler.analysis import op_table

    return op_table(run, by=tuple(by), sort_by=sort_by, row_limit=row_limit or None, engine=engine, regions=regions)


def _api_table(run: Run, sort_by: str | None, row_limit: int, engine: Engine) -> Result:
    from unified_profiler.analysis import api_table

    return api_table(run, sort_by=sort_by, row_limit=row_limit or None, engine=engine)
