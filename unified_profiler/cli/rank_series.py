"""Finds what stands out among the ranks of a run: the slow ones, and how the time of each develops."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from unified_profiler.cli.sparklines import sparklines

if TYPE_CHECKING:
    from unified_profiler.analysis import RankTable
    from unified_profiler.engine import Result
    from unified_profiler.presentation.tables import EmphasisByColumn

_HIGHLIGHTED = ("rank", "own_ns", "skew_ns", "own_by_step")
_FEWEST_STEPS = 3
_WIDEST = 24
"""Largest width of a sparkline, up to which the column of a table is not cut."""


def with_sparklines(table: RankTable, room: int) -> Result:
    """Return the medians of the ranks with a column `own_by_step`, the time of each rank over all steps.

    Args:
        table: Every step of every rank.
        room: Width of the terminal; 0 if it cannot show sparklines.
    """
    rank, step, own = (table.table.column(name).to_numpy(zero_copy_only=False) for name in ("rank", "step", "own_ns"))
    ranks, row = np.unique(rank, return_inverse=True)
    steps, column = np.unique(step, return_inverse=True)
    medians = table.ranks
    if not room or len(steps) < _FEWEST_STEPS:
        return medians
    times = np.full((len(ranks), len(steps)), np.nan)
    times[row, column] = own
    drawings = pa.array(sparklines(list(times), min(_WIDEST, room // 5)))
    headings = {}
    for name, heading in (medians.headings or {}).items():
        if name == "compute_ns":
            headings["own_by_step"] = "Own by step"
        headings[name] = heading
    return replace(medians, table=medians.table.append_column("own_by_step", drawings), headings=headings)


def emphasis_of_ranks(table: RankTable, rows: pa.Table) -> EmphasisByColumn:
    """Highlight the slow ranks: in a table of ranks, or in one of their steps those since which they are slow."""
    since = {each.rank: each.since for each in table.stragglers}
    ranks = rows.column("rank").to_pylist()
    steps = rows.column("step").to_pylist() if "step" in rows.column_names else [None] * len(ranks)
    is_slow = [rank in since and (step is None or step >= since[rank]) for rank, step in zip(ranks, steps, strict=True)]
    return {name: ["high" if slow else "" for slow in is_slow] for name in _HIGHLIGHTED}
