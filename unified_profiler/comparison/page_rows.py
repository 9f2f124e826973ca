"""Prepares the lines of the table and the bars of the chart on a diff page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unified_profiler.comparison.records import DiffRow, Measured
from unified_profiler.comparison.text import SideName, label
from unified_profiler.presentation.tables import one_line
from unified_profiler.presentation.texts import shortened

MOST_ROWS = 2000
"""With more rows the page would be slow to open."""
MOST_BARS = 12


@dataclass(frozen=True)
class TableLine:
    """A row of the table."""

    row: DiffRow
    depth: int
    label: str
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

    label: str
    difference_ns: float
    share: float
    differs: bool
    start: float
    width: float

    @property
    def zero(self) -> float:
        """The position of zero difference."""
        return self.start if self.difference_ns > 0 else self.start + self.width


def lines_of(rows: Sequence[DiffRow], known: dict[str, str]) -> tuple[list[TableLine], int]:
    """Return the rows that are shown, each before its parts, and the number of omitted rows."""
    kept = _kept(rows)
    return list(_lines(rows, 0, kept, known)), _count(rows) - len(kept)


def _kept(rows: Sequence[DiffRow]) -> set[int]:
    """Return the ids of the rows that are shown: outer rows first, at each depth the largest differences."""
    kept: set[int] = set()
    layer: list[DiffRow] = list(rows)
    while layer and len(kept) < MOST_ROWS:
        layer = sorted(layer, key=by_size)[: MOST_ROWS - len(kept)]
        kept.update(map(id, layer))
        layer = [inner for row in layer for inner in row.rows]
    return kept


def by_size(row: DiffRow) -> tuple[bool, float]:
    """Return the sort key of a row: rows that differ first, then by the size of the difference."""
    return not row.differs, -abs(row.difference_ns)


def _count(rows: Sequence[DiffRow]) -> int:
    return len(rows) + sum(_count(row.rows) for row in rows)


def _lines(rows: Sequence[DiffRow], depth: int, kept: set[int], known: dict[str, str]) -> Iterator[TableLine]:
    for row in rows:
        if id(row) in kept:
            yield TableLine(row, depth, shown_name(label(row, known)), any(id(inner) in kept for inner in row.rows))
            yield from _lines(row.rows, depth + 1, kept, known)


def bars_of(rows: Sequence[DiffRow], known: dict[str, str]) -> list[Bar]:
    """Return bars from the largest increase to the largest decrease; the last one sums up the small differences."""
    ordered = sorted((row for row in rows if row.difference_ns), key=lambda row: -abs(row.difference_ns))
    large = sorted(ordered[:MOST_BARS], key=lambda row: -row.difference_ns)
    bars = [(shown_name(label(row, known)), row.difference_ns, _share(row), row.differs) for row in large]
    if small := ordered[MOST_BARS:]:
        sums = sum(row.difference_ns for row in small), sum(map(_share, small))
        bars.append((known["diff.more"].format(more=len(small)), *sums, any(row.differs for row in small)))
    lowest = min((0.0, *(bar[1] for bar in bars)))
    width = max((0.0, *(bar[1] for bar in bars))) - lowest or 1.0
    return [Bar(*bar, start=(min(bar[1], 0.0) - lowest) / width, width=abs(bar[1]) / width) for bar in bars]


def _share(row: DiffRow) -> float:
    return row.difference_share or 0.0


def shown_name(text: str) -> str:
    """Return a name shortened to one line."""
    return shortened(one_line(text))
