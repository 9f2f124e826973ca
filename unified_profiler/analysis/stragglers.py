"""Which ranks are slow by their own doing, since which step, and in what: told over many steps, never from one.

A rank's own time in a step is its wall time less what it waited for others in collectives. A rank is slow if its own
time exceeds the middle of the other ranks', by enough to matter, in nearly all steps from some step on.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, erfc, sqrt

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]

THRESHOLD = 0.10
"""A rank is slow if it exceeds the others by more than this part of their own time."""
FEWEST_STEPS = 5
"""From fewer steps nothing is concluded."""
FEWEST_BEFORE = 3
"""Before a change there must be so many."""
UNSURE = 0.05
"""With more than this probability a change is none."""
CONSISTENT = 0.8
"""In so many of the steps it must be slower."""
CHANCE = 0.001
"""By chance it may look like this with at most this probability, over all ranks together."""
CAUSES = ("compute_ns", "data_ns", "copy_ns", "collective_ns", "uncovered_ns")


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """A rank that is slow by its own doing.

    Attributes:
        rank: The rank.
        since: The step from which on it is slow.
        changed: Whether it was as fast as the others before; False if it is slow from the first step on.
        extra_ns: By how much its own time exceeds that of the others in a step, in the median.
        extra_share: The same as a part of the others' own time.
        step_share: In how many of the steps since then it was slower than the others.
        chance: How likely ranks that are equally fast look like this at least once.
        step_count: How many steps since then were compared.
        cause: The part of the step that grew most: `compute`, `data`, `copy`, `collective` or `uncovered`.
        cause_ns: By how much, in a step.
        names: Operators and regions that take longer than elsewhere, and by how much, the largest first.
        waiting_ns: How long another rank waited in a step, in the median.
    """

    rank: int
    since: int
    changed: bool
    extra_ns: int
    extra_share: float
    step_share: float
    chance: float
    step_count: int
    cause: str
    cause_ns: int
    names: tuple[tuple[str, int], ...] = ()
    waiting_ns: int = 0


@dataclass(frozen=True)
class StepMatrix:
    """Times by step (rows) and rank (columns); nan where a rank has no such step."""

    ranks: list[int]
    steps: npt.NDArray[np.int64]
    times: dict[str, Floats]

    @classmethod
    def of(cls, table: pa.Table) -> StepMatrix:
        """Put the rows of a rank table in order."""
        rank, step = (table.column(name).to_numpy() for name in ("rank", "step"))
        ranks, column = np.unique(rank, return_inverse=True)
        steps, row = np.unique(step, return_inverse=True)
        names = [name for name in table.column_names if name.endswith("_ns")]
        times = {name: np.full((len(steps), len(ranks)), np.nan) for name in names}
        for name, matrix in times.items():
            matrix[row, column] = table.column(name).to_numpy()
        return cls(ranks.tolist(), steps, times)

    def excess(self, name: str) -> Floats:
        """Return by how much each rank exceeds the middle of the others."""
        return _over_others(self.times[name])


def stragglers(matrix: StepMatrix) -> list[Straggler]:
    """Return the ranks that are slow by their own doing, the slowest first."""
    if len(matrix.ranks) < 2:
        return []
    own = matrix.times["own_ns"]
    excess = matrix.excess("own_ns")
    found = [_straggler(matrix, index, excess[:, index], own[:, index]) for index in range(len(matrix.ranks))]
    return sorted((each for each in found if each is not None), key=lambda each: -each.extra_ns)


def _straggler(matrix: StepMatrix, index: int, excess: Floats, own: Floats) -> Straggler | None:
    usual = own - excess
    rows = np.flatnonzero(np.isfinite(excess))
    if len(rows) < FEWEST_STEPS:
        return None
    share = excess[rows] / usual[rows]
    found = _evidence(matrix, index, rows, share, _beginning(excess[rows], share))
    if not found.convinces:
        return None
    began = found.first and _beginning(_grown(matrix, index, found.cause)[rows], share)
    sharper = _evidence(matrix, index, rows, share, began or found.first)
    found = sharper if sharper.convinces else found
    return Straggler(
        rank=matrix.ranks[index],
        since=int(matrix.steps[rows[found.first]]),
        changed=found.first > 0,
        extra_ns=int(np.median(excess[rows[found.first :]])),
        extra_share=found.extra_share,
        step_share=found.step_share,
        chance=found.chance,
        step_count=found.step_count,
        cause=found.cause.removesuffix("_ns"),
        cause_ns=found.cause_ns,
        waiting_ns=_waiting(matrix, index, rows[found.first :]),
    )


@dataclass(frozen=True)
class _Evidence:
    """What speaks for a rank being slow from its n-th step, `first`, on."""

    first: int
    extra_share: float
    step_share: float
    chance: float
    step_count: int
    cause: str
    cause_ns: int

    @property
    def convinces(self) -> bool:
        large = self.extra_share >= THRESHOLD and self.step_share >= CONSISTENT
        return large and self.step_count >= FEWEST_STEPS and self.chance <= CHANCE


def _evidence(matrix: StepMatrix, index: int, rows: npt.NDArray[np.int64], share: Floats, first: int) -> _Evidence:
    """Weigh the steps from one on.

    The part that grew most may tell more clearly than the whole, in which single steps that took the others long hide
    it. That one of several parts was chosen counts against it.
    """
    after = share[first:]
    cause, cause_ns = _cause(matrix, index, rows, first)
    grown = _grown(matrix, index, cause)[rows]
    chance = min(_chance(share, first), len(CAUSES) * _chance(grown, first))
    return _Evidence(
        first=first,
        extra_share=float(np.median(after)),
        step_share=float((after > THRESHOLD / 2).mean()),
        chance=min(1.0, 2 * len(matrix.ranks) * chance),
        step_count=len(after),
        cause=cause,
        cause_ns=cause_ns,
    )


def _beginning(excess: Floats, share: Floats) -> int:
    """Return where the rank became slow: the place at which later steps exceed earlier ones most; 0 without one.

    The place is told by the excess as time: as a part of the others' time it varies with theirs, too.
    """
    places = np.arange(FEWEST_BEFORE, len(excess) - FEWEST_STEPS + 1)
    if not len(places):
        return 0
    place = _change(excess, places)
    sure = len(excess) * 0.5 * erfc(_above(excess, place) / sqrt(2)) < UNSURE
    return place if sure and np.median(share[:place]) < np.median(share[place:]) - THRESHOLD / 2 else 0


def _change(excess: Floats, places: npt.NDArray[np.int64]) -> int:
    """Return the place before and after which values are closest to two levels; single ones far off count little."""
    near = np.clip(excess, *np.percentile(excess, [5, 95]))
    before = np.cumsum(near)[places - 1]
    after = near.sum() - before
    count = len(excess)
    return int(places[np.argmax(before**2 / places + after**2 / (count - places))])


def _above(excess: Floats, place: int) -> float:
    """Say by how many standard deviations the steps from a place on are above those before (Mann and Whitney)."""
    before, after = np.sort(excess[:place]), excess[place:]
    below, up_to = (np.searchsorted(before, after, side=side).sum() for side in ("left", "right"))
    wins = (float(below) + float(up_to)) / 2  # a draw is half a win
    pairs = place * len(after)
    return float((wins - pairs / 2 - 0.5) / sqrt(pairs * (len(excess) + 1) / 12))


def _chance(excess: Floats, first: int) -> float:
    """Return how likely it looks like this by chance, for each place at which the change could have been.

    That is the probability that a fair coin shows as many heads as steps are slower than the others', or that of the
    ranks of the later steps among all, whichever is the surer sign.
    """
    after = excess[first:]
    slower, count = int((after > 0).sum()), len(after)
    coin = float(sum(comb(count, k) for k in range(slower, count + 1)) / 2**count)
    if not first:
        return coin
    change = 0.5 * erfc(_above(excess, first) / sqrt(2))
    return 2 * len(excess) * min(coin, change)


def _cause(matrix: StepMatrix, index: int, rows: npt.NDArray[np.int64], first: int) -> tuple[str, int]:
    """Return the part that grew most since then; compared with the others, and with itself before."""
    grown = {}
    for name in CAUSES:
        excess = _grown(matrix, index, name)[rows]
        grown[name] = float(np.median(excess[first:])) - (float(np.median(excess[:first])) if first else 0.0)
    worst = max(grown, key=lambda name: grown[name])
    return worst, int(grown[worst])


def _grown(matrix: StepMatrix, index: int, name: str) -> Floats:
    """Return by how much a part of a rank's steps exceeds that of the others, without waiting for them."""
    excess = matrix.excess(name)[:, index]
    return excess - matrix.excess("waiting_ns")[:, index] if name == "collective_ns" else excess


def _waiting(matrix: StepMatrix, index: int, rows: npt.NDArray[np.int64]) -> int:
    others = np.delete(matrix.times["waiting_ns"][rows], index, axis=1)
    return int(np.nanmedian(others))


def _over_others(times: Floats) -> Floats:
    """Subtract from each value the median of the other columns of its row."""
    ordered = np.sort(times, axis=1)  # nan last
    place = np.argsort(np.argsort(times, axis=1, kind="stable"), axis=1, kind="stable")
    count = np.isfinite(times).sum(axis=1, keepdims=True) - 1  # the others
    low, high = np.maximum(count - 1, 0) // 2, np.maximum(count, 0) // 2
    low, high = (np.where(position >= place, position + 1, position) for position in (low, high))
    most = times.shape[1] - 1
    values = [np.take_along_axis(ordered, np.minimum(position, most), axis=1) for position in (low, high)]
    others: Floats = np.where(count > 0, (values[0] + values[1]) / 2, np.nan)
    return times - others
