"""Python frames that cut annotations: `__enter__` and `__exit__` of a record_function begin before it and end inside.

No tree holds both. The annotation matters more, so such a frame goes to a lane of its own beside its thread.
"""

from __future__ import annotations

import numpy as np

from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags, Tree


def cutting_frames(start: Ints, end: Ints, tid: Ints, frames: Flags, annotations: Flags) -> Flags:
    """Say which frames overlap partly with an annotation of their thread."""
    found = np.zeros(len(start), np.bool_)
    for thread in np.unique(tid[annotations]):
        here = np.flatnonzero(frames & (tid == thread))
        here = here[np.lexsort((-end[here], start[here]))]
        chain = _Chain(start[here], end[here])
        for row in np.flatnonzero(annotations & (tid == thread)).tolist():
            found[here[chain.cutting(int(start[row]), int(end[row]))]] = True
    return found


class _Chain:
    """The frames of one thread by start, for looking up which of them are open at a moment."""

    def __init__(self, start: Ints, end: Ints) -> None:
        zero = np.zeros(len(start), np.int64)
        self.start, self.end = start, end
        self.parent = Tree.of(start, end - start, zero, zero).parent

    def cutting(self, start: int, end: int) -> list[int]:
        """Return the frames that hold one of the two moments but not the other."""
        first = [frame for frame in self._open_at(start) if self.end[frame] < end]
        last = [frame for frame in self._open_at(end) if self.start[frame] > start]
        return first + last

    def _open_at(self, moment: int) -> list[int]:
        frame = int(np.searchsorted(self.start, moment, side="left")) - 1
        found = []
        while frame >= 0:
            if self.end[frame] > moment:
                found.append(frame)
            frame = int(self.parent[frame])
        return found
