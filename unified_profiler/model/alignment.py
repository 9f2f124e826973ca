"""Making calls that the facade timed fit around the native events of the same thread.

Native profilers read other clocks, and some of them only to the microsecond. Where a border of a call cuts a native
event by no more than clocks may differ, the border moves to the nearer edge of that event: native numbers are never
changed. What overlaps by more is left as it was recorded.
"""

from __future__ import annotations

import numpy as np

from unified_profiler.model.nesting import Ints, find_nesting, whole_numbers, with_column
from unified_profiler.model.schema import EventTable

CLOCK_SLACK_NS = 20_000
"""By so much native clocks and the facade's may differ."""


def align(calls: EventTable, events: EventTable) -> EventTable:
    """Return the calls with their borders moved where they cut native events by a little."""
    start = whole_numbers(calls.column("start_ns")).copy()
    end = start + whole_numbers(calls.column("duration_ns"))
    call_thread, thread = whole_numbers(calls.column("tid")), whole_numbers(events.column("tid"))
    begin, duration = whole_numbers(events.column("start_ns")), whole_numbers(events.column("duration_ns"))
    for tid in np.unique(call_thread):
        here = np.flatnonzero((thread == tid) & (duration > 0))
        if len(here):
            lane = _Levels(begin[here], duration[here])
            rows = np.flatnonzero(call_thread == tid)
            first, last = start[rows], end[rows]
            start[rows] = lane.edges(first, first, last)
            end[rows] = np.maximum(lane.edges(last, first, last), start[rows])
    return with_column(with_column(calls, "start_ns", start), "duration_ns", end - start)


class _Levels:
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

    def edges(self, moments: Ints, first: Ints, last: Ints) -> Ints:
        """Return for each moment, a border of the span from `first` to `last`, where it moves to."""
        moved = moments.copy()
        rows = np.arange(len(moments))
        for begins, ends in self._levels:
            if not len(rows) or not len(begins):
                break
            place = np.searchsorted(begins, moments[rows], side="left") - 1
            left, right = begins[np.maximum(place, 0)], ends[np.maximum(place, 0)]
            within = (place >= 0) & (right > moments[rows])
            around = within & (left <= first[rows]) & (right >= last[rows])
            cut = within & ~around
            nearer = np.where(moments[rows] - left < right - moments[rows], left, right)
            small = cut & (np.abs(nearer - moments[rows]) <= CLOCK_SLACK_NS)
            moved[rows[small]] = nearer[small]
            rows = rows[around]
        return moved
