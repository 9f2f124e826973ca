"""Converts rows of the event table to Chrome trace events, in blocks of text.

Spans are complete events (`X`), allocations instants (`i`), counters `C`, arrows pairs of `s` and `f`. Other columns
are in `args`, except those that the header contains once for a whole lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.tracks import TrackLayout
from unified_profiler.export.arrows import arrow_ends
from unified_profiler.export.fragments import constant, either, inner_text, lookup, member, microseconds, whole
from unified_profiler.export.row_text import ROWS_PER_BLOCK, Flags, PerRow, RowText, joined
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Kind

LANE_COLUMNS = ["cycle", "rank", "host", "pid", "tid", "thread", "device", "stream", "framework"]
"""Columns that are usually constant in a lane, and are then written once, in the header."""

_EVENT_COLUMNS = {"id", "name", "layer", "kind", "start_ns", "duration_ns"}

_SPAN, _INSTANT, _COUNTER = range(3)
_OPENINGS = [',\n{"ph":"X","cat":"', ',\n{"ph":"i","s":"t","cat":"', ',\n{"ph":"C","cat":"']


def event_blocks(
    events: EventTable,
    lanes: TrackLayout,
    *,
    in_header: Mapping[str, Flags],
    base: int,
    rows_per_trace: Sequence[int],
    arrows: bool,
) -> Iterator[Any]:
    """Yield all events by time, each slice before those it encloses, as blocks of text; a comma precedes each event.

    Args:
        events: The events of all traces.
        lanes: The lanes of the events.
        in_header: For each of `LANE_COLUMNS` the lanes whose value the header contains.
        base: Time zero in nanoseconds.
        rows_per_trace: Number of events of each trace.
        arrows: Whether to draw arrows.
    """
    start, duration = events.column("start_ns").to_numpy() - base, events.column("duration_ns").to_numpy()
    event = _event(events, lanes, start, duration, [*_members(events, lanes, in_header, rows_per_trace)])
    if arrows:
        event = joined([event, *arrow_ends(events, lanes, start, rows_per_trace)])
    order = _by_time(start, duration)
    for first in range(0, len(order), ROWS_PER_BLOCK):
        yield event.buffer(order[first : first + ROWS_PER_BLOCK])


def _by_time(start: Ints, duration: Ints) -> Ints:
    """Sort by start and descending duration. Few events start together, so only those are sorted by duration."""
    order = np.argsort(start, kind="stable")
    is_repeated = np.diff(start[order]) == 0
    tied = np.flatnonzero(np.append(is_repeated, False) | np.insert(is_repeated, 0, False))
    rows = order[tied]
    order[tied] = rows[np.lexsort((-duration[rows], start[rows]))]
    return order


def _event(events: EventTable, lanes: TrackLayout, start: Ints, duration: Ints, members: Sequence[RowText]) -> RowText:
    phase = _phases(events)
    category = (inner_text(events, "layer"), constant(","), inner_text(events, "kind"))
    name = (constant('","name":"'), inner_text(events, "name"), constant('"'))
    dur = joined([constant(',"dur":'), microseconds(duration)])
    return joined(
        [
            *(lookup(_OPENINGS, phase), *category, *name, _track(lanes), microseconds(start)),
            either((phase == _SPAN) | (duration != 0), dur, constant("")),
            either(phase == _COUNTER, _counter_args(events), constant(',"args":{')),
            *(*members, constant("}}")),
        ]
    )


def _phases(events: EventTable) -> Ints:
    kind = events.column("kind")
    instant = pc.and_(pc.equal(kind, Kind.MEMORY.value), pc.equal(events.column("duration_ns"), 0)).to_numpy()
    counter = pc.equal(kind, Kind.COUNTER.value).to_numpy()
    return np.where(counter, _COUNTER, np.where(instant, _INSTANT, _SPAN))


def _track(lanes: TrackLayout) -> RowText:
    return lookup([f',"pid":{lane.pid},"tid":{lane.tid},"ts":' for lane in lanes.tracks], lanes.of_row)


def _counter_args(events: EventTable) -> RowText:
    """Write the value as the only argument, since viewers draw a curve for each argument of a counter."""
    value = events.column("value").combine_chunks()
    number = joined(
        [constant('"value":'), RowText((PerRow(lambda rows: value.take(pa.array(rows)).cast(pa.string())),))]
    )
    is_drawn = pc.is_finite(value).fill_null(False).to_numpy(zero_copy_only=False)
    finite = number.only_where(is_drawn)
    return joined([member(events, "device", key="id"), constant(',"args":{'), finite, constant('},"row":{')])


def _members(
    events: EventTable, lanes: TrackLayout, in_header: Mapping[str, Flags], rows_per_trace: Sequence[int]
) -> Iterator[RowText]:
    yield joined([constant('"id":'), whole(events.column("id").to_numpy())])
    if len(rows_per_trace) > 1:
        trace = np.repeat(np.arange(len(rows_per_trace)), rows_per_trace)
        yield lookup([f',"trace":{index}' for index in range(len(rows_per_trace))], trace)
    for name in EVENT_SCHEMA.names:
        if name in _EVENT_COLUMNS or events.column(name).null_count == len(events):
            continue
        if name not in LANE_COLUMNS:
            yield member(events, name)
            continue
        if not in_header[name].all():
            yield either(in_header[name][lanes.of_row], constant(""), member(events, name))
