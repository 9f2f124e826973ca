"""`unified-profiler steps`: where the time of each step of a run went."""

from __future__ import annotations

from typing import Annotated

import typer

from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.output import Format, show
from unified_profiler.cli.traces import CycleOption, RankOption, RunPath, read_selected, working


def steps(
    run: RunPath,
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    engine: EngineOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array of objects.")] = False,
) -> None:
    """Print where the time of each recorded step went: operators, collectives, copies, none of them, and regions.

    [bold]Examples[/bold]

      unified-profiler steps profile

      unified-profiler steps profile --rank 0 --json
    """
    from unified_profiler.analysis import step_breakdown

    with working("Reading and adding up"):
        computing = engine_of(engine)
        result = step_breakdown(read_selected(run, rank=rank, cycle=cycle, engine=computing), engine=computing)
    show(result, Format.JSON if as_json else Format.TABLE)
