"""Estimates the offsets and drifts of the ranks' clocks from the ends of synchronizing collectives.

No rank leaves an all-reduce before the last one has entered, and then all leave at about the same time. So the ends of
the same collective on two ranks, by their own clocks, show the offset between the clocks, and many of them its drift.
Without collectives the ends of steps are used. Ranks of one machine share a clock.
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
"""Rounds of estimating the true times of the collectives from the clocks and vice versa."""
FEWEST_FOR_DRIFT = 8
MAX_DRIFT = 0.004
"""Growth of an offset per unit of time that no clock exceeds."""

TABLE = pa.schema({"rank": pa.int32(), "ahead_ns": pa.float64(), "drift": pa.float64(), "at_ns": pa.int64()})


def machines(run: Run) -> dict[int, str]:
    """Return for each rank the machine whose clock it reads."""
    hosts = {trace.info.rank: trace.info.host or f"rank {trace.info.rank}" for trace in run.traces}
    return hosts | {rank: manifest.machine or manifest.host for rank, manifest in run.manifests.items()}


def estimate(facts: EngineTable, collectives: pa.Table, engine: Engine, run: Run) -> Clocks:
    """Return the clocks of a run's ranks."""
    machine_of = machines(run)
    traces = tuple((trace.info.rank, trace.info.cycle) for trace in run.traces)
    method: Literal["collectives", "steps"] = "collectives"
    ends = _end_times(collectives, machine_of)
    if ends is None:
        method, ends = "steps", _end_times(engine.run(load("step_ends"), tables={"facts": facts}), machine_of)
    if ends is None or len(set(machine_of.values())) < 2:
        same = tuple(RankClock(rank=rank) for rank in sorted(machine_of))
        return Clocks(method="host", ranks=same, traces=traces)
    lines = dict(zip(ends.machines, _fit_all(ends.times), strict=True))
    ranks = (_clock(rank, lines.get(machine_of[rank]), ends.base) for rank in sorted(machine_of))
    return Clocks(method=method, compared_count=len(ends.times), ranks=tuple(ranks), traces=traces)


def as_table(clocks: Clocks | None) -> pa.Table:
    """Return clocks as a table for queries; without rows if no correction is needed."""
    rows = [] if clocks is None else [clock.model_dump(include=set(TABLE.names)) for clock in clocks.ranks]
    return pa.Table.from_pylist(rows, schema=TABLE)


@dataclass(frozen=True)
class _EndTimes:
    """End times of each collective on each machine, by the machine's clock: the median of its ranks."""

    machines: list[str]
    times: Floats
    """Collectives by machines, relative to `base`; nan where a machine took no part."""
    base: int


def _end_times(collectives: pa.Table, machine_of: Mapping[int, str]) -> _EndTimes | None:
    """Return the end times; None if no collective ran on several machines."""
    if not len(collectives):
        return None
    columns = collectives.select(["step", "name", "nth"]).to_pylist()
    keys, key = np.unique([f"{row['step']} {row['nth']} {row['name']}" for row in columns], return_inverse=True)
    ranks = collectives.column("rank").to_pylist()
    names = list(dict.fromkeys(machine_of[rank] for rank in sorted(set(ranks))))
    ends = collectives.column("end_ns").to_numpy()
    base = int(ends.min())
    machine = np.array([names.index(machine_of[rank]) for rank in ranks])
    times = np.full((len(keys), len(names)), np.nan)
    for index in range(len(names)):
        rows = machine == index
        times[:, index] = _medians(key[rows], (ends[rows] - base).astype(float), len(keys))
    shared = np.isfinite(times).sum(axis=1) > 1
    return _EndTimes(names, times[shared], base) if shared.any() else None


