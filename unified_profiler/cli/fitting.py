"""Which columns of a table fit a window, and how wide each is. Numbers are never cut: a column of them fits or goes.

Widths are cells of the terminal, of which a Chinese character takes two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from unified_profiler.presentation.tables import Column

GAP = 2
"""Cells between columns."""
_NARROWEST = (24, 12)
"""The least room for long text: in the first such column, which mostly is the name, and in others."""
_LESS_IMPORTANT = (
    *("cpu_share", "self_device_share", "device_average_ns", "cpu_average_ns", "self_device_bytes", "self_cpu_bytes"),
    *("min_ns", "mean_ns", "device_ns", "device_bytes", "cpu_bytes", "flops", "cpu_ns", "max_ns", "total_ns"),
)
"""Measures of our own tables, in the order in which they go: what others tell as well comes first."""


@dataclass(frozen=True)
class FittedColumn:
    """A column and its width."""

    column: Column
    width: int


@dataclass(frozen=True)
class Fit:
    """What is shown in a window."""

    shown: tuple[FittedColumn, ...]
    left_out: tuple[Column, ...]


def fit(columns: Sequence[Column], width: int, *, keep: str | None = None) -> Fit:
    """Choose columns for a window, and share its room out among them.

    Args:
        columns: The columns, in order.
        width: Of the window.
        keep: The name of a column that must not go, such as the one that rows are sorted by.
    """
    least = [_least(column, index, _first_text(columns)) for index, column in enumerate(columns)]
    shown = list(range(len(columns)))
    for index in _in_order_of_leaving(columns, keep):
        if sum(least[i] + GAP for i in shown) - GAP <= width:
            break
        shown.remove(index)
    widths = _share_out([columns[i] for i in shown], [least[i] for i in shown], width)
    left_out = tuple(column for index, column in enumerate(columns) if index not in shown)
    return Fit(tuple(FittedColumn(columns[i], w) for i, w in zip(shown, widths, strict=True)), left_out)


def cut(text: str, width: int, *, mark: str) -> str:
    """Cut the middle out of a text: names differ at both ends."""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(mark)
    if room <= 0:
        return set_cell_size(text, width)
    behind = room // 3
    # As many characters as cells are enough, and all others need not be measured.
    tail = set_cell_size(text[-behind:][::-1], behind)[::-1].strip() if behind else ""
    return set_cell_size(text[:room], room - cell_len(tail)).rstrip() + mark + tail


def _first_text(columns: Sequence[Column], otherwise: str | None = None) -> int:
    texts = (index for index, column in enumerate(columns) if column.is_text)
    named = (index for index, column in enumerate(columns) if column.name == otherwise)
    return next(texts, next(named, 0))


def _least(column: Column, index: int, first_text: int) -> int:
    """Return the narrowest width: headings may be folded between words, and text is cut."""
    cells = max(map(cell_len, column.cells), default=1) or 1
    words = max(map(cell_len, column.heading.split()), default=0)
    if not column.is_text:
        return max(cells, min(words, _NARROWEST[1]))
    return min(max(cells, words), _NARROWEST[0 if index == first_text else 1])


def _widest(column: Column) -> int:
    return max(map(cell_len, (column.heading, *column.cells)))


def _in_order_of_leaving(columns: Sequence[Column], keep: str | None) -> list[int]:
    """Return the columns that may go, those first that would be missed least: say nothing, say little, stand right."""
    anchor = _first_text(columns, keep)

    def importance(index: int) -> tuple[bool, int, int]:
        column = columns[index]
        known = _LESS_IMPORTANT.index(column.name) if column.name in _LESS_IMPORTANT else len(_LESS_IMPORTANT)
        return not column.is_blank, known, -index

    may_go = [index for index, column in enumerate(columns) if index != anchor and column.name != keep]
    return sorted(may_go, key=importance)


def _share_out(columns: Sequence[Column], least: Sequence[int], width: int) -> list[int]:
    """Give the room that is left to texts first, then to headings, from left to right."""
    widths = list(least)
    spare = width - sum(each + GAP for each in least) + GAP
    for index in sorted(range(len(columns)), key=lambda index: not columns[index].is_text):
        more = max(0, min(_widest(columns[index]) - widths[index], spare))
        widths[index] += more
        spare -= more
    return [min(each, width) for each in widths]
