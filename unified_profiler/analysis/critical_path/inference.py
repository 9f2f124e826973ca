"""Infers synchronization from the times of events, for profilers and traces that do not record it.

CUDA's profiler records which stream or call waits for which work only if it is asked to, and other devices do not.
"""

from __future__ import annotations

import numpy as np

from unified_profiler.analysis.columns import Flags
from unified_profiler.analysis.critical_path.columns import TraceColumns, kind_code
from unified_profiler.analysis.critical_path.device import Works
from unified_profiler.analysis.critical_path.host import Segments
from unified_profiler.model.nesting import Ints

SOON_NS = 20_000
"""Work that begins this soon after other work, or within 1 % of the time that nothing else explains, waited for it."""
SOON_AFTER_NS = 100_000
"""A host thread that leaves an operator this soon after its device has run out of work, or within 1 % of the time that
it was in the operator, waited for the device."""
LONG_NS = 1_000_000
"""A host thread that launches nothing for longer than this while its device has work waits for the device."""


def inferred_stream_edges(columns: TraceColumns, works: Works) -> list[tuple[int, int]]:
    """Return pairs of work on two streams of which the second waited for the first.

    It began later than its launch and the work before it on its stream explain, and the other work ended directly
    before, or took up most of the time in between.
    """
    start, end = columns.start[works.row], columns.end[works.row]
    ready = np.where(works.launch >= 0, columns.start[works.launch], start)
    same_lane = np.append(False, works.lane[1:] == works.lane[:-1])[: len(start)]
    ready = np.maximum(ready, np.where(same_lane, np.roll(end, 1), 0))
    by_end = np.argsort(end, kind="stable")
    last = by_end[np.maximum(np.searchsorted(end[by_end], start, side="right") - 1, 0)] if len(end) else by_end
    unexplained = start - ready
    overlap = end[last] - np.maximum(start[last], ready)
    waited = (end[last] <= start) & (unexplained > SOON_NS) & (works.stream[last] != works.stream)
    directly = start - end[last] <= np.maximum(unexplained // 100, SOON_NS)
    waited &= (directly & (end[last] > ready)) | (2 * overlap >= unexplained)
    waited &= end[last] > start[last]
    return list(zip(last[waited].tolist(), np.flatnonzero(waited).tolist(), strict=True))


def inferred_waits(columns: TraceColumns, works: Works, segments: Segments) -> tuple[Ints, Ints]:
    """Return segments of operators in which a host thread waited for a device, and the work whose end it waited for.

    A thread that launches nothing has waited if it leaves an operator when its device has just run out of work, or if
    it stays in it for long while the device has work all the time: the queue of launches was full, or the operator
    waits for an earlier result.
    """
    launched = np.flatnonzero(works.launch >= 0)
    if not len(launched):
        return launched, launched
    order = launched[np.argsort(columns.start[works.launch[launched]], kind="stable")]
    launches, reach = columns.start[works.launch[order]], np.maximum.accumulate(columns.end[works.row[order]])
    index = np.flatnonzero(_is_operator(columns, segments))
    start, end = segments.starts(index), segments.ends(index)
    before = np.searchsorted(launches, start, side="left") - 1
    busy_until = np.where(before >= 0, reach[np.maximum(before, 0)], 0)
    by_end = launched[np.argsort(columns.end[works.row[launched]], kind="stable")]
    last = by_end[np.maximum(np.searchsorted(columns.end[works.row[by_end]], end, side="right") - 1, 0)]
    ended = columns.end[works.row[last]]
    waited = (ended > start) & (ended <= end) & (columns.start[works.launch[last]] < start)
    soon = np.maximum((end - start) // 100, SOON_AFTER_NS)
    drained = (busy_until <= end) & (end - ended <= soon) & (end - start > SOON_AFTER_NS)
    outstanding = (busy_until > end) & (end - start > LONG_NS)
    waited &= drained | outstanding
    return index[waited], last[waited]


def _is_operator(columns: TraceColumns, segments: Segments) -> Flags:
    """Return the segments in which a thread is in an operator."""
    kinds: Ints = np.where(segments.row >= 0, columns.kind[segments.row], -1)
    operator: Flags = kinds == kind_code("op")
    return operator