def _medians(key: npt.NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Return the median of the values of each key; nan for keys without values."""
    ordered = values[np.lexsort((values, key))]
    size = np.bincount(key, minlength=count)
    first = np.cumsum(size) - size
    medians = np.full(count, np.nan)
    some = size > 0
    low, high = (first + (size - 1) // 2)[some], (first + size // 2)[some]
    medians[some] = (ordered[low] + ordered[high]) / 2
    return medians


@dataclass(frozen=True)
class _ClockLine:
    """The offset of a clock, as a linear function of its time."""

    middle: float = 0.0
    offset: float = 0.0
    """At the time `middle`."""
    slope: float = 0.0
    uncertainty: float = 0.0
    """Half the width of the 95 % interval where it is widest."""

    def at(self, times: Floats) -> Floats:
        return self.offset + self.slope * (times - self.middle)


def _fit_all(times: Floats) -> list[_ClockLine]:
    """Fit the clocks of all machines; the first one is right by definition."""
    lines = [_ClockLine()] * times.shape[1]
    true = times[:, 0]
    for _ in range(ROUNDS):
        first = _fit(times[:, 0], times[:, 0] - true)
        lines = [_minus(_fit(clock, clock - true), first) for clock in times.T]
        corrected = np.column_stack([clock - line.at(clock) for clock, line in zip(times.T, lines, strict=True)])
        true = np.nanmedian(corrected, axis=1)
    others = [
        replace(line, uncertainty=_uncertainty(clock, line, times[:, 0]))
        for clock, line in zip(times.T[1:], lines[1:], strict=True)
    ]
    return [_ClockLine(), *others]


def _minus(line: _ClockLine, first: _ClockLine) -> _ClockLine:
    offset = line.offset - float(first.at(np.array([line.middle]))[0])
    return _ClockLine(line.middle, offset, line.slope - first.slope)


def _uncertainty(clock: Floats, line: _ClockLine, first: Floats) -> float:
    """Return how far off a clock may be at either end, from the scatter of its collectives about those of the first."""
    residuals = clock - line.at(clock) - first
    known = np.isfinite(residuals)
    if not known.any():
        return float("inf")
    x = clock[known] - line.middle
    width = np.sqrt(1 / len(x) + np.max(x**2) / max(float(np.sum(x**2)), 1.0))
    return float(2 * _scale(residuals[known]) * width)


def _scale(residuals: Floats) -> float:
    """Return a robust standard deviation: the median absolute deviation times 1.4826."""
    return 1.4826 * float(np.median(np.abs(residuals - np.median(residuals)))) + 1.0


def _fit(times: Floats, ahead: Floats) -> _ClockLine:
    """Fit a line robustly, by iteratively reweighted least squares with Huber's weights (P. J. Huber, 1964)."""
    known = np.isfinite(times) & np.isfinite(ahead)
    if not known.any():
        return _ClockLine()
    x, y = times[known], ahead[known]
    middle = float(np.median(x))
    x = x - middle
    offset, slope = float(np.median(y)), _initial_slope(x, y)
    for _ in range(10):
        residuals = y - offset - slope * x
        weight = 1 / np.maximum(np.abs(residuals) / (1.5 * _scale(residuals)), 1.0)
        offset, slope = _least_squares(x, y, weight, with_slope=len(x) >= FEWEST_FOR_DRIFT)
    if abs(slope) > MAX_DRIFT:
        return _ClockLine(middle, float(np.median(y)))  # the compared collectives are not the same ones
    return _ClockLine(middle, offset, slope)


def _initial_slope(x: Floats, y: Floats) -> float:
    """Return the slope between the medians of the first and the last third."""
    if len(x) < FEWEST_FOR_DRIFT:
        return 0.0
    order = np.argsort(x)
    third = len(x) // 3
    early, late = order[:third], order[-third:]
    run = float(np.median(x[late]) - np.median(x[early]))
    return float(np.median(y[late]) - np.median(y[early])) / run if run else 0.0


def _least_squares(x: Floats, y: Floats, weight: Floats, *, with_slope: bool) -> tuple[float, float]:
    mean_x, mean_y = float(np.average(x, weights=weight)), float(np.average(y, weights=weight))
    if not with_slope:
        return mean_y, 0.0
    variance = float((weight * (x - mean_x) ** 2).sum())
    slope = float((weight * (x - mean_x) * (y - mean_y)).sum()) / variance if variance else 0.0
    return mean_y - slope * mean_x, slope


def _clock(rank: int, line: _ClockLine | None, base: int) -> RankClock:
    if line is None:
        return RankClock(rank=rank)
    at = base + round(line.middle)
    return RankClock(rank=rank, ahead_ns=line.offset, drift=line.slope, at_ns=at, uncertainty_ns=line.uncertainty)
