"""Any text as GitHub-flavoured Markdown that shows it and does nothing else: no markup, no HTML, no broken tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from unified_profiler.presentation.tables import one_line
from unified_profiler.presentation.texts import shortened

LONGEST = 1000
"""Characters of a text; what is longer is cut."""
WIDEST_CELL = 200
"""Characters of a cell of a table."""

# Where not every program that shows Markdown knows an escape, an entity stands for the character.
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"})
_MARKUP = re.compile(r"[\\`*\[~$]|(?<![^\W_])_|_(?![^\W_])")  # underscores within words mean nothing
_LINKS = ((re.compile(r"://"), ":&#47;&#47;"), (re.compile(r"(www)\.", re.IGNORECASE), r"\1&#46;"))
_AT_THE_START = re.compile(r"^(\d*(?=[.)](?:\s|$))|(?=[#=])|(?=[+-](?:[\s-]|$)))")  # lists, headings, rules


def escaped(text: str, *, most: int = LONGEST) -> str:
    """Return a text as one line of Markdown that reads as the text itself, at the start of a line as well.

    Args:
        text: Anything.
        most: How many characters of it are shown.
    """
    line = shortened(one_line(text[: most + 1]), most).strip()
    line = _MARKUP.sub(r"\\\g<0>", line.translate(_ENTITIES))
    for pattern, replacement in _LINKS:
        line = pattern.sub(replacement, line)
    return _AT_THE_START.sub(r"\1\\", line)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right_aligned: Sequence[bool] = ()) -> str:
    """Return a table.

    Args:
        headings: Of the columns; escaped here, as the cells are.
        rows: As many cells each as there are headings.
        right_aligned: For each column whether it is; those that it does not reach are not.
    """
    rules = ["--:" if right else ":--" for right in right_aligned]
    rules += [":--"] * (len(headings) - len(rules))
    return "\n".join([_row(headings), f"|{'|'.join(rules)}|", *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(escaped(cell, most=WIDEST_CELL) for cell in cells)} |"
