"""Fits the facade's steps and regions around the native events of the same thread, which another clock timed.

Where the start or end of a span cuts a native event, it moves to an edge of that event; native timestamps never
change. A region's boundary moves to the nearer edge. An event that a step ends in, such as an optimizer hook, belongs
to the step in which it began. No boundary moves by more than `largest_move_ns`.

If a boundary would have to move further, it stays, and its span moves to another lane, because events on a lane must
nest. Spans that overlap it move with it, so that spans still nest among each other, and native events among each
other. Steps annotated by a native profiler repeat the facade's: they move no boundary, and change the lane themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from unified_profiler.model.alignment import CLOCK_SLACK_NS
from unified_profiler.model.nesting import FIRST_LANE, Ints, int_column, is_kind, with_column
from unified_profiler.model.overlaps import overlapping
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.model.tree import Flags


def largest_move_ns(span_ns: int) -> int:
    """Return how far a boundary may move: 1 % of its span, or the clock slack if that is within 10 %.

    Args:
        span_ns: Length of the span; for the boundary between two steps, of the shorter one.
    """
    return max(span_ns // 100, min(CLOCK_SLACK_NS, span_ns // 10))


def fit_spans(own: EventTable, events: EventTable) -> tuple[EventTable, EventTable]:
    """Return spans and events such that no boundary of a span cuts an event of its lane.

    Args:
        own: Steps and regions timed by the facade.
        events: Native events, and calls aligned with them.
    """
    spans, native = _Intervals.of(own), _Intervals.of(events)
    is_step, is_native_step = is_kind(own, Kind.STEP), is_kind(events, Kind.STEP)
    free_lane = max(FIRST_LANE, *(int(intervals.tid.max(initial=0)) + 1 for intervals in (spans, native)))
    for thread in np.unique(spans.tid):
        span_rows = np.flatnonzero(spans.tid == thread)
        native_rows = np.flatnonzero((native.tid == thread) & (native.end > native.start))
        is_candidate = is_native_step[native_rows]
        index = _IntervalIndex(native.take(native_rows[~is_candidate]))
        _move_boundaries(spans, span_rows, is_step, index)
        spans.tid[span_rows[_leaves_lane(spans.take(span_rows), index)]] = free_lane
        overlaps = _overlapping(is_candidate, native.take(native_rows), spans.take(span_rows))
        native.tid[native_rows[overlaps]] = free_lane + 1
        free_lane += 2
    return spans.written_to(own), native.written_to(events)


@dataclass(frozen=True)
class _Intervals:
    """Start, end and lane of each event of a table."""

    start: Ints
    end: Ints
    tid: Ints

    @classmethod
    def of(cls, table: EventTable) -> _Intervals:
        start, duration, tid = (int_column(table, name) for name in ("start_ns", "duration_ns", "tid"))
        return cls(start.copy(), start + duration, tid.copy())

    def take(self, rows: Ints) -> _Intervals:
        return _Intervals(self.start[rows], self.end[rows], self.tid[rows])

    def written_to(self, table: EventTable) -> EventTable:
        """Return the table with these values; lanes that were null and did not change stay null."""
        is_unknown = table.column("tid").is_null().to_numpy() & (self.tid < 0)
        table = with_column(table, "start_ns", self.start)
        table = with_column(table, "duration_ns", self.end - self.start)
        return with_column(table, "tid", pa.array(self.tid, mask=is_unknown))


_NONE = np.empty(0, np.int64)


class _IntervalIndex:
    """Intervals sorted by start, to find those that contain a moment."""

    def __init__(self, events: _Intervals) -> None:
        order = np.argsort(events.start, kind="stable")
        self._start, self._end = events.start[order], events.end[order]
        self._latest_end = np.maximum.accumulate(self._end) if len(order) else self._end

    def cut_by(self, moment: int, first: int, last: int) -> tuple[Ints, Ints]:
        """Return starts and ends of the intervals that a moment cuts, longest first, less those around a span."""
        before = int(np.searchsorted(self._start, moment, side="left"))
        if not before or self._latest_end[before - 1] <= moment:
            return _NONE, _NONE
        since = int(np.searchsorted(self._latest_end[:before], moment, side="right"))
        start, end = self._start[since:before], self._end[since:before]
        cut = np.flatnonzero((end > moment) & ~((start <= first) & (end >= last)))
        cut = cut[np.argsort(start[cut] - end[cut], kind="stable")]
        return start[cut], end[cut]


def _move_boundaries(spans: _Intervals, rows: Ints, is_step: Flags, index: _IntervalIndex) -> None:
    """Move the boundaries of the spans of a thread; one between two steps moves for both."""
    steps = spans.take(rows[is_step[rows]])
    starts, ends = steps.start.tolist(), steps.end.tolist()
    start_before, end_after = dict(zip(ends, starts, strict=True)), dict(zip(starts, ends, strict=True))
    for row in rows.tolist():
        first, last, of_step = int(spans.start[row]), int(spans.end[row]), bool(is_step[row])
        before = start_before.get(first, first) if of_step else first
        after = end_after.get(last, last) if of_step else last
        spans.start[row] = _Boundary(first, before, last, of_step).moved(index)
        spans.end[row] = max(_Boundary(last, first, after, of_step).moved(index), spans.start[row])


@dataclass(frozen=True)
class _Boundary:
    """The start or end of a span."""

    moment: int
    first: int
    """Start of the span, or of the step that ends here."""
    last: int
    """End of the span, or of the step that begins here."""
    of_step: bool

    def moved(self, index: _IntervalIndex) -> int:
        """Return the new moment: an edge of the longest interval that it cuts and that is near enough."""
        starts, ends = index.cut_by(self.moment, self.first, self.last)
        edges = (self._edge(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
        return next((edge for edge in edges if abs(edge - self.moment) <= self._limit), self.moment)

    def _edge(self, start: int, end: int) -> int:
        elapsed, remaining = self.moment - start, end - self.moment
        if self.of_step and elapsed > min(CLOCK_SLACK_NS, self._limit):
            return end
        return start if elapsed < remaining else end

    @property
    def _limit(self) -> int:
        lengths = [length for length in (self.moment - self.first, self.last - self.moment) if length > 0]
        return largest_move_ns(min(lengths, default=0))


def _leaves_lane(spans: _Intervals, index: _IntervalIndex) -> Flags:
    """Flag the spans that still cut an event, and those that overlap one of them, directly or through others."""
    boundaries = zip(spans.start.tolist(), spans.end.tolist(), strict=True)
    cuts = np.array([any(len(index.cut_by(moment, *span)[0]) for moment in span) for span in boundaries])
    order = np.argsort(spans.start, kind="stable")
    latest_end = np.maximum.accumulate(spans.end[order])
    group = np.zeros(len(order), np.int64)
    group[order] = np.cumsum(np.append([0], spans.start[order][1:] >= latest_end[:-1]))
    return np.isin(group, group[cuts])


def _overlapping(candidates: Flags, events: _Intervals, spans: _Intervals) -> Flags:
    """Flag those of the candidates among the events that overlap partly with another event or with a span."""
    start, end, lane = (np.append(getattr(events, name), getattr(spans, name)) for name in ("start", "end", "tid"))
    return overlapping(start, end, lane, np.append(candidates, np.zeros(len(spans.start), np.bool_)))[: len(candidates)]
