"""`unified-profiler ranks`: identifies slow ranks of a run, and in which step and operation they became slow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.output import Format, FormatOption, JsonOption, OutputOption, format_of, show, write_or_print
from unified_profiler.cli.traces import DEFAULT_RUN, RunPath, read_named, working

if TYPE_CHECKING:
    from unified_profiler.analysis import RankTable
    from unified_profiler.engine import Engine


def ranks(
    run: RunPath = DEFAULT_RUN,
    *,
    steps: Annotated[bool, typer.Option("--steps", help="Show every step of every rank instead of medians.")] = False,
    engine: EngineOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    out: OutputOption = None,
    language: LanguageOption = None,
) -> None:
    """Compare the ranks of a run: which one is slow, since which step, in which operation, and how certain that is.

    The time in which a rank waits for others in collectives is not its own time. The clocks of several machines are
    aligned first; their offsets are saved in the run as clocks.json. JSON is an object with verdict, clocks, ranks and
    steps.

    Examples:
      unified-profiler ranks profile
      unified-profiler ranks profile --steps
      unified-profiler ranks profile --json
    """
    chosen = format_of(form, out, default=Format.TABLE, as_json=as_json)
    spoken = language_of(language)
    with working("comparing", language=spoken):
        table = _rank_table(run, engine_of(engine), spoken)
    if chosen is Format.JSON:
        write_or_print(json.dumps(_as_json(table), indent=2) + "\n", out)
        return
    if chosen is Format.CSV:
        show(table if steps else table.ranks, chosen, out=out)
        return
    _show(table, with_steps=steps, out=out, run=run, language=spoken)


def _show(table: RankTable, *, with_steps: bool, out: Path | None, run: str, language: str) -> None:
    from unified_profiler.cli.rank_series import emphasis_of_ranks, with_sparklines
    from unified_profiler.cli.sparklines import room_for_sparklines
    from unified_profiler.cli.terminal import console_on

    room = 0 if out is not None else room_for_sparklines(console_on(None))
    result = replace(table if with_steps else with_sparklines(table, room), footer=_sentences(table, language))
    next_line = next_command("steps", "steps", run, language=language) if len(result) else None
    emphasis = emphasis_of_ranks(table, result.table)
    show(result, Format.TABLE, out=out, most_rows=None, language=language, next_line=next_line, emphasis=emphasis)


def _rank_table(path: str, engine: Engine, language: str) -> RankTable:
    from unified_profiler.analysis import rank_table
    from unified_profiler.delivery.run_writer import save_clocks

    run = read_named(path, engine=engine, language=language)
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
