"""`unified-profiler critical-path`: prints what determines the time of a step, and predicts what changes would save."""

from __future__ import annotations

import shlex
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.cli.engine import EngineOption, engine_of
from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.output import Format, FormatOption, JsonOption, OutputOption, format_of, show
from unified_profiler.cli.traces import DEFAULT_RUN, CycleOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError

if TYPE_CHECKING:
    from unified_profiler.analysis import Result
    from unified_profiler.analysis.critical_path import CriticalPath, WhatIf
    from unified_profiler.engine import Engine
    from unified_profiler.model.run import Run

_SEGMENTS = {
    "rank": "Rank",
    "step": "Step",
    "start_ns": "Start",
    "after_ns": "After",
    "duration_ns": "Duration",
    "kind": "Kind",
    "name": "Name",
    "lane": "Lane",
    "device": "Device",
    "stream": "Stream",
}


def critical_path(
    run: RunPath = DEFAULT_RUN,
    *,
    step: Annotated[int | None, typer.Option("--step", min=0, help="Only this step.")] = None,
    rank: Annotated[
        int | None,
        typer.Option("--rank", min=0, help="The rank on which paths end.", show_default="the last in each step"),
    ] = None,
    cycle: CycleOption = None,
    path: Annotated[
        bool, typer.Option("--path", help="Show the segments of the path in order instead of their sums.")
    ] = False,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="NAME=FACTOR",
            help="Predict step times if the time of this changed by a factor: aten::conv2d=0.5, data=0; repeatable.",
        ),
    ] = None,
    row_limit: Annotated[int, typer.Option(min=0, help="Maximum number of rows; 0 for all.")] = 20,
    engine: EngineOption = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
    out: OutputOption = None,
    language: LanguageOption = None,
) -> None:
    """Print what would have to be faster for steps to be faster.

    The critical path of a step is the chain of operators, kernels, gaps and waits, over all threads, streams and ranks,
    that determines its time. With --what-if, print the predicted times of steps in which something takes more or less
    time; a name is that of an operator, region or kernel, a pattern such as aten::*, a canonical operator, a category,
    or a kind of segment: gap, data, launch, collective, copy.

    Examples:
      unified-profiler critical-path profile
      unified-profiler critical-path profile --step 12 --path
      unified-profiler critical-path --what-if aten::conv2d=0.5 --what-if data=0
    """
    changes = _changes(what_if or [])
    if changes and (path or rank is not None):
        msg = f"--what-if and {'--path' if path else '--rank'} cannot be combined: leave one out."
        raise ConfigurationError(msg)
    chosen = format_of(form, out, default=Format.TABLE, as_json=as_json)
    spoken = language_of(language)
    with working("following", language=spoken):
        query_engine = engine_of(engine)
        source = read_selected(run, cycle=cycle, engine=query_engine, language=spoken)
        result: Result
        if changes:
            result = _predicted(source, changes, step=step, engine=query_engine, language=spoken)
        else:
            whole = _path(source, step=step, rank=rank, engine=query_engine)
            result = _segments(whole, since_start=chosen is Format.TABLE) if path else _sums(whole, run, spoken)
            result = _without_repeated_names(result) if chosen is Format.TABLE else result
    show(result, chosen, out=out, most_rows=None, row_limit=row_limit, language=spoken)


def _changes(texts: list[str]) -> dict[str, float]:
    changes = {}
    for text in texts:
        name, _, factor = text.rpartition("=")
        try:
            changes[name] = float(factor)
        except ValueError:
            name = ""
        if not name:
            msg = f"`--what-if` must be a name and a factor such as aten::conv2d=0.5; found {text!r}."
            raise ConfigurationError(msg)
    return changes


def _path(source: Run, *, step: int | None, rank: int | None, engine: Engine) -> CriticalPath:
    from unified_profiler.analysis.critical_path import critical_path

    return critical_path(source, step=step, rank=rank, engine=engine)


def _predicted(source: Run, changes: dict[str, float], *, step: int | None, engine: Engine, language: str) -> WhatIf:
    from unified_profiler.analysis.critical_path import what_if
    from unified_profiler.presentation.texts import render_statement

    result = what_if(source, changes, step=step, engine=engine)
    verdict, assumptions = (
        [render_statement("what_if", each, language=language) for each in statements]
        for statements in (result.verdict, result.assumptions)
    )
    return replace(result, footer=(*verdict, *(f"- {assumption}" for assumption in assumptions)))


def _segments(result: CriticalPath, *, since_start: bool) -> Result:
    """Return the segments; with the time since the start of the path instead of that since the epoch, for people."""
    import pyarrow.compute as pc

    from unified_profiler.analysis import Result

    table = result.table
    if since_start and len(table):
        starts = table.column("start_ns")
        offsets = pc.subtract(starts, pc.min(starts))
        table = table.set_column(table.schema.get_field_index("start_ns"), "after_ns", offsets)
    names = [name for name in _SEGMENTS if name in table.column_names and table.column(name).null_count < len(table)]
    return Result(table=table, headings={name: _SEGMENTS[name] for name in names})


def _without_repeated_names(result: Result) -> Result:
    """Return the result without the names that only repeat the kind, such as `gap`."""
    kinds, names = (result.table.column(name).to_pylist() for name in ("kind", "name"))
    own = ["" if name == kind else name for kind, name in zip(kinds, names, strict=True)]
    index = result.table.column_names.index("name")
    return replace(result, table=result.table.set_column(index, "name", [own]))


def _sums(result: CriticalPath, run: str, language: str) -> Result:
    """Return the contributions with two lines below: the path by kind, and the command that predicts a change."""
    from unified_profiler.presentation.texts import render_text, texts

    sums = result.contributions
    shares: dict[str, float] = defaultdict(float)
    for row in sums.rows:
        shares[row.kind] += row.path_share or 0.0
    if not shares:
        return replace(sums, footer=(render_text("critical_path.empty", {}, language=language),))
    known = texts(language)
    kinds = known["ui.list_separator"].join(
        f"{known.get(f'kind.{kind}', kind)} {share:.1%}"
        for kind, share in sorted(shares.items(), key=lambda item: -item[1])
    )
    change = shlex.quote(f"{sums.rows[0].name}=0.5")
    command = f"unified-profiler critical-path {shlex.quote(run)} --what-if {change}"
    lines = (("kinds", {"kinds": kinds}), ("next", {"command": command}))
    return replace(sums, footer=tuple(render_text(f"critical_path.{key}", v, language=language) for key, v in lines))
