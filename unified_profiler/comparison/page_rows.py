"""Prepares the lines of the table and the bars of the chart on a diff page, without their labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from unified_profiler.comparison.groupings import groupings
from unified_profiler.comparison.records import DiffRecord, DiffRow, Measured
from unified_profiler.comparison.text import SideName

MOST_ROWS = 2000
"""With more rows the page would be slow to open."""
MOST_BARS = 12
_CONTRIBUTIONS = 3


@dataclass(frozen=True)
class TableLine:
    """A row of the table."""

    row: DiffRow
    depth: int = 0
    folds: bool = False
    """Whether there are rows below it."""

    @property
    def only(self) -> SideName | None:
        """The only side that has the row, or None if both have it."""
        if self.row.baseline is None:
            return "candidate"
        return "baseline" if self.row.candidate is None else None

    @property
    def longest_ns(self) -> float:
        """The time that the spreads of both sides are scaled by."""
        return max((measured.high_ns for measured in self._measured), default=0) or 1

    @property
    def has_flops(self) -> bool:
        """Whether its floating-point operations are known."""
        return any(measured.flops_per_s is not None for measured in self._measured)

    @property
    def has_means(self) -> bool:
        """Whether the mean time of its calls is known."""
        return any(measured.mean_ns is not None for measured in self._measured)

    @property
    def _measured(self) -> list[Measured]:
        return [measured for measured in (self.row.baseline, self.row.candidate) if measured is not None]


@dataclass(frozen=True)
class Bar:
    """A bar of the chart; start and width are shares of the chart's width."""

    rows: tuple[DiffRow, ...]
    """The row, or the rows whose differences it sums up."""
    start: float = 0.0
    width: float = 0.0

    @property
    def difference_ns(self) -> float:
        """The sum of the differences."""
        return sum(row.difference_ns for row in self.rows)

    @property
    def share(self) -> float:
        """The share of all differences."""
        return sum(row.difference_share or 0.0 for row in self.rows)

    @property
    def differs(self) -> bool:
        """Whether any of the rows differs."""
        return any(row.differs for row in self.rows)

    @property
    def zero(self) -> float:
        """The position of zero difference."""
        return self.start if self.difference_ns > 0 else self.start + self.width


def lines_of(rows: Sequence[DiffRow]) -> tuple[list[TableLine], int]:
    """Return the rows that are shown, each before its parts, and the number of omitted rows."""
    kept = _kept(rows)
    return list(_lines(rows, 0, kept)), _count(rows) - len(kept)


def _kept(rows: Sequence[DiffRow]) -> set[int]:
    """Return the ids of the rows that are shown: outer rows first, at each depth the largest differences."""
    kept: set[int] = set()
    layer: list[DiffRow] = list(rows)
    while layer and len(kept) < MOST_ROWS:
        layer = sorted(layer, key=_by_size)[: MOST_ROWS - len(kept)]
        kept.update(map(id, layer))
        layer = [inner for row in layer for inner in row.rows]
    return kept


def _by_size(row: DiffRow) -> tuple[bool, float]:
    """Return the sort key of a row: rows that differ first, then by the size of the difference."""
    return not row.differs, -abs(row.difference_ns)


def _count(rows: Sequence[DiffRow]) -> int:
    return len(rows) + sum(_count(row.rows) for row in rows)


def _lines(rows: Sequence[DiffRow], depth: int, kept: set[int]) -> Iterator[TableLine]:
    for row in rows:
        if id(row) in kept:
            yield TableLine(row, depth, any(id(inner) in kept for inner in row.rows))
            yield from _lines(row.rows, depth + 1, kept)


def bars_of(rows: Sequence[DiffRow]) -> list[Bar]:
    """Return bars from the largest increase to the largest decrease; the last one sums up the small differences."""
    ordered = sorted((row for row in rows if row.difference_ns), key=lambda row: -abs(row.difference_ns))
    small = ordered[MOST_BARS:] if len(ordered) > MOST_BARS + 1 else []
    large = sorted(ordered[: len(ordered) - len(small)], key=lambda row: -row.difference_ns)
    bars = [Bar((row,)) for row in large] + ([Bar(tuple(small))] if small else [])
    lowest = min((0.0, *(bar.difference_ns for bar in bars)))
    width = max((0.0, *(bar.difference_ns for bar in bars))) - lowest or 1.0
    return [
        replace(bar, start=(min(bar.difference_ns, 0.0) - lowest) / width, width=abs(bar.difference_ns) / width)
        for bar in bars
    ]


def largest_differences(diff: DiffRecord) -> list[DiffRow]:
    """Return the rows that contribute most to the difference, in either direction."""
    rows = [row for group in diff.rows for row in group.rows] if is_grouped(diff) else diff.rows
    return sorted((row for row in rows if row.differs), key=_by_size)[:_CONTRIBUTIONS]


def is_grouped(diff: DiffRecord) -> bool:
    """Return whether the outermost rows are groups."""
    return groupings(across_frameworks=diff.across_frameworks)[diff.by].is_canonical
