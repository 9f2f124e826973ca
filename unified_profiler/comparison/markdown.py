"""Renders a diff as Markdown."""

from __future__ import annotations

from unified_profiler.comparison.records import DiffRecord
from unified_profiler.comparison.text import headlines, remarks, table_of, verdicts
from unified_profiler.presentation.markdown import escaped, table
from unified_profiler.presentation.tables import columns_of
from unified_profiler.presentation.texts import texts

_INDENT = "\u203a"
"""Marks the indentation of a row, since Markdown drops spaces at the start of a cell."""


def markdown(diff: DiffRecord, *, language: str = "en") -> str:
    """Return a diff as GitHub-flavored Markdown."""
    result = table_of(diff, language=language)
    columns = columns_of(result.table, headings=result.headings, most_rows=None)
    cells = [
        [_indented(cell) for cell in column.cells] if column.name == "name" else column.cells for column in columns
    ]
    rows = list(zip(*cells, strict=True))
    blocks = [f"# {texts(language)['diff.title']}"]
    blocks += [escaped(line) for line in verdicts(diff, language=language)]
    blocks += ["\n".join(f"- {escaped(line)}" for line in headlines(diff, language=language))]
    blocks += [f"> {escaped(line)}" for line in remarks(diff, language=language)]
    blocks += [table([column.heading for column in columns], rows, right_aligned=[not c.is_text for c in columns])]
    blocks += [escaped(line) for line in result.footer]
    return "\n\n".join(blocks) + "\n"


def _indented(text: str) -> str:
    plain = text.lstrip(" ")
    depth = (len(text) - len(plain)) // 2
    return f"{_INDENT * depth} {plain}" if depth else plain
