"""Fits tables and lines to the width of a terminal. Columns of numbers are shown whole or dropped, names are shortened.

Widths are in terminal cells, of which a Chinese character takes two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from unified_profiler.presentation.tables import Column

GAP = 2
"""Cells between columns."""
_MIN_WIDTHS = (24, 12)
"""Minimum width of long text: in the first text column, which usually is the name, and in states; and in others."""
_LONGEST_WORD = 15
"""Words of headings up to this width are not broken: Synchronization."""
_BREAK = re.compile(r"(?<!/) (?!/)")
"""Where headings may be broken, but not within `B / A`."""
_WIDE = "\u2e80-\u9fff\uff00-\uffef"
_OPENING, _CLOSING = "\uff08\u201c", "\u3001\uff0c\u3002\uff1a\uff1b\uff09\u201d\uff01\uff1f"
_PIECE = re.compile(rf"\s*[{_OPENING}]*(?:\d[\d.,]* (?:us|ms|s|B|KiB|MiB|GiB)\b|[{_WIDE}]|[^\s{_WIDE}]+)[{_CLOSING}]*")
"""A word, a number with its unit, or a Chinese character, with punctuation: lines are broken between these."""
_NUMBERS_AS_TEXT = frozenset(
    {"started", "steps", "change_share", "interval", "baseline", "candidate", "step_count", "run_count"}
)
"""Columns of texts that are numbers or dates: they are not shortened."""
_LESS_IMPORTANT = (
    "started",
    *("cpu_share", "self_device_share", "device_average_ns", "cpu_average_ns", "self_device_bytes", "self_cpu_bytes"),
    *("min_ns", "mean_ns", "device_ns", "device_bytes", "cpu_bytes", "flops", "cpu_ns", "max_ns", "total_ns"),
)
"""Measures of our own tables in the order in which they are dropped, the most redundant first."""


@dataclass(frozen=True)
class FittedColumn:
    """A column and its width."""

    column: Column
    width: int


@dataclass(frozen=True)
class Fit:
    """The columns shown in a terminal, and the dropped ones."""

    shown: tuple[FittedColumn, ...]
    left_out: tuple[Column, ...]


def fit(columns: Sequence[Column], width: int, *, keep: str | None = None) -> Fit:
    """Select columns for a terminal, and distribute its width among them.

    Args:
        columns: The columns, in order.
        width: Width of the terminal.
        keep: The name of a column that must stay, such as the one that rows are sorted by.
    """
    minimums = [_min_width(column, index, _first_text(columns)) for index, column in enumerate(columns)]
    shown = list(range(len(columns)))
    order = _drop_order(columns, keep)
    for index in order:
        if sum(minimums[i] + GAP for i in shown) - GAP <= width:
            break
        pair = {index, *(i for i in order if columns[i].name == _other_side(columns[index].name))}
        shown = [i for i in shown if i not in pair]
    widths = _distribute([columns[i] for i in shown], [minimums[i] for i in shown], width)
    left_out = tuple(column for index, column in enumerate(columns) if index not in shown)
    return Fit(tuple(FittedColumn(columns[i], w) for i, w in zip(shown, widths, strict=True)), left_out)


def cut(text: str, width: int, *, mark: str) -> str:
    """Shorten a text in the middle, since names differ at both ends."""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(mark)
    if room <= 0:
        return set_cell_size(text, width)
    tail_room = room // 3
    # no more characters than cells are needed, so the others are not measured
    tail = set_cell_size(text[-tail_room:][::-1], tail_room)[::-1].strip() if tail_room else ""
    return set_cell_size(text[:room], room - cell_len(tail)).rstrip() + mark + tail


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text that is broken between words, and anywhere between Chinese characters."""
    line = ""
    for match in _PIECE.finditer(text):
        piece = match[0] if line else match[0].lstrip()
        if line and cell_len(line) + cell_len(piece) > width:
            yield line
            line = piece.lstrip()
        else:
            line += piece
    yield line


def _first_text(columns: Sequence[Column], otherwise: str | None = None) -> int:
    texts = (index for index, column in enumerate(columns) if column.is_text)
    named = (index for index, column in enumerate(columns) if column.name == otherwise)
    return next(texts, next(named, 0))


def _min_width(column: Column, index: int, first_text: int) -> int:
    """Return the minimum width: headings may be wrapped between words, and text is shortened."""
    cells = max(map(cell_len, column.cells), default=1) or 1
    words = max(map(cell_len, _BREAK.split(column.heading)), default=0)
    if not column.is_text or column.name in _NUMBERS_AS_TEXT:
        return max(cells, min(words, _LONGEST_WORD))
    return min(max(cells, words), _MIN_WIDTHS[0 if index == first_text or column.name == "state" else 1])


def _drop_order(columns: Sequence[Column], keep: str | None) -> list[int]:
    """Return the columns that may be dropped, the least useful first: empty, redundant, on the right."""
    anchor = _first_text(columns, keep)

    def importance(index: int) -> tuple[bool, int, int]:
        column = columns[index]
        order = _LESS_IMPORTANT.index(column.name) if column.name in _LESS_IMPORTANT else len(_LESS_IMPORTANT)
        return not column.is_blank, order, -index

    droppable = [index for index, column in enumerate(columns) if index != anchor and column.name != keep]
    return sorted(droppable, key=importance)


def _other_side(name: str) -> str | None:
    """Return the column with the same measure of the other side of a comparison, if this one is of a side."""
    for side, other in (("baseline", "candidate"), ("candidate", "baseline")):
        if name.startswith(side):
            return name.replace(side, other, 1)
    return None


def _distribute(columns: Sequence[Column], minimums: Sequence[int], width: int) -> list[int]:
    """Give the remaining width to texts first, then to headings, from left to right."""
    widths = list(minimums)
    spare = width - sum(each + GAP for each in minimums) + GAP
    for index in sorted(range(len(columns)), key=lambda index: not columns[index].is_text):
        widest = max(map(cell_len, (columns[index].heading, *columns[index].cells)))
        more = max(0, min(widest - widths[index], spare))
        widths[index] += more
        spare -= more
    return [min(each, width) for each in widths]
