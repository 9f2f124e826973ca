"""Confidence intervals for the ratio of candidate to baseline, without assuming a distribution.

All values are logarithms, so a machine at half speed shifts both sides equally. Single steps depend on the steps before
them, so the intervals compare low quantiles of blocks of steps, or of all steps of runs that were recorded in turn.
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
"""Probability that a bound is wrong, for each bound by itself."""
_Z_95 = 1.645
"""Quantile of the normal distribution at 1 - ALPHA."""
_Z_975 = 1.96
"""Quantile of the normal distribution at 1 - ALPHA / 2."""
FEWEST_PAIRS = 6
"""With fewer, even if all pairs agree, the signed-rank test cannot reach ALPHA / 2."""
_RESAMPLES = 1000
FEWEST_BLOCKS = 5
MOST_BLOCKS = 20
_BLOCK_STEPS = 20
"""Steps per block, if there are enough."""
_LARGEST_CORRELATION = 0.8
"""Limit of the correlation between successive blocks that the interval is widened for."""
_PRIOR_RUNS = 4
"""Weight, in runs, of the expected deviation between runs against the observed one."""


@dataclass(frozen=True)
class Interval:
    """Logarithm of candidate over baseline."""

    estimate: float
    low: float
    high: float
    between_runs: float = 0.0
    """Part of the width caused by differences between whole runs, which more steps do not reduce."""

    @property
    def width(self) -> float:
        """Distance of the farther bound from the estimate."""
        return max(self.estimate - self.low, self.high - self.estimate)

    def widened(self, factor: float, between_runs: float) -> Interval:
        """Return the interval with its distances scaled by a factor and extended by the deviation between runs."""
        low = self.estimate - (self.estimate - self.low) * factor - between_runs
        high = self.estimate + (self.high - self.estimate) * factor + between_runs
        return replace(self, low=low, high=high, between_runs=between_runs)

    def including(self, value: float) -> Interval:
        """Return the interval, extended to contain a value."""
        return replace(self, low=min(self.low, value), high=max(self.high, value))


def paired_interval(baseline: Sequence[Times], candidate: Sequence[Times], statistics: Sequence[Statistic]) -> Interval:
    """Compare runs recorded in turn by the intersection of two intervals, each with half the error probability.

    If the machine's speed changes for both runs of a pair, the signed-rank interval of the paired differences is
    narrower. If load comes and goes within a pair, a low quantile of all steps of a side is steadier than that of any
    run, so the bootstrap interval is narrower. The first statistic is reported; the others only extend the interval.
    """
    first, *others = statistics
    intervals = (_signed_rank_interval(baseline, candidate, first), _bootstrap_interval(baseline, candidate, first))
    # sorted, because the two intervals may be disjoint
    low, high = sorted((max(each.low for each in intervals), min(each.high for each in intervals)))
    estimate = min(max(intervals[1].estimate, low), high)
    interval = Interval(estimate, low, high)
    for other in others:
        paired = _signed_rank_interval(baseline, candidate, other).estimate
        pooled = _log_ratio(other, baseline, candidate)
        interval = interval.including(min(paired, pooled, key=lambda value: abs(value - estimate)))
    return interval


def _signed_rank_interval(baseline: Sequence[Times], candidate: Sequence[Times], statistic: Statistic) -> Interval:
    """Return the Hodges-Lehmann estimate of the paired differences, and the interval of Wilcoxon's signed-rank test.

    The estimate is the median of the Walsh averages (Hodges and Lehmann 1963).
    """
    differences = np.array([_log(statistic, b) - _log(statistic, a) for a, b in zip(baseline, candidate, strict=True)])
    first, second = np.triu_indices(len(differences))
    walsh_averages = (differences[first] + differences[second]) / 2
    return _rank_test_interval(walsh_averages, _signed_rank_counts(len(differences)), ALPHA / 2)


def _bootstrap_interval(baseline: Sequence[Times], candidate: Sequence[Times], statistic: Statistic) -> Interval:
    """Return the bootstrap interval (Efron 1979) of the log ratio of all steps, by resampling pairs of runs.

    With few pairs the bootstrap is too narrow; the width is multiplied by t / z * sqrt(n / (n - 1)) (Hesterberg 2015).
    """
    count, estimate = len(baseline), _log_ratio(statistic, baseline, candidate)
    samples = np.random.default_rng(0).integers(0, count, (_RESAMPLES, count))
    ratios = [
        _log_ratio(statistic, *([side[i] for i in sample] for side in (baseline, candidate))) for sample in samples
    ]
    low, high = np.quantile(ratios, [ALPHA / 2, 1 - ALPHA / 2]) - estimate
    width = float(max(-low, high) * _student_t(count - 1) / _Z_975 * np.sqrt(count / (count - 1)))
    return Interval(estimate, estimate - width, estimate + width)


def unpaired_interval(
    baseline: Sequence[Times], candidate: Sequence[Times], statistics: Sequence[Statistic], *, run_deviation: float
) -> Interval:
    """Compare blocks of steps by the Mann-Whitney rank-sum test, widened for blocks that depend on each other.

    The estimate is the median of the pairwise differences (Hodges and Lehmann 1963). Load may last for most blocks, but
    then the fastest steps are as fast as before, so the interval also includes the ratios of all steps pooled.

    Args:
        baseline: The steps of each run.
        candidate: The steps of each run.
        statistics: Computed for each block; the first one is reported, the others only extend the interval.
        run_deviation: Expected standard deviation between whole runs of the same program.
    """
    baseline, candidate = ([run for run in runs if len(run)] for runs in (baseline, candidate))
    intervals = []
    for statistic in statistics:
        sides = [
            [_block_values(run, statistic, total=sum(map(len, side))) for run in side] for side in (baseline, candidate)
        ]
        before, after = (np.concatenate(side) for side in sides)
        counts = _mann_whitney_counts(len(before), len(after))
        interval = _rank_test_interval(np.subtract.outer(after, before).ravel(), counts)
        between_runs = _Z_95 * _run_deviation(sides, run_deviation) * np.sqrt(sum(1 / len(side) for side in sides))
        intervals.append(interval.widened(max(map(_autocorrelation_factor, sides)), float(between_runs)))
    interval = intervals[0]
    for other, statistic in zip(intervals, statistics, strict=True):
        interval = interval.including(other.estimate).including(_log_ratio(statistic, baseline, candidate))
    return interval


def typical_value(runs: Sequence[Times], statistic: Statistic, *, pooled: bool) -> float:
    """Return the statistic of one side as it is compared: of all steps pooled, or the median of its blocks."""
    used = [run for run in runs if len(run)]
    if pooled:
        return statistic(np.concatenate(used))
    total = sum(map(len, runs))
    return float(np.exp(np.median(np.concatenate([_block_values(run, statistic, total=total) for run in used]))))


def _log_ratio(statistic: Statistic, baseline: Sequence[Times], candidate: Sequence[Times]) -> float:
    return _log(statistic, np.concatenate(candidate)) - _log(statistic, np.concatenate(baseline))


def _student_t(degrees_of_freedom: int) -> float:
    """Return Student's t quantile at 1 - ALPHA / 2 (Cornish-Fisher expansion, Abramowitz and Stegun 26.7.5)."""
    z, n = _Z_975, degrees_of_freedom
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)


