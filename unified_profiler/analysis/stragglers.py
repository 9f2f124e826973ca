"""Finds ranks that are slow because of their own work, the step since which they are, and the cause.

A rank's own time in a step is its wall time less its wait for others in collectives. A rank is slow if its own time
exceeds the median of the other ranks' by enough to matter, in nearly all steps from some step on. A sign test and a
Mann-Whitney test over all these steps keep chance from being reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, erfc, sqrt

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.nesting import Ints

Floats = npt.NDArray[np.float64]

THRESHOLD = 0.10
"""A rank is slow if it exceeds the others by more than this share of their own time."""
FEWEST_STEPS = 5
"""No conclusion is drawn from fewer steps."""
FEWEST_BEFORE = 3
"""The fewest steps before a change."""
CHANGE_P_VALUE = 0.05
"""The largest p-value of a change point."""
CONSISTENT = 0.8
"""The smallest share of steps in which a slow rank is slower than the others."""
LARGEST_P_VALUE = 0.001
"""The largest p-value of a slow rank, corrected for the number of ranks."""
CAUSES = ("compute_ns", "data_ns", "copy_ns", "collective_ns", "uncovered_ns")


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """A rank that is slow because of its own work.

    Attributes:
        rank: The rank.
        since: The first step in which it is slow.
        changed: Whether it was as fast as the others before; False if it is slow from the first step on.
        extra_ns: How much its own time exceeds that of the others in a step, median.
        extra_share: The same as a share of the others' own time.
        step_share: The share of the steps since then in which it was slower than the others.
        p_value: The probability that at least one of several equally fast ranks looks like this.
        step_count: How many steps since then were compared.
        cause: The part of the step that grew most: `compute`, `data`, `copy`, `collective` or `uncovered`.
        cause_ns: How much it grew in a step.
        names: Operators and regions that take longer than on the other ranks, and how much, the largest first.
        waiting_ns: How long another rank waited in a step, median.
    """

    rank: int
    since: int
    changed: bool
    extra_ns: int
    extra_share: float
    step_share: float
    p_value: float
    step_count: int
    cause: str
    cause_ns: int
    names: tuple[tuple[str, int], ...] = ()
    waiting_ns: int = 0


@dataclass(frozen=True)
class StepMatrix:
    """Times by step (rows) and rank (columns); nan where a rank lacks a step."""

    ranks: list[int]
    steps: Ints
    times: dict[str, Floats]

    @classmethod
    def of(cls, table: pa.Table) -> StepMatrix:
        """Arrange the rows of a rank table."""
        rank, step = (table.column(name).to_numpy() for name in ("rank", "step"))
        ranks, column = np.unique(rank, return_inverse=True)
        steps, row = np.unique(step, return_inverse=True)
        names = [name for name in table.column_names if name.endswith("_ns")]
        times = {name: np.full((len(steps), len(ranks)), np.nan) for name in names}
        for name, matrix in times.items():
            matrix[row, column] = table.column(name).to_numpy()
        return cls(ranks.tolist(), steps, times)

    def excess(self, name: str) -> Floats:
        """Return how much each rank exceeds the median of the others."""
        return _minus_median_of_others(self.times[name])

    def own_excess(self, name: str, column: int) -> Floats:
        """Return how much a part of one rank's steps exceeds that of the others, without its wait for them."""
        excess = self.excess(name)[:, column]
        return excess - self.excess("waiting_ns")[:, column] if name == "collective_ns" else excess


def stragglers(matrix: StepMatrix) -> list[Straggler]:
    """Return the ranks that are slow because of their own work, the slowest first."""
    if len(matrix.ranks) < 2:
        return []
    own = matrix.times["own_ns"]
    excess = matrix.excess("own_ns")
    slow = [_straggler(matrix, column, excess[:, column], own[:, column]) for column in range(len(matrix.ranks))]
    return sorted((each for each in slow if each is not None), key=lambda each: -each.extra_ns)


def _straggler(matrix: StepMatrix, column: int, excess: Floats, own: Floats) -> Straggler | None:
    rows = np.flatnonzero(np.isfinite(excess))
    if len(rows) < FEWEST_STEPS:
        return None
    excess = excess[rows]
    share = excess / (own[rows] - excess)
    first = _change_point(excess, share)
    straggler = _candidate(matrix, column, rows, excess, share, first)
    if not _is_conclusive(straggler):
        return None
    of_cause = matrix.own_excess(f"{straggler.cause}_ns", column)[rows]
    refined = _candidate(matrix, column, rows, excess, share, (first and _change_point(of_cause, share)) or first)
    return refined if _is_conclusive(refined) else straggler


def _is_conclusive(straggler: Straggler) -> bool:
    large = straggler.extra_share >= THRESHOLD and straggler.step_share >= CONSISTENT
    return large and straggler.step_count >= FEWEST_STEPS and straggler.p_value <= LARGEST_P_VALUE


