"""How far two sides are apart, and how sure that is: intervals that assume no distribution.

Everything is in logarithms, so that a machine at half its speed moves both sides alike. What is compared are not steps,
which depend on their neighbors, but low quantiles of blocks of steps, or of all steps of runs taken in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from unified_profiler.comparison.noise import Times

Statistic = Callable[[Times], float]
Numbers = npt.NDArray[np.float64]

ALPHA = 0.05
"""Chance of a bound to be wrong, each side by itself."""
_DEVIATIONS = 1.645
"""Standard deviations of the normal distribution at that chance."""
_NORMAL = 1.96
"""Likewise at half of it."""
FEWEST_PAIRS = 6
"""With fewer, not even all of them agreeing is as rare as half of `ALPHA`."""
_DRAWS = 1000
FEWEST_BLOCKS = 5
MOST_BLOCKS = 20
_BLOCK = 20
"""Steps of a block, where there are enough."""
_STRONGEST = 0.8
"""Correlation of neighboring blocks that can still be allowed for."""
_PRIOR_RUNS = 4
"""How many runs the spread that is expected counts for, beside what was seen."""


@dataclass(frozen=True)
class Interval:
    """Logarithm of candidate over baseline."""

    estimate: float
    low: float
    high: float
    between: float = 0.0
    """What of the width no further step would take away: runs differ as a whole."""

    @property
    def width(self) -> float:
        """How far the farther bound lies from the estimate."""
        return max(self.estimate - self.low, self.high - self.estimate)

    def widened(self, factor: float, by: float) -> Interval:
        """Return the interval with bounds farther from the estimate."""
        low, high = self.estimate - self.low, self.high - self.estimate
        return replace(self, low=self.estimate - low * factor - by, high=self.estimate + high * factor + by, between=by)

    def reaching(self, value: float) -> Interval:
        """Return the interval, as wide as it must be to hold a value."""
        return replace(self, low=min(self.low, value), high=max(self.high, value))


def paired(baseline: Sequence[Times], candidate: Sequence[Times], statistics: Sequence[Statistic]) -> Interval:
    """Compare runs that were taken in turn, in two ways; each may be wrong half as often as the answer.

    Where a machine changes its speed for both runs of a pair, the differences of neighbors tell most. Where load comes
    and goes within a pair, a low quantile of all steps of a side is steadier than any single run. What both allow is
    the answer.
    """
    told, *others = statistics
    ways = (_neighbors(baseline, candidate, told), _drawn(baseline, candidate, told))
    low, high = sorted((max(way.low for way in ways), min(way.high for way in ways)))  # sorted: they may contradict
    estimate = min(max(ways[1].estimate, low), high)
    found = Interval(estimate, low, high)
    for other in others:
        values = (_neighbors(baseline, candidate, other).estimate, _apart(other, baseline, candidate))
        found = found.reaching(min(values, key=lambda value: abs(value - estimate)))
    return found


def _neighbors(baseline: Sequence[Times], candidate: Sequence[Times], statistic: Statistic) -> Interval:
    """Return the interval of the differences between neighboring runs, by signed ranks."""
    apart = np.array([_log(statistic, b) - _log(statistic, a) for a, b in zip(baseline, candidate, strict=True)])
    first, second = np.triu_indices(len(apart))
    return _from_order((apart[first] + apart[second]) / 2, _signed_rank(len(apart)), ALPHA / 2)


def _drawn(baseline: Sequence[Times], candidate: Sequence[Times], statistic: Statistic) -> Interval:
    """Return the interval of the sides as a whole: by how much they vary is told by drawing pairs with replacement.

    Of few pairs such draws vary too little, for which Student's distribution makes up.
    """
    count, estimate = len(baseline), _apart(statistic, baseline, candidate)
    draws = np.random.default_rng(0).integers(0, count, (_DRAWS, count))
    drawn = [_apart(statistic, *([side[i] for i in draw] for side in (baseline, candidate))) for draw in draws]
    low, high = np.quantile(drawn, [ALPHA / 2, 1 - ALPHA / 2]) - estimate
    width = float(max(-low, high) * _student(count - 1) / _NORMAL * np.sqrt(count / (count - 1)))
    return Interval(estimate, estimate - width, estimate + width)


def unpaired(
    baseline: Sequence[Times], candidate: Sequence[Times], statistics: Sequence[Statistic], *, between: float
) -> Interval:
    """Compare blocks of steps: Mann and Whitney's ranks, with room for blocks that depend on each other.

    Load may last for most blocks; that the fastest of all steps are as fast as before gives it away, so the interval
    also holds what the sides show as a whole.

    Args:
        baseline: The steps of each run.
        candidate: Likewise.
        statistics: What is compared of each block; the first is told, and the others must not contradict it.
        between: How much runs of one program are expected to differ as a whole, as a standard deviation.
    """
    baseline, candidate = ([run for run in runs if len(run)] for runs in (baseline, candidate))
    found = []
    for statistic in statistics:
        sides = [[_blocks(run, statistic, total=sum(map(len, side))) for run in side] for side in (baseline, candidate)]
        before, after = (np.concatenate(side) for side in sides)
        interval = _from_order(np.subtract.outer(after, before).ravel(), _rank_sum(len(before), len(after)))
        room = _DEVIATIONS * _between(sides, between) * np.sqrt(sum(1 / len(side) for side in sides))
        found.append(interval.widened(max(map(_dependence, sides)), float(room)))
    before, after = np.concatenate(baseline), np.concatenate(candidate)
    return _agreed(found, [_log(statistic, after) - _log(statistic, before) for statistic in statistics])


def typical(runs: Sequence[Times], statistic: Statistic, *, as_a_whole: bool) -> float:
    """Return what is told of one side: its steps together, or the middle of its blocks, as they are compared."""
    known = [run for run in runs if len(run)]
    if as_a_whole:
        return statistic(np.concatenate(known))
    total = sum(map(len, runs))
    return float(np.exp(np.median(np.concatenate([_blocks(run, statistic, total=total) for run in known]))))


def _agreed(intervals: Sequence[Interval], further: Sequence[float] = ()) -> Interval:
    """Return the first interval, as wide as it must be to hold what the others find most likely, and further values.

    So a bound is wrong no more often than that of the first alone, and nothing is told that the others contradict.
    """
    found = intervals[0]
    for value in (*(other.estimate for other in intervals[1:]), *further):
        found = found.reaching(value)
    return found


def _apart(statistic: Statistic, baseline: Sequence[Times], candidate: Sequence[Times]) -> float:
    return _log(statistic, np.concatenate(candidate)) - _log(statistic, np.concatenate(baseline))


def _student(free: int) -> float:
    """Return the quantile of Student's distribution at half of `ALPHA` (Cornish and Fisher's expansion)."""
    z = _NORMAL
    return z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)


def _log(statistic: Statistic, steps: Times) -> float:
    return float(np.log(max(statistic(steps), 1.0)))  # a nanosecond, a byte: nothing is smaller


def _blocks(run: Times, statistic: Statistic, *, total: int) -> Numbers:
    """Return the logarithm of a statistic of each block of neighboring steps."""
    wanted = min(max(total // _BLOCK, FEWEST_BLOCKS), MOST_BLOCKS)
    count = max(round(wanted * len(run) / total), 1)
    return np.array([_log(statistic, block) for block in np.array_split(run, count) if len(block)])


def _dependence(runs: Sequence[Numbers]) -> float:
    """Return by how much an interval is too narrow because blocks resemble their neighbors."""
    known = [run - np.mean(run) for run in runs if len(run) > 2]
    spread = sum(float(run @ run) for run in known)
    if not spread:
        return 1.0
    correlation = min(max(sum(float(run[1:] @ run[:-1]) for run in known) / spread, 0.0), _STRONGEST)
    return float(np.sqrt((1 + correlation) / (1 - correlation)))


def _between(sides: Sequence[Sequence[Numbers]], expected: float) -> float:
    """Return how much runs of one side differ as a whole: what is expected, and more and more what is seen."""
    middles = [np.array([np.median(run) for run in side]) for side in sides]
    seen = sum(float(((m - m.mean()) ** 2).sum()) for m in middles)
    free = sum(len(m) - 1 for m in middles)
    return float(np.sqrt((_PRIOR_RUNS * expected**2 + seen) / (_PRIOR_RUNS + free)))


def _from_order(values: Numbers, counts: Numbers, alpha: float = ALPHA) -> Interval:
    """Return the interval whose bounds are as many values from the ends as the distribution of ranks allows."""
    ordered = np.sort(values)
    chance = np.cumsum(counts) / counts.sum()
    place = int(np.searchsorted(chance, alpha, side="right")) - 1
    if place < 0:
        return Interval(float(np.median(ordered)), -np.inf, np.inf)
    return Interval(float(np.median(ordered)), float(ordered[place]), float(ordered[-1 - place]))


@cache
def _signed_rank(pairs: int) -> Numbers:
    """Return in how many ways some of the ranks 1 to n sum up to 0, 1, 2..."""
    ways = np.ones(1)
    for rank in range(1, pairs + 1):
        ways = np.append(ways, np.zeros(rank)) + np.append(np.zeros(rank), ways)
    return ways


@cache
def _rank_sum(first: int, second: int) -> Numbers:
    """Return in how many ways 0, 1, 2... pairs of one value of each side can be out of order."""
    if not first or not second:
        return np.ones(1)
    size = first * second + 1
    ways = np.zeros(size)
    for part in (_rank_sum(first - 1, second), np.append(np.zeros(first), _rank_sum(first, second - 1))):
        ways[: len(part)] += part
    return ways
