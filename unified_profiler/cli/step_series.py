"""Finds what stands out in the steps of a run: slow steps, large parts, and how the wall times of each rank develop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from unified_profiler.cli.sparklines import Floats, room_for_sparklines, sparklines
from unified_profiler.model.nesting import Ints
from unified_profiler.presentation.tables import EmphasisByColumn
from unified_profiler.presentation.texts import render_text, texts

_SLOW_RATIO = 1.5
"""A step of more than this many times the median of its rank is highlighted."""
_LARGE, _SMALL = 0.25, 0.01
"""Shares of a step from which a part is highlighted, and below which it is dimmed."""
_PARTS = ("data_ns", "op_ns", "collective_ns", "copy_ns", "compile_ns", "uncovered_ns")
_FEWEST_STEPS = 3
"""Fewer steps have no median worth a line."""
_MOST_RANKS = 16
"""More ranks than this are left to `unified-profiler ranks`."""
_NARROWEST, _WIDEST = 8, 60
"""Widths of a sparkline."""


@dataclass(frozen=True)
class _Series:
    """The wall times of the steps of one rank."""

    name: str
    steps: Ints
    wall_ns: Floats

    def summary(self, language: str) -> str:
        """Return the median and the slowest step in words."""
        slowest = int(np.argmax(self.wall_ns))
        values = {
            "median_ns": float(np.median(self.wall_ns)),
            "slowest_ns": float(self.wall_ns[slowest]),
            "step": int(self.steps[slowest]),
        }
        return render_text("steps.series", values, language=language)


def emphasis_of_steps(table: pa.Table) -> EmphasisByColumn:
    """Highlight steps that are much slower than the median of their rank, and parts that take much of their step.

    Operators are what a step is for, so they are not highlighted.
    """
    rank, wall = (table.column(name).to_numpy() for name in ("rank", "wall_ns"))
    emphasis = {"wall_ns": np.where(wall > _SLOW_RATIO * _medians(rank, wall), "high", "")}
    for name in _PARTS:
        share = table.column(name).to_numpy() / np.maximum(wall, 1)
        is_high = (share >= _LARGE) & (name != "op_ns")
        emphasis[name] = np.where(is_high, "high", np.where(share < _SMALL, "low", ""))
    return {name: values.tolist() for name, values in emphasis.items()}


def _medians(rank: Ints, wall: Ints) -> Floats:
    """Return for each step the median of its rank."""
    medians = np.zeros(len(wall))
    for number in np.unique(rank):
        medians[rank == number] = np.median(wall[rank == number])
    return medians


def lines_on_steps(
    table: pa.Table, emphasis: EmphasisByColumn, console: Console | None, *, language: str
) -> Iterator[str]:
    """Yield a line on the wall times of each rank, and what highlighted cells mean where there are colors.

    Args:
        table: The steps.
        emphasis: The emphasis of its cells.
        console: The terminal; None for a file, which has neither sparklines nor colors.
        language: The language of the lines.
    """
    series = _series_by_rank(table, language)
    if len(series) <= _MOST_RANKS and len(table) >= _FEWEST_STEPS * len(series):
        yield from _series_lines(series, console, language)
    is_colored = console is not None and console.color_system is not None
    if is_colored and any("high" in values for values in emphasis.values()):
        limits = {"ratio": f"{_SLOW_RATIO:g}\u00d7", "share": f"{_LARGE:.0%}"}
        yield render_text("steps.legend", limits, language=language)


def _series_by_rank(table: pa.Table, language: str) -> list[_Series]:
    rank, step, wall = (table.column(name).to_numpy() for name in ("rank", "step", "wall_ns"))
    ranks = np.unique(rank).tolist()
    names = [render_text("steps.rank", {"rank": number}, language=language) for number in ranks]
    names = names if len(names) > 1 else [texts(language)["steps.wall"]]
    rows = [np.flatnonzero(rank == number) for number in ranks]
    return [_Series(name, step[each], wall[each].astype(np.float64)) for name, each in zip(names, rows, strict=True)]


def _series_lines(series: list[_Series], console: Console | None, language: str) -> Iterator[str]:
    summaries = [each.summary(language) for each in series]
    widest = max(cell_len(each.name) for each in series)
    taken = widest + max(map(cell_len, summaries)) + 2 * len("  ")
    room = 0 if console is None else min(room_for_sparklines(console) - taken, _WIDEST)
    drawings = sparklines([each.wall_ns for each in series], room) if room >= _NARROWEST else [""] * len(series)
    for each, drawing, summary in zip(series, drawings, summaries, strict=True):
        yield "  ".join(filter(None, (set_cell_size(each.name, widest), drawing, summary)))
