"""`unified-profiler steps`: breaks down the time of each step of a run."""

from __future__ import annotations

from dataclasses import replace

from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.output import Format, FormatOption, JsonOption, OutputOption, format_of, show
from unified_profiler.cli.traces import DEFAULT_RUN, CycleOption, RankOption, RunPath, read_selected, working


def steps(
    run: RunPath = DEFAULT_RUN,
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    engine: EngineOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    out: OutputOption = None,
    language: LanguageOption = None,
) -> None:
    """Print the time of each recorded step in operators, collectives, copies, none of these, and regions.

    Below it, how the time of a step develops: the median, the slowest step, and in a terminal a sparkline.

    Examples:
      unified-profiler steps profile
      unified-profiler steps profile --rank 0 --json
    """
    chosen = format_of(form, out, default=Format.TABLE, as_json=as_json)
    from unified_profiler.analysis import step_breakdown

    spoken = language_of(language)
    with working("adding", language=spoken):
        query_engine = engine_of(engine)
        selected = read_selected(run, rank=rank, cycle=cycle, engine=query_engine, language=spoken)
        result = step_breakdown(selected, engine=query_engine)
    if not len(result) or chosen is not Format.TABLE:
        show(result, chosen, out=out, language=spoken)
        return
    from unified_profiler.cli.step_series import emphasis_of_steps, lines_on_steps
    from unified_profiler.cli.terminal import console_on

    emphasis = emphasis_of_steps(result.table)
    lines = lines_on_steps(result.table, emphasis, console_on(None) if out is None else None, language=spoken)
    next_line = next_command("operators", "table", run, language=spoken)
    result = replace(result, footer=tuple(lines))
    show(result, chosen, out=out, language=spoken, next_line=next_line, emphasis=emphasis)
