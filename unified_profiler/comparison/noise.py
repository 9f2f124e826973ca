"""Decides whether the times of a diff row differ by more than noise.

A difference counts if it is larger than the threshold, if nearly all pairs of steps show it, and if it is at least half
a percent of a step. Between two runs of one framework the machine may be slightly slower throughout: then a row must
also deviate from the ratio that most rows show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]
"""The times of one row, one entry per step."""

SMALLEST_SHARE = 0.005
"""Share of a step below which a difference is not reported."""
_PAIRS = 0.9
"""Share of all pairs of steps, one of each side, that must have the same order."""
_PAIRS_ACROSS = 0.75
"""The same between frameworks, whose rows are not expected to be equal: two of ten steps may be disturbed."""
_FEWEST_ROWS = 8
_LARGEST_DRIFT = float(np.log(1.3))
"""A larger ratio is not explained by a busy machine."""
_DEVIATIONS = 3 * 1.4826
"""Median absolute deviations that equal three standard deviations of normal noise."""


def quartiles(times: Times) -> tuple[float, float, float]:
    """Return the quartiles; `np.percentile` takes ten times as long."""
    ordered = np.sort(times)
    positions = (len(ordered) - 1) * np.array([0.25, 0.5, 0.75])
    below = positions.astype(np.int64)
    above = np.minimum(below + 1, len(ordered) - 1)
    low, half, high = (ordered[below] + (ordered[above] - ordered[below]) * (positions - below)).tolist()
    return low, half, high


def median(times: Times) -> float:
    """Return the median."""
    return quartiles(times)[1]


@dataclass(frozen=True)
class Noise:
    """The noise that differences are compared with."""

    threshold: float
    step_ns: float
    """The longer of the two median steps, as the sum of all rows."""
    pairs: float = _PAIRS
    drift: float = 0.0
    """Logarithm of the median ratio of the rows."""
    scatter: float = 0.0
    """Deviation from it that is still noise."""

    def is_exceeded(self, baseline: Times, candidate: Times) -> bool:
        """Return whether a row differs. A side that lacks it has zeros."""
        before, after = median(baseline), median(candidate)
        needed = max(self.threshold * max(before, after), SMALLEST_SHARE * self.step_ns)
        if abs(after - before) <= needed or _superiority(baseline, candidate) < self.pairs:
            return False
        if not before or not after:
            return True
        deviation = abs(np.log(after / before) - self.drift)
        return bool(deviation > max(self.scatter, -np.log1p(-min(self.threshold, 0.99))))


def _superiority(baseline: Times, candidate: Times) -> float:
    """Return the share of pairs, a step of each side, in which the same side is slower.

    It is the common language effect size of the Mann-Whitney U test (K. O. McGraw, S. P. Wong, Psychological Bulletin
    111, 1992).
    """
    ordered = np.sort(baseline)
    pairs = len(baseline) * len(candidate)
    candidate_slower = np.searchsorted(ordered, candidate, side="left").sum()
    baseline_slower = pairs - np.searchsorted(ordered, candidate, side="right").sum()
    return float(max(candidate_slower, baseline_slower) / pairs)


def noise_of(
    rows: Sequence[tuple[Times, Times]], total: tuple[Times, Times], *, threshold: float, alike: bool
) -> Noise:
    """Estimate the noise between two sides.

    Args:
        rows: The times of the rows which both have.
        total: The times of all rows together.
        threshold: The smallest difference that matters, as a share of the larger side.
        alike: Whether both sides are of one framework, so that most of their rows should take equally long.
    """
    step_ns = max(map(median, total))
    if not alike:
        return Noise(threshold, step_ns, pairs=_PAIRS_ACROSS)
    medians = np.array([[np.median(a), np.median(b)] for a, b in rows if len(a) and len(b)]).reshape(-1, 2)
    large = medians[
        (medians.min(axis=1, initial=np.inf) > 0) & (medians.max(axis=1, initial=0) > SMALLEST_SHARE * step_ns)
    ]
    if len(large) < _FEWEST_ROWS:
        return Noise(threshold, step_ns)
    ratios = np.log(large[:, 1] / large[:, 0])
    drift = float(np.median(ratios))
    scatter = float(_DEVIATIONS * np.median(np.abs(ratios - drift)))
    if abs(drift) > _LARGEST_DRIFT:
        drift = 0.0
    return Noise(threshold, step_ns, drift=drift, scatter=min(scatter, _LARGEST_DRIFT))
