"""How far the clocks of ranks differ, told from what ranks do together.

No rank leaves an all-reduce before the last one has come, and then all leave at about the same time. So the ends of the
same collective on two ranks, by their own clocks, tell how far these differ, and many of them how that grows. Where
no collective was recorded, the ends of steps serve. Ranks of one machine have the same clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.analysis.sql import load
from unified_profiler.engine import Engine, EngineTable
from unified_profiler.model.clocks import Clocks, RankClock
from unified_profiler.model.run import Run

Floats = npt.NDArray[np.float64]

ROUNDS = 3
"""How often the moments of the meetings and the clocks are estimated from one another."""
FEWEST_FOR_DRIFT = 8

TABLE = pa.schema({"rank": pa.int32(), "ahead_ns": pa.float64(), "drift": pa.float64(), "at_ns": pa.int64()})


def machines(run: Run) -> dict[int, str]:
    """Return for each rank the machine whose clock it reads."""
    found = {trace.info.rank: trace.info.host or f"rank {trace.info.rank}" for trace in run.traces}
    return found | {rank: manifest.machine or manifest.host for rank, manifest in run.manifests.items()}


def estimate(facts: EngineTable, meetings: pa.Table, engine: Engine, run: Run) -> Clocks:
    """Return the clocks of a run's ranks."""
    machine_of = machines(run)
    traces = tuple((trace.info.rank, trace.info.cycle) for trace in run.traces)
    method: Literal["collectives", "steps"] = "collectives"
    ends = _ends(meetings, machine_of)
    if ends is None:
        method, ends = "steps", _ends(engine.run(load("step_ends"), tables={"facts": facts}), machine_of)
    if ends is None or len(set(machine_of.values())) < 2:
        alone = tuple(RankClock(rank=rank) for rank in sorted(machine_of))
        return Clocks(method="host", ranks=alone, traces=traces)
    lines = dict(zip(ends.machines, _lines(ends.moments), strict=True))
    ranks = (_clock(rank, lines.get(machine_of[rank]), ends.base) for rank in sorted(machine_of))
    return Clocks(method=method, meeting_count=len(ends.moments), ranks=tuple(ranks), traces=traces)


def as_table(clocks: Clocks | None) -> pa.Table:
    """Return clocks as a table for queries; no rows if they are right already."""
    rows = [] if clocks is None else [clock.model_dump(include=set(TABLE.names)) for clock in clocks.ranks]
    return pa.Table.from_pylist(rows, schema=TABLE)


@dataclass(frozen=True)
class _Ends:
    """When each meeting ended on each machine, by that machine's clock; of several ranks the middle one."""

    machines: list[str]
    moments: Floats
    """Meetings by machines, from `base` on; nan where a machine took no part."""
    base: int


def _ends(meetings: pa.Table, machine_of: Mapping[int, str]) -> _Ends | None:
    """Put the ends in a table; None if no meeting was on several machines."""
    if not len(meetings):
        return None
    columns = meetings.select(["step", "name", "nth"]).to_pylist()
    keys, key = np.unique([f"{row['step']} {row['nth']} {row['name']}" for row in columns], return_inverse=True)
    ranks = meetings.column("rank").to_pylist()
    names = list(dict.fromkeys(machine_of[rank] for rank in sorted(set(ranks))))
    ends = meetings.column("end_ns").to_numpy()
    base = int(ends.min())
    column = np.array([names.index(machine_of[rank]) for rank in ranks])
    moments = np.full((len(keys), len(names)), np.nan)
    for index in range(len(names)):
        here = column == index
        moments[:, index] = _medians(key[here], (ends[here] - base).astype(float), len(keys))
    shared = np.isfinite(moments).sum(axis=1) > 1
    return _Ends(names, moments[shared], base) if shared.any() else None


