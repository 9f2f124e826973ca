"""Writes the arrows of a timeline as Chrome flow events: launches to kernels, forward operators to their backward.

Both ends of an arrow follow their slices directly, where viewers expect them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.tracks import TrackLayout
from unified_profiler.export.fragments import constant, lookup, microseconds, whole
from unified_profiler.export.links import Links, backward_links, launch_links
from unified_profiler.export.row_text import PerRow, RowText, joined
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable

_PHASES = ('"s"', '"f","bp":"e"')


def arrow_ends(events: EventTable, lanes: TrackLayout, start: Ints, rows_per_trace: Sequence[int]) -> Iterator[RowText]:
    """Yield the ends of arrows at each event, as text to follow that of the event; nothing if there are no arrows.

    Args:
        events: The events of all traces.
        lanes: The lanes of the events.
        start: Start of each event in nanoseconds from time zero.
        rows_per_trace: Number of events of each trace.
    """
    links = [each for each in _links(events, rows_per_trace) if len(each.source)]
    if links:
        rows = np.concatenate([np.stack([each.source, each.target], 1).ravel() for each in links])
        yield _after_rows(_ends(links, rows, lanes, start), rows, len(events))


def _links(events: EventTable, rows_per_trace: Sequence[int]) -> Iterator[Links]:
    """Yield the arrows of each trace separately, since ids are unique only within a trace."""
    first = 0
    for rows in rows_per_trace:
        trace = events.slice(first, rows)
        for links in (launch_links(trace), backward_links(trace)):
            yield Links(links.name, links.source + first, links.target + first)
        first += rows


def _ends(links: Sequence[Links], rows: Ints, lanes: TrackLayout, start: Ints) -> RowText:
    """Return the text of each end; the two ends of an arrow are adjacent."""
    openings = [f',\n{{"ph":{phase},"id":' for phase in _PHASES]
    names = [f',"cat":"{each.name}","name":"{each.name}"' for each in links]
    name = np.repeat(np.arange(len(links)), [2 * len(each.source) for each in links])
    tracks = [f',"pid":{lane.pid},"tid":{lane.tid},"ts":' for lane in lanes.tracks]
    position = np.arange(len(rows))
    return joined(
        [
            *(lookup(openings, position % 2), whole(position // 2 + 1), lookup(names, name)),
            *(lookup(tracks, lanes.of_row[rows]), microseconds(start[rows]), constant("}")),
        ]
    )


def _after_rows(ends: RowText, rows: Ints, row_count: int) -> RowText:
    """Write the ends that belong to each row, in their order."""
    by_row = np.argsort(rows, kind="stable")
    count = np.bincount(rows, minlength=row_count)
    begin = np.cumsum(count) - count

    def make(block: Ints) -> Any:
        counts = count[block]
        until = np.concatenate([[0], np.cumsum(counts)])
        positions = np.repeat(begin[block] - until[:-1], counts) + np.arange(until[-1])
        _, offsets, data = ends.texts(by_row[positions]).buffers()
        edges = np.frombuffer(offsets, np.int32)[until]
        return pa.StringArray.from_buffers(len(block), pa.py_buffer(edges), data)

    return RowText((PerRow(make),))
