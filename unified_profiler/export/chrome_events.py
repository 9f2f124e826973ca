"""Converts rows of the event table to Chrome trace events, in blocks of text.

Spans are complete events (`X`), allocations instants (`i`), counters `C`, arrows pairs of `s` and `f`. Other columns
are in `args`, except those that the header contains once for a whole lane.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.tracks import TrackLayout, codes
from unified_profiler.export.fragments import (
    Fragment,
    as_buffer,
    constant,
    either,
    inner_text,
    joined,
    lookup,
    member,
    microseconds,
    whole,
)
from unified_profiler.export.links import Links, backward_links, launch_links
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Kind

LANE_COLUMNS = ["cycle", "rank", "host", "pid", "tid", "thread", "device", "stream", "framework"]
"""Columns that are usually constant in a lane, and are then written once, in the header."""

_EVENT_COLUMNS = {"id", "name", "layer", "kind", "start_ns", "duration_ns"}
_BLOCK = 1 << 16  # rows: limits memory; an Arrow string array cannot exceed 2 GB

_SPAN, _INSTANT, _COUNTER = range(3)
_OPENINGS = ['{"ph":"X","cat":"', '{"ph":"i","s":"t","cat":"', '{"ph":"C","cat":"']


def event_blocks(
    events: EventTable, lanes: TrackLayout, *, base: int, rows_per_trace: Sequence[int], arrows: bool
) -> Iterator[Any]:
    """Yield all events by time, each slice before those it encloses, as blocks to be joined by commas.

    Args:
        events: The events of all traces.
        lanes: The lanes of the events.
        base: Time zero in nanoseconds.
        rows_per_trace: Number of events of each trace.
        arrows: Whether to draw arrows.
    """
    start, duration = events.column("start_ns").to_numpy() - base, events.column("duration_ns").to_numpy()
    event = _event(events, lanes, start, duration, rows_per_trace)
    if arrows:
        event = joined([event, _arrow_ends(list(_links(events, rows_per_trace)), lanes, start)])
    order = np.lexsort((-duration, start))
    for first in range(0, len(order), _BLOCK):
        texts = event(pa.array(order[first : first + _BLOCK]))
        yield as_buffer(texts, separator=",\n")


def _event(
    events: EventTable, lanes: TrackLayout, start: Ints, duration: Ints, rows_per_trace: Sequence[int]
) -> Fragment:
    phase = _phases(events)
    category = (inner_text(events, "layer"), constant(","), inner_text(events, "kind"))
    name = (constant('","name":"'), inner_text(events, "name"), constant('"'))
    dur = joined([constant(',"dur":'), microseconds(duration)])
    return joined(
        [
            *(lookup(_OPENINGS, pa.array(phase)), *category, *name, _track(lanes), microseconds(start)),
            either((phase == _SPAN) | (duration != 0), dur, constant("")),
            either(phase == _COUNTER, _counter_args(events), constant(',"args":{')),
            *_members(events, lanes, rows_per_trace),
            constant("}}"),
        ]
    )


def _phases(events: EventTable) -> Ints:
    kind = events.column("kind")
    instant = pc.and_(pc.equal(kind, Kind.MEMORY.value), pc.equal(events.column("duration_ns"), 0)).to_numpy()
    counter = pc.equal(kind, Kind.COUNTER.value).to_numpy()
    return np.where(counter, _COUNTER, np.where(instant, _INSTANT, _SPAN))


def _track(lanes: TrackLayout) -> Fragment:
    tracks = [f',"pid":{lane.pid},"tid":{lane.tid},"ts":' for lane in lanes.tracks]
    return lookup(tracks, pa.array(lanes.of_row))


def _counter_args(events: EventTable) -> Fragment:
    """Write the value as the only argument, since viewers draw a curve for each argument of a counter."""
    value = events.column("value").combine_chunks()
    number = joined([constant('"value":'), lambda rows: value.take(rows).cast(pa.string())])
    finite = either(pc.is_finite(value).fill_null(False), number, constant(""))
    return joined([member(events, "device", key="id"), constant(',"args":{'), finite, constant('},"row":{')])


def _members(events: EventTable, lanes: TrackLayout, rows_per_trace: Sequence[int]) -> Iterator[Fragment]:
    yield joined([constant('"id":'), whole(events.column("id").to_numpy())])
    if len(rows_per_trace) > 1:
        trace = np.repeat(np.arange(len(rows_per_trace)), rows_per_trace)
        yield lookup([f',"trace":{index}' for index in range(len(rows_per_trace))], pa.array(trace))
    for name in EVENT_SCHEMA.names:
        if name in _EVENT_COLUMNS or events.column(name).null_count == len(events):
            continue
        if name not in LANE_COLUMNS:
            yield member(events, name)
            continue
        in_header = lanes.constant(codes(events, name))
        if not in_header.all():
            yield either(in_header[lanes.of_row], constant(""), member(events, name))


def _links(events: EventTable, rows_per_trace: Sequence[int]) -> Iterator[Links]:
    """Yield the arrows of each trace separately, since ids are unique only within a trace."""
    first = 0
    for rows in rows_per_trace:
        trace = events.slice(first, rows)
        for links in (launch_links(trace), backward_links(trace)):
            yield Links(links.name, links.source + first, links.target + first)
        first += rows


def _arrow_ends(links: Sequence[Links], lanes: TrackLayout, start: Ints) -> Fragment:
    """Write the ends of arrows directly after their slices, where viewers expect them."""
    ends: dict[int, str] = defaultdict(str)
    number = 0
    for each in links:
        for source, target in zip(each.source.tolist(), each.target.tolist(), strict=True):
            number += 1
            ends[source] += _arrow_end('"s"', number, each.name, lanes, source, start)
            ends[target] += _arrow_end('"f","bp":"e"', number, each.name, lanes, target, start)
    index = np.full(len(start), -1)
    index[list(ends)] = np.arange(len(ends))
    return lookup(list(ends.values()), pa.array(index, mask=index < 0))


def _arrow_end(phase: str, number: int, name: str, lanes: TrackLayout, row: int, start: Ints) -> str:
    lane = lanes.tracks[lanes.of_row[row]]
    microseconds, rest = divmod(int(start[row]), 1000)
    return (
        f',\n{{"ph":{phase},"id":{number},"cat":"{name}","name":"{name}",'
        f'"pid":{lane.pid},"tid":{lane.tid},"ts":{microseconds}.{rest:03d}}}'
    )
