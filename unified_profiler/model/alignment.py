"""Aligns calls timed by the facade with the native events of the same thread.

Native profilers use other clocks, some with microsecond resolution. Where the start or end of a call falls inside a
native event by no more than the clocks may differ, it moves to the nearer edge of that event. Native timestamps never
change, and larger overlaps stay as recorded.
"""

from __future__ import annotations

import numpy as np

from unified_profiler.model.nesting import Ints, find_nesting, int_column, with_column
from unified_profiler.model.schema import EventTable

CLOCK_SLACK_NS = 20_000
"""Largest expected difference between a native clock and the facade's."""


def align_calls(calls: EventTable, events: EventTable) -> EventTable:
    """Return the calls, with starts and ends that cut native events by a little moved to the edges of these events."""
    start = int_column(calls, "start_ns").copy()
    end = start + int_column(calls, "duration_ns")
    call_thread, thread = int_column(calls, "tid"), int_column(events, "tid")
    event_start, duration = int_column(events, "start_ns"), int_column(events, "duration_ns")
    for tid in np.unique(call_thread):
        native = np.flatnonzero((thread == tid) & (duration > 0))
        if len(native):
            levels = _DepthLevels(event_start[native], duration[native])
            rows = np.flatnonzero(call_thread == tid)
            first, last = start[rows], end[rows]
            start[rows] = levels.snap(first, first, last)
            end[rows] = np.maximum(levels.snap(last, first, last), start[rows])
    return with_column(with_column(calls, "start_ns", start), "duration_ns", end - start)


class _DepthLevels:
    """The events of one thread by depth; those of one depth do not overlap."""

    def __init__(self, start: Ints, duration: Ints) -> None:
        same = np.zeros(len(start), np.int64)
        nesting = find_nesting(start, duration, same, same)
        in_tree = nesting.tid == 0
        self._levels = []
        for depth in range(int(nesting.depth.max(initial=0)) + 1):
            rows = np.flatnonzero((nesting.depth == depth) & in_tree)
            rows = rows[np.argsort(start[rows], kind="stable")]
            self._levels.append((start[rows], (start + duration)[rows]))

    def snap(self, moments: Ints, first: Ints, last: Ints) -> Ints:
        """Return new values for moments, each of which is the start or end of the call from `first` to `last`."""
        snapped = moments.copy()
        rows = np.arange(len(moments))
        for starts, ends in self._levels:
            if not len(rows) or not len(starts):
                break
            index = np.searchsorted(starts, moments[rows], side="left") - 1
            left, right = starts[np.maximum(index, 0)], ends[np.maximum(index, 0)]
            within = (index >= 0) & (right > moments[rows])
            encloses_call = within & (left <= first[rows]) & (right >= last[rows])
            nearer = np.where(moments[rows] - left < right - moments[rows], left, right)
            is_near = np.abs(nearer - moments[rows]) <= CLOCK_SLACK_NS
            cut = within & ~encloses_call & is_near
            snapped[rows[cut]] = nearer[cut]
            rows = rows[encloses_call]
        return snapped
