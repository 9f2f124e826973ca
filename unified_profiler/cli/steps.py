"""`unified-profiler steps`: breaks down the time of each step of a run."""

from __future__ import annotations

from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.output import Format, show
from unified_profiler.cli.traces import CycleOption, JsonOption, RankOption, RunPath, read_selected, working


def steps(
    run: RunPath,
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    engine: EngineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the time of each recorded step in operators, collectives, copies, none of these, and regions.

    [bold]Examples[/bold]

      unified-profiler steps profile

      unified-profiler steps profile --rank 0 --json
    """
    from unified_profiler.analysis import step_breakdown

    with working("Reading and adding up"):
        query_engine = engine_of(engine)
        selected = read_selected(run, rank=rank, cycle=cycle, engine=query_engine)
        result = step_breakdown(selected, engine=query_engine)
    show(result, Format.JSON if as_json else Format.TABLE)
