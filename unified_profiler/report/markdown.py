"""Renders the summary of a run as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from unified_profiler.presentation.markdown import escaped, table
from unified_profiler.presentation.texts import texts
from unified_profiler.report.records import SummaryRecord
from unified_profiler.report.sections import Sections


def markdown(summary: SummaryRecord, *, language: str = "en") -> str:
    """Return a summary as GitHub-flavored Markdown."""
    return "\n\n".join(_blocks(Sections(summary, language=language), colon=texts(language)["ui.colon"])) + "\n"


def _blocks(sections: Sections, *, colon: str) -> Iterator[str]:
    yield f"# {escaped(sections.title)}"
    yield "\n".join(f"- {heading}{colon}{escaped(fact)}" for heading, fact in sections.facts().items())
    for notice in sections.notices():
        yield f"> **{notice.label}** {escaped(notice.text)}"
    if findings := sections.findings():
        yield "\n".join(f"- {escaped(sentence)}" for sentence in findings)
    for section in sections.tables():
        yield f"## {section.title}"
        yield table(section.headings, section.rows, right_aligned=section.right_aligned)
        if section.more:
            yield section.more
