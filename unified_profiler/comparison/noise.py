"""Telling a difference from noise.

A difference counts if it is larger than the threshold, if nearly all pairs of steps show it, and if it is worth half a
percent of a step. Between two runs of one framework a machine may be a little slower throughout: then it must also
stand out from what most rows show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]
"""Of one row, one entry per step."""

SMALLEST_SHARE = 0.005
"""Part of a step below which a difference is not worth telling."""
_PAIRS = 0.9
"""Part of all pairs of steps, one of each side, that must have the same order."""
_PAIRS_ACROSS = 0.75
"""Between frameworks, whose rows are not expected to be equal: as much as two steps of ten may be disturbed."""
_FEWEST_ROWS = 8
_LARGEST_DRIFT = float(np.log(1.3))
"""More than a busy machine explains."""
_DEVIATIONS = 3 * 1.4826  # of the median deviation: three standard deviations, were the noise normal


def quartiles(times: Times) -> tuple[float, float, float]:
    """Return what a quarter, half and three quarters of the steps stay below; numpy's own takes ten times as long."""
    ordered = np.sort(times)
    places = (len(ordered) - 1) * np.array([0.25, 0.5, 0.75])
    below = places.astype(np.int64)
    above = np.minimum(below + 1, len(ordered) - 1)
    low, half, high = (ordered[below] + (ordered[above] - ordered[below]) * (places - below)).tolist()
    return low, half, high


def middle(times: Times) -> float:
    """Return the median."""
    return quartiles(times)[1]


@dataclass(frozen=True)
class Noise:
    """What differences are measured against."""

    threshold: float
    step_ns: float
    """The longer of the two steps: sum of all rows, medians."""
    pairs: float = _PAIRS
    drift: float = 0.0
    """Logarithm of the ratio that most rows show."""
    scatter: float = 0.0
    """How far rows may lie from it."""

    def exceeded(self, baseline: Times, candidate: Times) -> bool:
        """Say whether a row differs. A side that lacks it has zeros."""
        before, after = middle(baseline), middle(candidate)
        needed = max(self.threshold * max(before, after), SMALLEST_SHARE * self.step_ns)
        if abs(after - before) <= needed or not _apart(baseline, candidate, self.pairs):
            return False
        return self._stands_out(before, after)

    def _stands_out(self, before: float, after: float) -> bool:
        if not before or not after:
            return True
        off = abs(np.log(after / before) - self.drift)
        return bool(off > max(self.scatter, -np.log1p(-min(self.threshold, 0.99))))


def _apart(baseline: Times, candidate: Times, pairs: float) -> bool:
    """Say whether so many pairs of a step of each side have the same order."""
    ordered = np.sort(baseline)
    below = np.searchsorted(ordered, candidate, side="left").sum()
    above = len(baseline) * len(candidate) - np.searchsorted(ordered, candidate, side="right").sum()
    return bool(max(below, above) >= pairs * len(baseline) * len(candidate))


def noise_of(
    rows: Sequence[tuple[Times, Times]], total: tuple[Times, Times], *, threshold: float, alike: bool
) -> Noise:
    """Estimate the noise between two sides.

    Args:
        rows: The times of the rows which both have.
        total: The times of all rows together.
        threshold: The smallest difference that matters, as a part of the larger side.
        alike: Whether both sides are of one framework, so that most of their rows should take equally long.
    """
    step_ns = max(map(middle, total))
    medians = np.array([[np.median(a), np.median(b)] for a, b in rows if len(a) and len(b)]).reshape(-1, 2)
    large = medians[
        (medians.min(axis=1, initial=np.inf) > 0) & (medians.max(axis=1, initial=0) > SMALLEST_SHARE * step_ns)
    ]
    if not alike:
        return Noise(threshold, step_ns, pairs=_PAIRS_ACROSS)
    if len(large) < _FEWEST_ROWS:
        return Noise(threshold, step_ns)
    ratios = np.log(large[:, 1] / large[:, 0])
    drift = float(np.median(ratios))
    scatter = float(_DEVIATIONS * np.median(np.abs(ratios - drift)))
    if abs(drift) > _LARGEST_DRIFT:
        drift = 0.0
    return Noise(threshold, step_ns, drift=drift, scatter=min(scatter, _LARGEST_DRIFT))