def _medians(key: npt.NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Return the median of the values of each key."""
    order = np.lexsort((values, key))
    size = np.bincount(key, minlength=count)
    first = np.cumsum(size) - size
    found = np.full(count, np.nan)
    some = size > 0
    low, high = (first + (size - 1) // 2)[some], (first + size // 2)[some]
    found[some] = (values[order][low] + values[order][high]) / 2
    return found


@dataclass(frozen=True)
class _Line:
    """How far a clock is ahead: so much in the middle, and growing."""

    middle: float = 0.0
    level: float = 0.0
    slope: float = 0.0
    spread: float = 0.0
    """Half the width of the 95 % interval where it is widest."""

    def at(self, moments: Floats) -> Floats:
        return self.level + self.slope * (moments - self.middle)


def _lines(moments: Floats) -> list[_Line]:
    """Fit the clocks of all machines; the first one is right by definition."""
    lines = [_Line()] * moments.shape[1]
    true = moments[:, 0]
    for _ in range(ROUNDS):
        first = _fit(moments[:, 0], moments[:, 0] - true)
        lines = [_less(_fit(seen, seen - true), first) for seen in moments.T]
        corrected = np.column_stack([seen - line.at(seen) for seen, line in zip(moments.T, lines, strict=True)])
        true = np.nanmedian(corrected, axis=1)
    spreads = [_spread(seen, line, moments[:, 0]) for seen, line in zip(moments.T, lines, strict=True)]
    return [_Line(), *(replace(line, spread=spread) for line, spread in zip(lines[1:], spreads[1:], strict=True))]


def _less(line: _Line, first: _Line) -> _Line:
    level = line.level - float(first.at(np.array([line.middle]))[0])
    return _Line(line.middle, level, line.slope - first.slope)


def _spread(seen: Floats, line: _Line, first: Floats) -> float:
    """Return how far off a clock may be at either end, from how its meetings scatter about those of the first."""
    rest = seen - line.at(seen) - first
    known = np.isfinite(rest)
    if not known.any():
        return float("inf")
    x = seen[known] - line.middle
    width = np.sqrt(1 / len(x) + np.max(x**2) / max(float(np.sum(x**2)), 1.0))
    return float(2 * _scale(rest[known]) * width)


def _scale(rest: Floats) -> float:
    """Return the spread of values, of which some may be far off, as a standard deviation."""
    return 1.4826 * float(np.median(np.abs(rest - np.median(rest)))) + 1.0


def _fit(moments: Floats, ahead: Floats) -> _Line:
    """Lay a line through the differences; those far off count less and less."""
    known = np.isfinite(moments) & np.isfinite(ahead)
    if not known.any():
        return _Line()
    x, y = moments[known], ahead[known]
    middle = float(np.median(x))
    x = x - middle
    level, slope = float(np.median(y)), _rough_slope(x, y)
    for _ in range(10):
        rest = y - level - slope * x
        weight = 1 / np.maximum(np.abs(rest) / (1.5 * _scale(rest)), 1.0)
        level, slope = _weighted(x, y, weight, with_slope=len(x) >= FEWEST_FOR_DRIFT)
    return _Line(middle, level, slope)


def _rough_slope(x: Floats, y: Floats) -> float:
    if len(x) < FEWEST_FOR_DRIFT:
        return 0.0
    order = np.argsort(x)
    third = len(x) // 3
    early, late = order[:third], order[-third:]
    run = float(np.median(x[late]) - np.median(x[early]))
    return float(np.median(y[late]) - np.median(y[early])) / run if run else 0.0


def _weighted(x: Floats, y: Floats, weight: Floats, *, with_slope: bool) -> tuple[float, float]:
    total = weight.sum()
    mean_x, mean_y = float((weight * x).sum() / total), float((weight * y).sum() / total)
    if not with_slope:
        return mean_y, 0.0
    below = float((weight * (x - mean_x) ** 2).sum())
    slope = float((weight * (x - mean_x) * (y - mean_y)).sum()) / below if below else 0.0
    return mean_y - slope * mean_x, slope


def _clock(rank: int, line: _Line | None, base: int) -> RankClock:
    if line is None:
        return RankClock(rank=rank)
    at = base + round(line.middle)
    return RankClock(rank=rank, ahead_ns=line.level, drift=line.slope, at_ns=at, uncertainty_ns=line.spread)
