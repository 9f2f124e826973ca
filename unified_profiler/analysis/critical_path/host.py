"""Cuts host threads into segments: the time between two borders of events belongs to the innermost event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unified_profiler.analysis.critical_path.columns import TraceColumns
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import Kind


@dataclass(frozen=True)
class LaneClock:
    """Packs a lane and a time into one integer, so that points of all lanes are sorted by one key."""

    base_ns: int
    bits: int

    @classmethod
    def covering(cls, start_ns: int, end_ns: int) -> LaneClock:
        """Return the clock for times from one to another."""
        return cls(start_ns, max(end_ns - start_ns + 1, 1).bit_length())

    def keys(self, lane: Ints | int, time: Ints) -> Ints:
        """Return the keys of times on lanes; times before the base belong to it."""
        shifted: Ints = np.left_shift(np.asarray(lane, np.int64), self.bits)
        keys: Ints = shifted + np.clip(time - self.base_ns, 0, (1 << self.bits) - 1)
        return keys

    def lane(self, keys: Ints) -> Ints:
        """Return the lanes of keys."""
        return np.right_shift(keys, self.bits)

    def time(self, keys: Ints) -> Ints:
        """Return the times of keys."""
        return np.bitwise_and(keys, (1 << self.bits) - 1) + self.base_ns


@dataclass(frozen=True)
class Segments:
    """Adjacent segments of host threads, sorted by lane and time, by which no time of a thread is counted twice."""

    clock: LaneClock
    key: Ints
    """Lane and start of each segment; it lasts to the next key of the lane."""
    row: Ints
    """The innermost event, -1 if there is none or the lane ends here."""

    @classmethod
    def of(cls, columns: TraceColumns, clock: LaneClock, main: int) -> Segments:
        """Cut the threads of a trace; the main thread begins with the clock."""
        rows = np.flatnonzero(columns.host)
        lane = columns.thread[rows]
        starts, ends = clock.keys(lane, columns.start[rows]), clock.keys(lane, columns.end[rows])
        first = clock.keys(main, np.array([clock.base_ns]))
        key = np.unique(np.concatenate([first, starts, ends]))
        depth = columns.events.column("depth").to_numpy()[rows]
        row = np.full(len(key), -1)
        # Of several events that end or start at one time, the last to be assigned wins: the outermost end, then the
        # innermost start.
        outward = np.argsort(-depth, kind="stable")
        row[np.searchsorted(key, ends[outward])] = columns.parent[rows[outward]]
        inward = outward[::-1]
        row[np.searchsorted(key, starts[inward])] = rows[inward]
        return cls(clock, key, row)

    def at(self, lane: Ints | int, time: Ints) -> Ints:
        """Return the index of the segment that contains each time or ends at it; -1 outside of the lane."""
        keys = self.clock.keys(lane, time)
        index = np.searchsorted(self.key, keys, side="left") - 1
        inside = (index >= 0) & (self.clock.lane(self.key[index]) == lane)
        return np.where(inside, index, -1)

    def starts(self, index: Ints) -> Ints:
        """Return when segments start."""
        return self.clock.time(self.key[index])

    def ends(self, index: Ints) -> Ints:
        """Return when segments end; the last border of a lane ends where it starts."""
        following = np.minimum(index + 1, len(self.key) - 1)
        same_lane = self.clock.lane(self.key[following]) == self.clock.lane(self.key[index])
        return self.clock.time(self.key[np.where(same_lane, following, index)])


def main_thread(columns: TraceColumns) -> int:
    """Return the number of the thread that makes the steps, else of the one that is busiest; -1 without threads."""
    steps = columns.host & columns.is_kind(Kind.STEP)
    if steps.any():
        return int(np.bincount(columns.thread[steps]).argmax())
    outer = np.flatnonzero(columns.host & (columns.parent < 0))
    if not len(outer):
        return -1
    duration = (columns.end - columns.start)[outer]
    return int(np.bincount(columns.thread[outer], weights=duration).argmax())
