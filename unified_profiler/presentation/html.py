"""Tables and lines as notebooks show them, in which no text is taken for HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from unified_profiler.presentation.text import one_line

LONGEST_TEXT = 200
"""Characters of a cell, which browsers fold; the rest is cut."""


def html_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[bool] = (), caption: str = ""
) -> str:
    """Return a table.

    Args:
        headings: Of the columns.
        rows: As many texts each.
        left: Which of the columns begin at the left, as text does; none if not given.
        caption: What stands above it.
    """
    aligns = [_align(is_left) for is_left in left or [False] * len(headings)]
    head = _cells("th", headings, aligns)
    body = "".join(f"<tr>{_cells('td', row, aligns)}</tr>" for row in rows)
    above = f'<caption style="text-align:left">{_shown(caption)}</caption>' if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_paragraphs(lines: Iterable[str]) -> str:
    """Return lines, each a paragraph."""
    return "".join(f"<p>{_shown(line)}</p>" for line in lines)


def _align(left: bool) -> str:
    return f' style="text-align:{"left" if left else "right"}"'


def _cells(tag: str, texts: Sequence[str], aligns: Sequence[str]) -> str:
    return "".join(f"<{tag}{align}>{_shown(text)}</{tag}>" for text, align in zip(texts, aligns, strict=True))


def _shown(text: str) -> str:
    line = one_line(text)
    return escape(line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 3]}...")
