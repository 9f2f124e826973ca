"""`unified-profiler diff`: compares two runs."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.cli.completion import diff_groupings
from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.op_map import OpMapOption, mapped
from unified_profiler.cli.output import (
    JsonOption,
    OutputOption,
    format_of,
    open_page,
    show_lines,
    show_table,
    write_or_print,
)
from unified_profiler.cli.traces import CycleOption, RankOption, read_selected, working
from unified_profiler.errors import ConfigurationError

if TYPE_CHECKING:
    from unified_profiler.comparison import Diff

MOST_ROWS = 60


class DiffFormat(str, Enum):
    """Output format of a comparison."""

    TABLE = "table"
    MARKDOWN = "md"
    JSON = "json"
    HTML = "html"


def diff(
    baseline: Annotated[
        Path, typer.Argument(metavar="BASELINE", help="A run directory, a directory of runs, or a file with a trace.")
    ],
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="The run to compare with it.")],
    *,
    by: Annotated[
        str | None,
        typer.Option(
            autocompletion=diff_groupings,
            help="Group rows by origin, op, name, region, module or api.",
            show_default="origin across frameworks, else name",
        ),
    ] = None,
    threshold: Annotated[str, typer.Option(help="Smallest difference that is marked.")] = "5%",
    form: Annotated[
        DiffFormat | None,
        typer.Option("--format", help="Output format.", show_default="by the suffix of -o, else table"),
    ] = None,
    as_json: JsonOption = False,
    out: OutputOption = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    row_limit: Annotated[int, typer.Option(min=0, help="Maximum number of printed rows; 0 for all.")] = MOST_ROWS,
    op_map: OpMapOption = None,
    rank: RankOption = None,
    cycle: CycleOption = None,
    language: LanguageOption = None,
) -> None:
    """Compare two runs of one framework, or runs of the same model in two frameworks.

    Runs of different frameworks are compared by the operator or layer that caused the work, runs of one framework by
    operator name. Rows without a counterpart are listed as well.

    Examples:
      unified-profiler diff torch_run mindspore_run
      unified-profiler diff before after --threshold 10%
      unified-profiler diff before after --by region --format json
      unified-profiler diff torch_run tensorflow_run -o diff.html --open
    """
    from unified_profiler.comparison import diff as compare

    chosen = format_of(form, out, default=DiffFormat.TABLE, as_json=as_json)
    if open_it and (chosen is not DiffFormat.HTML or out is None):
        msg = "--open needs a page to show: give -o with a file name that ends in .html as well."
        raise ConfigurationError(msg)
    spoken = language_of(language)
    with working("comparing", language=spoken):
        runs = (read_selected(path, rank=rank, cycle=cycle, language=spoken) for path in (baseline, candidate))
        sides = [mapped(run, op_map) for run in runs]
        comparison = _named(compare(*sides, by=by, threshold=threshold), baseline, candidate)
    if chosen is DiffFormat.TABLE and out is None:
        _print(comparison, row_limit or None, spoken)
        page = ("-o", "diff.html", "--open")
        show_lines([next_command("page", "diff", str(baseline), str(candidate), *page, language=spoken)])
        return
    write_or_print(_text(comparison, chosen, spoken), out)
    if open_it and out is not None:
        open_page(out, language=spoken)


def _named(comparison: Diff, baseline: Path, candidate: Path) -> Diff:
    """Name the sides as on the command line."""
    paths = {"baseline": baseline, "candidate": candidate}
    return comparison.model_copy(
        update={side: getattr(comparison, side).model_copy(update={"name": str(path)}) for side, path in paths.items()}
    )


def _text(comparison: Diff, form: DiffFormat, language: str) -> str:
    from unified_profiler.comparison.markdown import markdown
    from unified_profiler.comparison.page import page
    from unified_profiler.comparison.text import as_text

    if form is DiffFormat.JSON:
        return comparison.model_dump_json(indent=2) + "\n"
    if form is DiffFormat.HTML:
        return page(comparison, language=language)
    if form is DiffFormat.MARKDOWN:
        return markdown(comparison, language=language)
    return as_text(comparison, language=language) + "\n"


def _print(comparison: Diff, most_rows: int | None, language: str) -> None:
    from unified_profiler.comparison.text import introduction, remarks, table_of

    show_lines([*introduction(comparison, language=language), "", *remarks(comparison, language=language)])
    show_table(table_of(comparison, language=language), most_rows=most_rows, language=language)
