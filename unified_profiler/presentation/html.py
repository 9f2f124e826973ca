"""Renders tables and paragraphs as HTML for notebooks, with all text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from unified_profiler.presentation.text import one_line

LONGEST_CELL, LONGEST_PARAGRAPH = 200, 1000
"""Longest texts in characters; the rest is cut."""


def html_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[bool] = (), caption: str = ""
) -> str:
    """Return a table.

    Args:
        headings: Headings of the columns.
        rows: Cells of each row.
        left: Whether each column is left-aligned, as text is; by default none is.
        caption: Caption above the table.
    """
    sides = ["left" if is_left else "right" for is_left in left or [False] * len(headings)]
    aligns = [f' style="text-align:{side}"' for side in sides]
    head = _cells("th", headings, aligns)
    body = "".join(f"<tr>{_cells('td', row, aligns)}</tr>" for row in rows)
    above = f'<caption style="text-align:left">{_escape(caption, LONGEST_CELL)}</caption>' if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_paragraphs(lines: Iterable[str]) -> str:
    """Return each line as a paragraph."""
    return "".join(f"<p>{_escape(line, LONGEST_PARAGRAPH)}</p>" for line in lines)


def _cells(tag: str, texts: Sequence[str], aligns: Sequence[str]) -> str:
    cells = (_escape(text, LONGEST_CELL) for text in texts)
    return "".join(f"<{tag}{align}>{cell}</{tag}>" for cell, align in zip(cells, aligns, strict=True))


def _escape(text: str, longest: int) -> str:
    line = one_line(text)
    return escape(line if len(line) <= longest else f"{line[: longest - 3]}...")
