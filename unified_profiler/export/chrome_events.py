"""Converts rows of the event table to Chrome trace events, in blocks of text.

Spans are complete events (`X`), allocations instants (`i`), counters `C`, arrows pairs of `s` and `f`. Other columns
are in `args`, except those that the header contains once for a whole lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.tracks import TrackLayout
from unified_profiler.export.arrows import arrow_ends
from unified_profiler.export.fragments import constant, either, inner_text, lookup, member, microseconds, whole
from unified_profiler.export.row_text import Flags, PerRow, RowText, joined
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Kind

LANE_COLUMNS = ["cycle", "rank", "host", "pid", "tid", "thread", "device", "stream", "framework"]
"""Columns that are usually constant in a lane, and are then written once, in the header."""

_EVENT_COLUMNS = {"id", "name", "layer", "kind", "start_ns", "duration_ns"}

_SPAN, _INSTANT, _COUNTER = range(3)
_OPENINGS = [',\n{"ph":"X","cat":"', ',\n{"ph":"i","s":"t","cat":"', ',\n{"ph":"C","cat":"']


def event_text(
    events: EventTable,
    lanes: TrackLayout,
    *,
    in_header: Mapping[str, Flags],
    start: Ints,
    trace: Ints,
    trace_in_file: Ints | None = None,
    arrows: bool,
) -> RowText:
    """Return the text of each event, with the ends of its arrows; a comma precedes each.

    Args:
        events: The events of all traces.
        lanes: The lanes of the events.
        in_header: For each of `LANE_COLUMNS` the lanes whose value the header contains.
        start: Start of each event in nanoseconds from time zero of its file.
        trace: Number of the trace of each event, in ascending order.
        trace_in_file: The same, counted in each file, if files have several traces.
        arrows: Whether to draw arrows.
    """
    members = [*_members(events, lanes, in_header, trace_in_file)]
    event = _event(events, lanes, start, events.column("duration_ns").to_numpy(), members)
    return joined([event, *arrow_ends(events, lanes, start, trace)]) if arrows else event


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
    is_finite = pc.is_finite(value).fill_null(False).to_numpy(zero_copy_only=False)
    finite = number.only_where(is_finite)
    return joined([member(events, "device", key="id"), constant(',"args":{'), finite, constant('},"row":{')])


def _members(
    events: EventTable, lanes: TrackLayout, in_header: Mapping[str, Flags], trace: Ints | None
) -> Iterator[RowText]:
    yield joined([constant('"id":'), whole(events.column("id").to_numpy())])
    if trace is not None:
        yield lookup([f',"trace":{index}' for index in range(trace.max(initial=0) + 1)], trace)
    for name in EVENT_SCHEMA.names:
        if name in _EVENT_COLUMNS or events.column(name).null_count == len(events):
            continue
        if name not in LANE_COLUMNS:
            yield member(events, name)
            continue
        if not in_header[name].all():
            yield either(in_header[name][lanes.of_row], constant(""), member(events, name))
