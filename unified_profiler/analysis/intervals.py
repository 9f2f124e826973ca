"""Sets of time intervals as sorted arrays: union, difference, and the time covered within each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unified_profiler.analysis.columns import Flags
from unified_profiler.model.nesting import Ints


@dataclass(frozen=True)
class IntervalSet:
    """Sorted intervals that neither overlap nor touch."""

    start: Ints
    end: Ints

    @classmethod
    def of(cls, start: Ints, end: Ints) -> IntervalSet:
        """Merge intervals that overlap or touch, and drop empty ones."""
        is_empty = end <= start
        if is_empty.any():
            start, end = start[~is_empty], end[~is_empty]
        if not len(start):
            return EMPTY
        if (np.diff(start) < 0).any():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reached = np.maximum.accumulate(end)
        first = np.append(True, start[1:] > reached[:-1])
        return cls(start[first], reached[np.append(first[1:], True)])

    def __or__(self, other: IntervalSet) -> IntervalSet:
        """Return the time that is in either set."""
        return IntervalSet.of(np.concatenate([self.start, other.start]), np.concatenate([self.end, other.end]))

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        """Return the time that is in this set and not in the other."""
        if not len(other.start) or not len(self.start):
            return self
        edges = np.union1d(np.concatenate([self.start, self.end]), np.concatenate([other.start, other.end]))
        start, end = edges[:-1], edges[1:]
        kept = self.contains(start) & ~other.contains(start)
        return IntervalSet.of(start[kept], end[kept])

    def contains(self, times: Ints) -> Flags:
        """Return whether each time lies in an interval."""
        index = np.searchsorted(self.start, times, side="right") - 1
        inside: Flags = (index >= 0) & (times < self.end[np.maximum(index, 0)])
        return inside

    def before(self, times: Ints) -> Ints:
        """Return the time that the intervals cover before each time."""
        if not len(self.start):
            return np.zeros(len(times), np.int64)
        covered = np.concatenate([[0], np.cumsum(self.end - self.start)])
        index = np.searchsorted(self.start, times, side="right") - 1
        nearest = np.maximum(index, 0)
        spent: Ints = np.where(
            index >= 0, covered[nearest] + np.minimum(times, self.end[nearest]) - self.start[nearest], 0
        )
        return spent

    def within(self, start: Ints, end: Ints) -> Ints:
        """Return the time that the intervals cover between each start and its end."""
        return self.before(end) - self.before(start)

    def cut(self, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """Cut the intervals at the borders of sorted frames; return frame index, start and end of each piece."""
        first = np.searchsorted(end, self.start, side="right")
        last = np.searchsorted(start, self.end, side="left")
        count = np.maximum(last - first, 0)
        row = np.repeat(np.arange(len(count)), count)
        frame = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        return frame, np.maximum(self.start[row], start[frame]), np.minimum(self.end[row], end[frame])


EMPTY = IntervalSet(np.zeros(0, np.int64), np.zeros(0, np.int64))
