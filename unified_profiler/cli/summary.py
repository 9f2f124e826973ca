"""`unified-profiler summary`: prints an overview of a run."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from unified_profiler.cli.language import LanguageOption, language_of
from unified_profiler.cli.next_command import next_command
from unified_profiler.cli.output import (
    DocumentFormat,
    DocumentFormatOption,
    JsonOption,
    OutputOption,
    format_of,
    write_or_print,
)
from unified_profiler.cli.traces import DEFAULT_RUN, CycleOption, RankOption, RunPath, read_selected, working

if TYPE_CHECKING:
    from rich.console import Console

    from unified_profiler.report.sections import Section, Sections

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def summary(
    run: RunPath = DEFAULT_RUN,
    *,
    rank: RankOption = None,
    cycle: CycleOption = None,
    form: DocumentFormatOption = None,
    as_json: JsonOption = False,
    out: OutputOption = None,
    language: LanguageOption = None,
) -> None:
    """Print an overview of a run: environment, time of a step by category, top operators, and problems.

    JSON is the content of summary.json.

    Examples:
      unified-profiler summary profile
      unified-profiler summary profile --rank 0 --json
      unified-profiler summary kineto.pt.trace.json --language zh
    """
    chosen = format_of(form, out, default=DocumentFormat.TABLE, as_json=as_json)
    from unified_profiler.report import summarize

    with working("Reading and summing up"):
        overview = summarize(read_selected(run, rank=rank, cycle=cycle))
    if chosen is DocumentFormat.JSON:
        write_or_print(overview.model_dump_json(indent=2) + "\n", out)
        return
    from rich.console import Console

    from unified_profiler.report.sections import Sections

    text = None if out is None else io.StringIO()
    console = Console(file=text, highlight=False, markup=False, emoji=False)
    spoken = language_of(language)
    _print(console, Sections(overview, language=spoken))
    console.print("\n" + next_command("report", "report", run, "--open", language=spoken), soft_wrap=True)
    if text is not None:
        write_or_print(text.getvalue(), out)


def _print(console: Console, sections: Sections) -> None:
    from rich.table import Table
    from rich.text import Text

    from unified_profiler.presentation.text import one_line

    console.print(Text(one_line(sections.title), style="bold"))
    facts = Table.grid(padding=(0, 2))
    for heading, fact in sections.facts().items():
        facts.add_row(Text(heading, style="dim"), Text(one_line(fact), overflow="fold"))
    console.print(facts)
    for notice in sections.notices():
        console.print()
        console.print(Text.assemble((f"{notice.label} ", _STYLES[notice.level]), one_line(notice.text)))
    findings = Table.grid(padding=(0, 1))
    for sentence in sections.findings():
        findings.add_row(Text("•", style="cyan"), Text(one_line(sentence)))
    console.print()
    console.print(findings)
    for section in sections.tables():
        _print_section(console, section)


def _print_section(console: Console, section: Section) -> None:
    from rich.text import Text

    from unified_profiler.cli.terminal import print_table
    from unified_profiler.presentation.tables import Column

    columns = [
        Column(name=heading, heading=heading, cells=cells, is_text=not right)
        for heading, cells, right in zip(
            section.headings, zip(*section.rows, strict=True), section.right_aligned, strict=True
        )
    ]
    console.print()
    console.print(Text(section.title, style="bold cyan"))
    print_table(console, columns, below=() if section.more is None else (section.more,))