def _log(statistic: Statistic, steps: Times) -> float:
    return float(np.log(max(statistic(steps), 1.0)))  # a nanosecond or byte is the smallest value


def _block_values(run: Times, statistic: Statistic, *, total: int) -> Numbers:
    """Return the logarithm of a statistic for each block of consecutive steps."""
    block_count = min(max(total // _BLOCK_STEPS, FEWEST_BLOCKS), MOST_BLOCKS)
    own_count = max(round(block_count * len(run) / total), 1)
    return np.array([_log(statistic, block) for block in np.array_split(run, own_count) if len(block)])


def _autocorrelation_factor(runs: Sequence[Numbers]) -> float:
    """Return sqrt((1 + r) / (1 - r)) for the lag-1 autocorrelation r of blocks, by which the interval is too narrow.

    This is the effective sample size of an AR(1) process (Bayley and Hammersley 1946).
    """
    centered = [run - np.mean(run) for run in runs if len(run) > 2]
    variation = sum(float(run @ run) for run in centered)
    if not variation:
        return 1.0
    r = min(max(sum(float(run[1:] @ run[:-1]) for run in centered) / variation, 0.0), _LARGEST_CORRELATION)
    return float(np.sqrt((1 + r) / (1 - r)))


def _run_deviation(sides: Sequence[Sequence[Numbers]], expected: float) -> float:
    """Combine the expected standard deviation between whole runs, weighted as `_PRIOR_RUNS`, with the observed one."""
    medians = [np.array([np.median(run) for run in side]) for side in sides]
    squares = sum(float(((m - m.mean()) ** 2).sum()) for m in medians)
    degrees_of_freedom = sum(len(m) - 1 for m in medians)
    return float(np.sqrt((_PRIOR_RUNS * expected**2 + squares) / (_PRIOR_RUNS + degrees_of_freedom)))


def _rank_test_interval(values: Numbers, counts: Numbers, alpha: float = ALPHA) -> Interval:
    """Return the median of the values, and as bounds the order statistics at which a rank test just does not reject.

    Args:
        values: Walsh averages or pairwise differences.
        counts: Null distribution of the test: how many arrangements have the rank statistic 0, 1, 2...
        alpha: Error probability of each bound.
    """
    ordered = np.sort(values)
    p_values = np.cumsum(counts) / counts.sum()
    index = int(np.searchsorted(p_values, alpha, side="right")) - 1
    if index < 0:
        return Interval(float(np.median(ordered)), -np.inf, np.inf)
    return Interval(float(np.median(ordered)), float(ordered[index]), float(ordered[-1 - index]))


@cache
def _signed_rank_counts(pairs: int) -> Numbers:
    """Return how many subsets of the ranks 1 to n have the sum 0, 1, 2... (Wilcoxon 1945)."""
    counts = np.ones(1)
    for rank in range(1, pairs + 1):
        counts = np.append(counts, np.zeros(rank)) + np.append(np.zeros(rank), counts)
    return counts


@cache
def _mann_whitney_counts(first: int, second: int) -> Numbers:
    """Return how many arrangements of two samples have U = 0, 1, 2... (recurrence of Mann and Whitney 1947)."""
    if not first or not second:
        return np.ones(1)
    counts = np.zeros(first * second + 1)
    for part in (
        _mann_whitney_counts(first - 1, second),
        np.append(np.zeros(first), _mann_whitney_counts(first, second - 1)),
    ):
        counts[: len(part)] += part
    return counts
