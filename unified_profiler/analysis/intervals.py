"""Spans of time as sorted arrays: put together, cut, and measured per step. Every moment counts once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unified_profiler.model.nesting import Ints


@dataclass(frozen=True)
class Spans:
    """Spans that are sorted and neither overlap nor touch."""

    start: Ints
    end: Ints

    @classmethod
    def of(cls, start: Ints, end: Ints) -> Spans:
        """Make spans of any spans: what overlaps or touches becomes one, and what has no length is left out."""
        lasting = end > start
        if not lasting.all():
            start, end = start[lasting], end[lasting]
        if len(start) and (np.diff(start) < 0).any():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reached = np.maximum.accumulate(end) if len(end) else end
        first = np.append(True, start[1:] > reached[:-1]) if len(start) else np.zeros(0, bool)
        last = np.append(first[1:], True) if len(start) else first
        return cls(start[first], reached[last])

    def __or__(self, other: Spans) -> Spans:
        """Return the moments that are in one of them or in both."""
        return Spans.of(np.concatenate([self.start, other.start]), np.concatenate([self.end, other.end]))

    def __sub__(self, other: Spans) -> Spans:
        """Return the moments that are in this one and not in the other."""
        if not len(other.start) or not len(self.start):
            return self
        edges = np.union1d(np.concatenate([self.start, self.end]), np.concatenate([other.start, other.end]))
        start, end = edges[:-1], edges[1:]
        kept = self.holds(start) & ~other.holds(start)
        return Spans.of(start[kept], end[kept])

    def holds(self, moments: Ints) -> np.typing.NDArray[np.bool_]:
        """Say of each moment whether it is in a span."""
        place = np.searchsorted(self.start, moments, side="right") - 1
        inside: np.typing.NDArray[np.bool_] = (place >= 0) & (moments < self.end[np.maximum(place, 0)])
        return inside

    def before(self, moments: Ints) -> Ints:
        """Return how much time the spans take before each moment."""
        if not len(self.start):
            return np.zeros(len(moments), np.int64)
        whole = np.concatenate([[0], np.cumsum(self.end - self.start)])
        place = np.searchsorted(self.start, moments, side="right") - 1
        inside = np.minimum(moments, self.end[np.maximum(place, 0)]) - self.start[np.maximum(place, 0)]
        spent: Ints = np.where(place >= 0, whole[np.maximum(place, 0)] + inside, 0)
        return spent

    def within(self, start: Ints, end: Ints) -> Ints:
        """Return how much time the spans take between each start and its end."""
        return self.before(end) - self.before(start)

    def cut(self, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """Cut the spans at the borders of sorted frames: the number of the frame, start and end of each piece."""
        first = np.searchsorted(end, self.start, side="right")
        last = np.searchsorted(start, self.end, side="left")
        count = np.maximum(last - first, 0)
        row = np.repeat(np.arange(len(count)), count)
        frame = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        return frame, np.maximum(self.start[row], start[frame]), np.minimum(self.end[row], end[frame])


NEVER = Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""No moment at all."""
