"""Finds Python frames that partly overlap an annotation.

`__enter__` and `__exit__` of a record_function begin before the annotation and end inside it, or the reverse. No tree
can hold both. The annotation matters more, so the frame is moved to a separate lane of its thread.
"""

from __future__ import annotations

import numpy as np

from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags, Tree


def overlapping_frames(start: Ints, end: Ints, tid: Ints, frames: Flags, annotations: Flags) -> Flags:
    """Flag the frames that partly overlap an annotation of their thread."""
    flags = np.zeros(len(start), np.bool_)
    for thread in np.unique(tid[annotations]):
        rows = np.flatnonzero(frames & (tid == thread))
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        thread_frames = _ThreadFrames(start[rows], end[rows])
        for annotation in np.flatnonzero(annotations & (tid == thread)).tolist():
            flags[rows[thread_frames.overlapping(int(start[annotation]), int(end[annotation]))]] = True
    return flags


class _ThreadFrames:
    """The frames of one thread, ordered by start, for looking up those open at a given time."""

    def __init__(self, start: Ints, end: Ints) -> None:
        zero = np.zeros(len(start), np.int64)
        self.start, self.end = start, end
        self.parent = Tree.of(start, end - start, zero, zero).parent

    def overlapping(self, start: int, end: int) -> list[int]:
        """Return the frames that contain exactly one of the two times."""
        open_at_start = [frame for frame in self._open_at(start) if self.end[frame] < end]
        return open_at_start + [frame for frame in self._open_at(end) if self.start[frame] > start]

    def _open_at(self, time: int) -> list[int]:
        frame = int(np.searchsorted(self.start, time, side="left")) - 1
        frames = []
        while frame >= 0:
            if self.end[frame] > time:
                frames.append(frame)
            frame = int(self.parent[frame])
        return frames
