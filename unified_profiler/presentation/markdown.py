"""Escapes any text for GitHub-flavored Markdown, so that it cannot act as markup or HTML or break a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from unified_profiler.presentation.tables import one_line
from unified_profiler.presentation.texts import shortened

LONGEST = 1000
"""Longest text in characters; the rest is cut."""
WIDEST_CELL = 200
"""Longest cell of a table, in characters."""

# Entities for characters whose backslash escape some Markdown renderers do not support.
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"})
_MARKUP = re.compile(r"[\\`*\[~$]|(?<![^\W_])_|_(?![^\W_])")  # underscores within words are not markup
_LINKS = ((re.compile(r"://"), ":&#47;&#47;"), (re.compile(r"(www)\.", re.IGNORECASE), r"\1&#46;"))
_LINE_START = re.compile(r"^(\d*(?=[.)](?:\s|$))|(?=[#=])|(?=[+-](?:[\s-]|$)))")  # lists, headings, rules

_HEADING_END = re.compile(r"(?<=\s)#+$")  # would close the heading that the text is in


def escaped(text: str, *, most: int = LONGEST) -> str:
    """Return Markdown that shows at most `most` characters of a text literally, on one line."""
    line = shortened(one_line(text[: most + 1]), most).strip()
    line = _MARKUP.sub(r"\\\g<0>", line.translate(_ENTITIES))
    for pattern, replacement in _LINKS:
        line = pattern.sub(replacement, line)
    line = _HEADING_END.sub(lambda match: r"\#" * len(match[0]), line)
    return _LINE_START.sub(r"\1\\", line)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right_aligned: Sequence[bool] = ()) -> str:
    """Return a table.

    Args:
        headings: Headings of the columns, escaped here.
        rows: Cells of each row, escaped here.
        right_aligned: Whether each column is right-aligned; columns beyond its length are not.
    """
    rules = ["--:" if right else ":--" for right in right_aligned]
    rules += [":--"] * (len(headings) - len(rules))
    return "\n".join([_row(headings), f"|{'|'.join(rules)}|", *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escaped(cell, most=WIDEST_CELL) for cell in cells)} |"
