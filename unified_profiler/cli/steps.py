"""`unified-profiler steps`: where the time of each step of a run went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.output import Format, show
from unified_profiler.cli.traces import CycleOption, RankOption, RunPath, read_selected, working

if TYPE_CHECKING:
    from unified_profiler.analysis import Result
    from unified_profiler.engine import Engine
    from unified_profiler.model.run import Run


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
    with working("Reading and adding up"):
        computing = engine_of(engine)
        result = step_table(read_selected(run, rank=rank, cycle=cycle, engine=computing), computing)
    show(result, Format.JSON if as_json else Format.TABLE)


def step_table(run: Run, engine: Engine) -> Result:
    """Return the breakdown of steps."""
    from unified_profiler.analysis import step_breakdown

    return step_breakdown(run, engine=engine)
