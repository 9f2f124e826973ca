"""`unified-profiler ranks`: identifies slow ranks of a run, and in which step and operation they became slow."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.language import Language, LanguageOption
from unified_profiler.cli.output import show_table
from unified_profiler.cli.traces import RunPath, working

if TYPE_CHECKING:
    from unified_profiler.analysis import RankTable
    from unified_profiler.engine import Engine


def ranks(
    run: RunPath,
    *,
    steps: Annotated[bool, typer.Option("--steps", help="Show every step of every rank instead of medians.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object with verdict, clocks, ranks and steps.")
    ] = False,
    language: LanguageOption = None,
    engine: EngineOption = None,
) -> None:
    """Compare the ranks of a run: which one is slow, since which step, in which operation, and how certain that is.

    The time in which a rank waits for others in collectives is not its own time. The clocks of several machines are
    aligned first; their offsets are saved in the run as clocks.json.

    [bold]Examples[/bold]

      unified-profiler ranks profile

      unified-profiler ranks profile --steps

      unified-profiler ranks profile --json
    """
    with working("Reading and comparing"):
        table = _rank_table(run, engine_of(engine))
    if as_json:
        typer.echo(json.dumps(_as_json(table), indent=2))
        return
    footer = _sentences(table, (language or Language.ENGLISH).value)
    show_table(replace(table if steps else table.ranks, footer=footer), most_rows=None)


def _rank_table(path: str, engine: Engine) -> RankTable:
    from unified_profiler.analysis import rank_table
    from unified_profiler.delivery.run_writer import save_clocks
    from unified_profiler.readers import read

    run = read(path, engine=engine)
    table = rank_table(run, engine=engine)
    if run.clocks is None:
        save_clocks(run, table.clocks)
    return table


def _sentences(table: RankTable, language: str) -> tuple[str, ...]:
    from unified_profiler.presentation.texts import render_statement

    return tuple(render_statement("ranks", each, language=language) for each in (*table.verdict, *table.notices))


def _as_json(table: RankTable) -> dict[str, Any]:
    return {
        "verdict": [statement.model_dump() for statement in table.verdict],
        "notices": [statement.model_dump() for statement in table.notices],
        "clocks": None if table.clocks is None else table.clocks.model_dump(mode="json", exclude={"traces"}),
        "ranks": table.ranks.table.to_pylist(),
        "steps": table.table.to_pylist(),
    }
