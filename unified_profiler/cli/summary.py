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

    spoken = language_of(language)
    with working("adding", language=spoken):
        overview = summarize(read_selected(run, rank=rank, cycle=cycle, language=spoken))
    if chosen is DocumentFormat.JSON:
        write_or_print(overview.model_dump_json(indent=2) + "\n", out)
        return
    from unified_profiler.cli.terminal import console_on, encodable, print_lines
    from unified_profiler.report.sections import Sections

    console = console_on(None if out is None else io.StringIO())
    with console.capture() as shown:
        _print(console, Sections(overview, language=spoken), spoken)
        print_lines(console, ["", next_command("report", "report", run, "--open", language=spoken)])
    lines = (encodable(line.rstrip(), console.encoding) for line in shown.get().splitlines())
    write_or_print("\n".join([*lines, ""]), out)


def _print(console: Console, sections: Sections, language: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from unified_profiler.cli.fitting import wrapped
    from unified_profiler.presentation.text import one_line
    from unified_profiler.presentation.texts import texts

    console.print(Text(one_line(sections.title), style="bold"))
    facts = Table.grid(padding=(0, 2))
    for heading, fact in sections.facts().items():
        facts.add_row(Text(heading, style="dim"), Text(one_line(fact), overflow="fold"))
    console.print(facts)
    for notice in sections.notices():
        space = texts(language)["ui.sentence_separator"]
        text = Text("\n".join(wrapped(f"{notice.label}{space}{one_line(notice.text)}", console.width)))
        text.stylize(_STYLES[notice.level], 0, len(notice.label))
        console.print()
        console.print(text)
    findings = Table.grid(padding=(0, 1))
    for sentence in sections.findings():
        findings.add_row(Text("•", style="cyan"), Text("\n".join(wrapped(one_line(sentence), console.width - 2))))
    if findings.row_count:
        console.print()
        console.print(findings)
    for section in sections.tables():
        _print_section(console, section, language)


def _print_section(console: Console, section: Section, language: str) -> None:
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
    print_table(console, columns, notes=() if section.more is None else (section.more,), language=language)
