"""Intervals in which a host thread waits: for a device, for another thread, or for another rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unified_profiler.analysis.columns import Flags
from unified_profiler.analysis.critical_path.arrivals import Arrivals
from unified_profiler.analysis.critical_path.columns import TraceColumns
from unified_profiler.analysis.critical_path.device import DeviceWaits
from unified_profiler.analysis.critical_path.host import LaneClock, Segments
from unified_profiler.analysis.critical_path.threads import ThreadLinks
from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import Kind


@dataclass(frozen=True)
class HostWaits:
    """Waits on host lanes, each within one segment, and at most one in a segment."""

    lane: Ints
    start: Ints
    end: Ints

    @classmethod
    def chosen(cls, segments: Segments, *candidates: HostWaits) -> HostWaits:
        """Keep of the waits in one segment the one that ends last, cut to the segment."""
        lane, start, end = (
            np.concatenate([getattr(each, name) for each in candidates]) for name in ("lane", "start", "end")
        )
        segment = segments.at(lane, end)
        order = np.lexsort((end, segment))
        order = order[segment[order] >= 0]
        kept = order[np.append(segment[order][1:] != segment[order][:-1], True)] if len(order) else order
        begin = np.maximum(start[kept], segments.starts(segment[kept]))
        return cls(lane[kept], begin, end[kept])

    def split(self, lane: int, times: Ints) -> HostWaits:
        """Let waits on a lane begin no earlier than the last of some times before their end, so that none is inside."""
        if not len(times):
            return self
        times = np.sort(times)
        index = np.searchsorted(times, self.end, side="left") - 1
        inside = (self.lane == lane) & (index >= 0)
        return HostWaits(self.lane, np.where(inside, np.maximum(self.start, times[index]), self.start), self.end)

    def contains(self, clock: LaneClock, keys: Ints) -> Flags:
        """Return the keys that lie within a wait, neither at its start nor at its end."""
        begin, end = clock.keys(self.lane, self.start), clock.keys(self.lane, self.end)
        order = np.argsort(begin)
        begin, end = begin[order], end[order]
        if not len(begin):
            return np.zeros(len(keys), np.bool_)
        index = np.searchsorted(begin, keys, side="left") - 1
        inside: Flags = (index >= 0) & (keys < end[np.maximum(index, 0)])
        return inside


def waits_for_devices(columns: TraceColumns, segments: Segments, waits: DeviceWaits) -> HostWaits:
    """Return the waits of synchronizing calls that take no other call."""
    rows, first = np.unique(waits.call, return_index=True)
    end = waits.resumed[first]
    segment = segments.at(columns.thread[rows], end)
    waited = (end > columns.start[rows]) & (segments.row[segment] == rows)
    rows, end = rows[waited], end[waited]
    return HostWaits(columns.thread[rows], columns.start[rows], end)


def waits_for_threads(links: ThreadLinks, main: int) -> HostWaits:
    """Return the waits of the main thread for other threads."""
    return HostWaits(np.full(len(links.wait_end), main), links.wait_start, links.wait_end)


def waits_for_ranks(columns: TraceColumns, arrivals: Arrivals) -> tuple[HostWaits, Ints]:
    """Return the waits in collectives on host threads, and the numbers of the arrivals."""
    rows = host_collectives(columns, arrivals)
    known = rows >= 0
    rows = rows[known]
    waits = HostWaits(columns.thread[rows], columns.start[rows], arrivals.ready[known])
    return waits, arrivals.number[known]


def host_collectives(columns: TraceColumns, arrivals: Arrivals) -> Ints:
    """Return the row of each collective on a host thread, -1 for others; the innermost of equal ones."""
    rows = np.flatnonzero(columns.host & columns.is_kind(Kind.COLLECTIVE))[::-1]
    return rows_at(columns, rows, arrivals)


def rows_at(columns: TraceColumns, rows: Ints, arrivals: Arrivals) -> Ints:
    """Return for each collective the one of some rows with the same start and end, -1 if there is none."""
    index = look_up(arrivals.start, columns.start[rows])
    same_end = np.where(index >= 0, columns.end[rows[index]] if len(rows) else 0, -1)
    return np.where((index >= 0) & (same_end == arrivals.end), rows[index] if len(rows) else -1, -1)
