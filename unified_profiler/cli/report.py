"""`unified-profiler report`: writes a report for people, or the directory of the TensorFlow Models Profiler."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.output import JsonOption, format_of, near, open_page
from unified_profiler.cli.traces import DEFAULT_RUN, CycleOption, RankOption, RunPath, read_selected, working
from unified_profiler.errors import ConfigurationError

if TYPE_CHECKING:
    from unified_profiler.model.run import Run


class ReportFormat(str, Enum):
    """Output format of a report."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"


class Layout(str, Enum):
    """One file, or a directory of files."""

    SINGLE = "single"
    MODELS = "models"


_FILES = {ReportFormat.HTML: "report.html", ReportFormat.MARKDOWN: "summary.md", ReportFormat.JSON: "summary.json"}


def report(
    run: RunPath = DEFAULT_RUN,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File or directory to write.",
            show_default="in the run directory, else here",
        ),
    ] = None,
    form: Annotated[
        ReportFormat | None,
        typer.Option("--format", help="Output format.", show_default="by the suffix of -o, else html"),
    ] = None,
    as_json: JsonOption = False,
    layout: Annotated[
        Layout, typer.Option(help="One file, or a directory in the layout of the TensorFlow Models Profiler.")
    ] = Layout.SINGLE,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    language: LanguageOption = None,
    rank: RankOption = None,
    cycle: CycleOption = None,
) -> None:
    """Write a report: time of a step by category, operators, call tree, timeline, memory and hardware.

    The HTML page is one file that needs no network. With `--layout models` the report is a directory with `timeline/`,
    `step_stats/`, `summary.json` and `summary.md`.

    Examples:
      unified-profiler report profile --open
      unified-profiler report profile -o report.html --language zh
      unified-profiler report profile --format md
      unified-profiler report profile --layout models -o profile-models
    """
    if layout is Layout.MODELS:
        _check_models(form=form, as_json=as_json, open_it=open_it)
        chosen = ReportFormat.HTML
    else:
        chosen = format_of(form, out, default=ReportFormat.HTML, as_json=as_json)
    if open_it and chosen is not ReportFormat.HTML:
        msg = f"--open shows an HTML page, but the report is written as {chosen.value}. Leave one of the two out."
        raise ConfigurationError(msg)
    spoken = language_of(language)
    with working("reading", language=spoken):
        selected = read_selected(run, rank=rank, cycle=cycle, one_clock=True, language=spoken)
    target = out or (selected.path or Path()) / ("models" if layout is Layout.MODELS else _FILES[chosen])
    with working("writing", language=spoken, file=str(target)):
        if layout is Layout.MODELS:
            from unified_profiler.export import write_models_layout

            write_models_layout(selected, target)
        else:
            _write(selected, target, chosen, language=spoken)
    typer.echo(str(near(target, Path.cwd())))
    if chosen is ReportFormat.HTML and layout is Layout.SINGLE and not open_it:
        to_file = () if out is None else ("-o", str(out))
        typer.echo(next_command("report", "report", run, *to_file, "--open", language=spoken), err=True)
    if open_it:
        open_page(target, language=spoken)


def _check_models(*, form: ReportFormat | None, as_json: bool, open_it: bool) -> None:
    for given, option in ((form is not None, "--format"), (as_json, "--json"), (open_it, "--open")):
        if given:
            msg = f"--layout models writes a directory of its own files, so {option} has no effect. Leave it out."
            raise ConfigurationError(msg)


def _write(run: Run, target: Path, form: ReportFormat, *, language: str) -> None:
    from unified_profiler.export import writing_to
    from unified_profiler.report.page import write_page
    from unified_profiler.report.summary import write_json, write_markdown

    with writing_to(target):
        if form is ReportFormat.JSON:
            write_json(run, target)
        elif form is ReportFormat.MARKDOWN:
            write_markdown(run, target, language=language)
        else:
            write_page(run, target, language=language)
