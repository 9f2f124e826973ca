"""`unified-profiler runs`: lists the runs in a directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.cli.language import LanguageOption, Words, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.output import Format, FormatOption, JsonOption, OutputOption, format_of, show
from unified_profiler.cli.traces import DEFAULT_RUN, working

if TYPE_CHECKING:
    from unified_profiler.engine import Result


def runs(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory of runs.")] = Path(DEFAULT_RUN),
    *,
    row_limit: Annotated[int, typer.Option(min=0, help="Maximum number of rows; 0 for all.")] = 20,
    form: FormatOption = None,
    as_json: JsonOption = False,
    out: OutputOption = None,
    language: LanguageOption = None,
) -> None:
    """List the runs in a directory, the newest first.

    A mark shows which one other commands read if the directory is given: the newest with a trace.

    Examples:
      unified-profiler runs
      unified-profiler runs /data/profiles -o runs.csv
    """
    from unified_profiler.readers import run_table

    chosen = format_of(form, out, default=Format.TABLE, as_json=as_json)
    spoken = language_of(language)
    with working("reading", language=spoken):
        table = run_table(directory, row_limit=row_limit or None)
    following = next_command("summary", "summary", str(directory), language=spoken)
    if chosen is Format.TABLE:
        table = _for_people(table, Words("state", spoken))
    show(table, chosen, out=out, most_rows=None, language=spoken, next_line=following)


def _for_people(table: Result, words: Words) -> Result:
    """Return the runs with a mark and with their states in words; details such as errors stay as they are."""
    parts = (state.partition(": ") for state in table["state"])
    columns = {
        "state": [words(state) + colon + detail for state, colon, detail in parts],
        "default": ["*" if default else "" for default in table["default"]],
    }
    marked = table.table
    for name, values in columns.items():
        marked = marked.set_column(table.columns.index(name), name, [values])
    return replace(table, table=marked)