def _candidate(matrix: StepMatrix, column: int, rows: Ints, excess: Floats, share: Floats, first: int) -> Straggler:
    """Describe a rank as if it were slow from its n-th step, `first`, on.

    The part that grew most may be clearer evidence than the whole step, where single steps in which the others were
    slow hide it. Its p-value is multiplied by the number of parts it was chosen from, and the result by twice the
    number of ranks (Bonferroni correction).
    """
    after = share[first:]
    cause, cause_ns = _cause(matrix, column, rows, first)
    of_cause = _p_value(matrix.own_excess(cause, column)[rows], first)
    return Straggler(
        rank=matrix.ranks[column],
        since=int(matrix.steps[rows[first]]),
        changed=first > 0,
        extra_ns=int(np.median(excess[first:])),
        extra_share=float(np.median(after)),
        step_share=float((after > THRESHOLD / 2).mean()),
        p_value=min(1.0, 2 * len(matrix.ranks) * min(_p_value(share, first), len(CAUSES) * of_cause)),
        step_count=len(after),
        cause=cause.removesuffix("_ns"),
        cause_ns=cause_ns,
        waiting_ns=int(np.nanmedian(np.delete(matrix.times["waiting_ns"][rows[first:]], column, axis=1))),
    )


def _change_point(excess: Floats, share: Floats) -> int:
    """Return the index of the step from which on the rank is slower than before; 0 if there is none.

    The index is found by the excess in nanoseconds, since the share also varies with the time of the others.
    """
    candidates = np.arange(FEWEST_BEFORE, len(excess) - FEWEST_STEPS + 1)
    if not len(candidates):
        return 0
    index = _best_split(excess, candidates)
    is_significant = len(excess) * _mann_whitney_p(excess, index) < CHANGE_P_VALUE
    return index if is_significant and np.median(share[:index]) < np.median(share[index:]) - THRESHOLD / 2 else 0


def _best_split(excess: Floats, candidates: Ints) -> int:
    """Return the candidate at which a step function fits best by least squares; outliers are clipped before."""
    clipped = np.clip(excess, *np.percentile(excess, [5, 95]))
    before = np.cumsum(clipped)[candidates - 1]
    after = clipped.sum() - before
    count = len(excess)
    return int(candidates[np.argmax(before**2 / candidates + after**2 / (count - candidates))])


def _mann_whitney_z(excess: Floats, index: int) -> float:
    """Return the z-score of the steps from an index on against those before, by the Mann-Whitney U test.

    H. B. Mann, D. R. Whitney: On a test of whether one of two random variables is stochastically larger than the
    other. Annals of Mathematical Statistics 18 (1947). Normal approximation with continuity correction; a tie is half
    a win.
    """
    before, after = np.sort(excess[:index]), excess[index:]
    below, up_to = (np.searchsorted(before, after, side=side).sum() for side in ("left", "right"))
    wins = (float(below) + float(up_to)) / 2
    pairs = index * len(after)
    return float((wins - pairs / 2 - 0.5) / sqrt(pairs * (len(excess) + 1) / 12))


def _mann_whitney_p(excess: Floats, index: int) -> float:
    return 0.5 * erfc(_mann_whitney_z(excess, index) / sqrt(2))


def _p_value(excess: Floats, first: int) -> float:
    """Return the p-value of the steps from the n-th on, corrected for the number of possible change points.

    It is the smaller one of two tests: a one-sided sign test of how many steps are slower than the others' (a binomial
    test with probability 1/2), and, after a change, the Mann-Whitney test of the steps after it against those before.
    """
    after = excess[first:]
    slower, count = int((after > 0).sum()), len(after)
    sign_test = float(sum(comb(count, k) for k in range(slower, count + 1)) / 2**count)
    if not first:
        return sign_test
    return 2 * len(excess) * min(sign_test, _mann_whitney_p(excess, first))


def _cause(matrix: StepMatrix, column: int, rows: Ints, first: int) -> tuple[str, int]:
    """Return the part that grew most since then, relative to the other ranks and to the steps before."""
    growth = {}
    for name in CAUSES:
        excess = matrix.own_excess(name, column)[rows]
        growth[name] = float(np.median(excess[first:])) - (float(np.median(excess[:first])) if first else 0.0)
    largest = max(growth, key=lambda name: growth[name])
    return largest, int(growth[largest])


def _minus_median_of_others(times: Floats) -> Floats:
    """Subtract from each value the median of the other columns of its row."""
    ordered = np.sort(times, axis=1)  # nan last
    position = np.argsort(np.argsort(times, axis=1, kind="stable"), axis=1, kind="stable")
    others = np.isfinite(times).sum(axis=1, keepdims=True) - 1
    low, high = np.maximum(others - 1, 0) // 2, np.maximum(others, 0) // 2
    last = times.shape[1] - 1
    values = [
        np.take_along_axis(ordered, np.minimum(np.where(middle >= position, middle + 1, middle), last), axis=1)
        for middle in (low, high)
    ]
    excess: Floats = times - np.where(others > 0, (values[0] + values[1]) / 2, np.nan)
    return excess
