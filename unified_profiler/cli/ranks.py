"""`unified-profiler ranks`: which rank of a run is slow, since when, doing what."""

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
    steps: Annotated[bool, typer.Option("--steps", help="Every step of every rank, instead of medians.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object with all of it.")] = False,
    language: LanguageOption = None,
    engine: EngineOption = None,
) -> None:
    """Compare the ranks of a run and say which is slow, since which step, in what, and how sure that is.

    What a rank waited in collectives for others is not its own time. Clocks of several machines are compared first, and
    what was found is kept in the run as clocks.json.

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
    words = _words(table, (language or Language.ENGLISH).value)
    result = replace(table if steps else table.ranks, footer=words)
    show_table(result, most_rows=None)


def _rank_table(path: str, engine: Engine) -> RankTable:
    from unified_profiler.analysis import rank_table
    from unified_profiler.delivery.run_writer import save_clocks
    from unified_profiler.readers import read

    found = read(path, engine=engine)
    table = rank_table(found, engine=engine)
    if found.clocks is None:
        save_clocks(found, table.clocks)
    return table


def _words(table: RankTable, language: str) -> tuple[str, ...]:
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
