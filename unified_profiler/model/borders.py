"""Fits the facade's steps and regions around the native events of the same thread, which another clock timed.

Where a border of such a span cuts a native event, the border moves to an edge of that event: native numbers are never
changed. For a region it is the nearer edge; an event that a step ends in, as a hook of the optimizer does, belongs to
the step in which it began. No border moves by more than `largest_move_ns`.

A border that would have to move further stays, and the span leaves its lane, since on a lane events nest. The spans
that it overlaps leave with it: so spans still nest among each other, and native events among each other. Steps that a
native profiler annotated are the facade's, timed once more: they move no border, and leave the lane themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from unified_profiler.model.alignment import CLOCK_SLACK_NS
from unified_profiler.model.nesting import FIRST_LANE, Ints, of_kind, whole_numbers, with_column
from unified_profiler.model.overlaps import overlapping
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.model.tree import Flags


def largest_move_ns(span_ns: int) -> int:
    """Return how far a border may move: 1 % of its span, or as far as clocks may differ if that is within a tenth.

    Args:
        span_ns: Length of the span; for a border between two steps, of the shorter one.
    """
    return max(span_ns // 100, min(CLOCK_SLACK_NS, span_ns // 10))


def fit(own: EventTable, events: EventTable) -> tuple[EventTable, EventTable]:
    """Return spans and events such that no border of a span cuts an event of its lane.

    Args:
        own: Steps and regions timed by the facade.
        events: Native events, and calls that fit them.
    """
    spans, native = _Rows.of(own), _Rows.of(events)
    is_step, annotated = of_kind(own, Kind.STEP), of_kind(events, Kind.STEP)
    spare = max(FIRST_LANE, *(int(rows.tid.max(initial=0)) + 1 for rows in (spans, native)))
    for thread in np.unique(spans.tid):
        mine = np.flatnonzero(spans.tid == thread)
        here = np.flatnonzero((native.tid == thread) & (native.end > native.start))
        lane = _Lane(native.take(here[~annotated[here]]))
        _move(spans, mine, is_step, lane)
        spans.tid[mine[_leaving(spans.take(mine), lane)]] = spare
        native.tid[here[_overlapping(annotated[here], native.take(here), spans.take(mine))]] = spare + 1
        spare += 2
    return spans.put(own), native.put(events)


@dataclass(frozen=True)
class _Rows:
    """Start, end and lane of each event of a table."""

    start: Ints
    end: Ints
    tid: Ints

    @classmethod
    def of(cls, table: EventTable) -> _Rows:
        start, duration, tid = (whole_numbers(table.column(name)) for name in ("start_ns", "duration_ns", "tid"))
        return cls(start.copy(), start + duration, tid.copy())

    def take(self, rows: Ints) -> _Rows:
        return _Rows(self.start[rows], self.end[rows], self.tid[rows])

    def put(self, table: EventTable) -> EventTable:
        """Return the table with these values; a lane that was unknown and was not changed stays unknown."""
        unknown = table.column("tid").is_null().to_numpy() & (self.tid < 0)
        table = with_column(table, "start_ns", self.start)
        table = with_column(table, "duration_ns", self.end - self.start)
        return with_column(table, "tid", pa.array(self.tid, mask=unknown))


_NONE = np.empty(0, np.int64)


class _Lane:
    """Some events of one thread, for looking up which of them a moment cuts."""

    def __init__(self, events: _Rows) -> None:
        order = np.argsort(events.start, kind="stable")
        self._start, self._end = events.start[order], events.end[order]
        self._latest_end = np.maximum.accumulate(self._end) if len(order) else self._end

    def cut(self, moment: int, first: int, last: int) -> tuple[Ints, Ints]:
        """Return starts and ends of the events that a moment cuts, less those all around a span; the longest first."""
        before = int(np.searchsorted(self._start, moment, side="left"))
        if not before or self._latest_end[before - 1] <= moment:
            return _NONE, _NONE
        since = int(np.searchsorted(self._latest_end[:before], moment, side="right"))
        start, end = self._start[since:before], self._end[since:before]
        cut = np.flatnonzero((end > moment) & ~((start <= first) & (end >= last)))
        cut = cut[np.argsort(start[cut] - end[cut], kind="stable")]
        return start[cut], end[cut]


def _move(spans: _Rows, mine: Ints, is_step: Flags, lane: _Lane) -> None:
    """Move the borders of the spans of a thread; the one between two steps moves for both."""
    steps = spans.take(mine[is_step[mine]])
    starts, ends = steps.start.tolist(), steps.end.tolist()
    start_before, end_after = dict(zip(ends, starts, strict=True)), dict(zip(starts, ends, strict=True))
    for row in mine.tolist():
        first, last, of_step = int(spans.start[row]), int(spans.end[row]), bool(is_step[row])
        before = start_before.get(first, first) if of_step else first
        after = end_after.get(last, last) if of_step else last
        spans.start[row] = _Border(first, before, last, of_step).moved(lane)
        spans.end[row] = max(_Border(last, first, after, of_step).moved(lane), spans.start[row])


@dataclass(frozen=True)
class _Border:
    """A border of a span."""

    moment: int
    first: int
    """Start of the span, or of the step that ends here."""
    last: int
    """End of the span, or of the step that begins here."""
    of_step: bool

    def moved(self, lane: _Lane) -> int:
        """Return where the border moves to: an edge of the longest event that it cuts and that is near enough."""
        starts, ends = lane.cut(self.moment, self.first, self.last)
        edges = (self._edge(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
        return next((edge for edge in edges if abs(edge - self.moment) <= self._limit), self.moment)

    def _edge(self, start: int, end: int) -> int:
        began, ends_in = self.moment - start, end - self.moment
        if self.of_step and began > min(CLOCK_SLACK_NS, self._limit):
            return end
        return start if began < ends_in else end

    @property
    def _limit(self) -> int:
        lengths = [length for length in (self.moment - self.first, self.last - self.moment) if length > 0]
        return largest_move_ns(min(lengths, default=0))


def _leaving(spans: _Rows, lane: _Lane) -> Flags:
    """Flag the spans that still cut an event, and those that overlap one of them, directly or by way of others."""
    borders = zip(spans.start.tolist(), spans.end.tolist(), strict=True)
    cut = np.array([any(len(lane.cut(moment, *span)[0]) for moment in span) for span in borders])
    order = np.argsort(spans.start, kind="stable")
    reached = np.maximum.accumulate(spans.end[order])
    group = np.zeros(len(order), np.int64)
    group[order] = np.cumsum(np.append([0], spans.start[order][1:] >= reached[:-1]))
    return np.isin(group, group[cut])


def _overlapping(candidates: Flags, events: _Rows, spans: _Rows) -> Flags:
    """Flag those of the candidates among the events that overlap partly with another event or with a span."""
    start, end, lane = (np.append(getattr(events, name), getattr(spans, name)) for name in ("start", "end", "tid"))
    return overlapping(start, end, lane, np.append(candidates, np.zeros(len(spans.start), np.bool_)))[: len(candidates)]
