"""Builds the data of the ranks page: the map of ranks and steps, the slow ranks and the clocks, limited in size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from unified_profiler.analysis.rank_table import RankTable
from unified_profiler.analysis.stragglers import THRESHOLD, Floats, StepMatrix
from unified_profiler.model.clocks import Clocks
from unified_profiler.model.nesting import Ints
from unified_profiler.report.thinning import thin_keeping_maxima

MEASURES = ("skew_ns", "own_ns", "waiting_ns")
"""Measures that the map can show."""
MOST_CELLS = 32_000
"""Cells (ranks times steps) of the map."""
MOST_RANKS = 128
"""Ranks on the map and in the chart of parts; if there are more, the slowest are shown."""
DIGITS = 5
"""Digits of the largest value of a map; a cell is a color and needs no more precision."""
_SLOW = ("rank", "since", "changed", "extra_ns")


def rank_view(table: RankTable) -> dict[str, Any]:
    """Return the data as JSON; the table and the verdict are elsewhere in the document."""
    matrix = StepMatrix.of(table.table)
    skew = np.nan_to_num(matrix.times["skew_ns"])
    ranks = _select_ranks(skew, matrix, table)
    steps = _select_steps(skew, matrix, table)
    own = matrix.times["own_ns"]
    return {
        "notices": [notice.model_dump(mode="json") for notice in table.notices],
        "slow": [{name: getattr(slow, name) for name in _SLOW} for slow in table.stragglers],
        "threshold_ns": int(THRESHOLD * np.nanmedian(own)) if own.size else 0,
        "ranks": [matrix.ranks[column] for column in ranks],
        "ranks_left_out": len(matrix.ranks) - len(ranks),
        "steps": matrix.steps[steps].tolist(),
        "steps_left_out": len(matrix.steps) - len(steps),
        "maps": {name: _map(matrix.times[name][np.ix_(steps, ranks)]) for name in MEASURES},
        "parts": _parts(table),
        "clocks": _clocks(table.clocks),
    }


def _parts(table: RankTable) -> dict[str, Any]:
    """Return the medians of each rank since the slowest became slow; over all steps the difference might not show."""
    since = table.stragglers[0].since if table.stragglers and table.stragglers[0].changed else None
    chosen = table.table if since is None else table.table.filter(pc.field("step") >= since)
    ranks = replace(table, table=chosen).ranks
    return {"since": since, "columns": list(ranks.columns), "rows": [list(row) for row in ranks.rows]}


def _select_ranks(skew: Floats, matrix: StepMatrix, table: RankTable) -> Ints:
    """Select the ranks that the verdict names and the slowest others, in order of rank."""
    slow = np.isin(matrix.ranks, [straggler.rank for straggler in table.stragglers])
    order = np.lexsort((-np.median(skew, axis=0), ~slow)) if skew.size else np.arange(0)
    return np.sort(order[:MOST_RANKS])


def _select_steps(skew: Floats, matrix: StepMatrix, table: RankTable) -> Ints:
    """Select the step of each group in which a rank exceeds the others most, and those where ranks became slow."""
    most = MOST_CELLS // max(1, min(len(matrix.ranks), MOST_RANKS))
    kept = thin_keeping_maxima(skew.max(axis=1), most) if skew.size else np.arange(0)
    since = np.isin(matrix.steps, [straggler.since for straggler in table.stragglers])
    return np.union1d(kept, np.flatnonzero(since))


def _map(times: Floats) -> dict[str, Any]:
    """Return one line per rank, in whole units; None where a rank lacks a step."""
    known = np.isfinite(times)
    largest = float(np.abs(times[known]).max()) if known.any() else 0.0
    unit = 10 ** max(0, len(str(int(largest))) - DIGITS)
    cells = np.round(np.where(known, times, 0) / unit).astype(np.int64).astype(object)
    cells[~known] = None
    return {"unit_ns": unit, "lines": cells.T.tolist()}


def _clocks(clocks: Clocks | None) -> dict[str, Any] | None:
    """Return the offsets of the clocks; None if there are none."""
    if clocks is None or not any(clock.is_off for clock in clocks.ranks):
        return None
    rows = [[c.rank, round(c.ahead_ns), round(c.uncertainty_ns), round(c.drift * 1e6, 3)] for c in clocks.ranks]
    columns = ["rank", "ahead_ns", "uncertainty_ns", "drift_ppm"]
    return {"method": clocks.method, "compared_count": clocks.compared_count, "columns": columns, "rows": rows}
