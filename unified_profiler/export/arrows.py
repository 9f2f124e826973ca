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
from unified_profiler.export.links import backward_links, launch_links
from unified_profiler.export.row_text import PerRow, RowText, joined
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable

_PHASES = ('"s"', '"f","bp":"e"')


def arrow_ends(events: EventTable, lanes: TrackLayout, start: Ints, trace: Ints) -> Iterator[RowText]:
    """Yield the ends of arrows at each event, as text to follow that of the event; nothing if there are no arrows.

    Args:
        events: The events of all traces.
        lanes: The lanes of the events.
        start: Start of each event in nanoseconds from time zero.
        trace: Number of the trace of each event, in ascending order.
    """
    links = (launch_links(events, trace), backward_links(events, trace))
    source, target = (
        np.concatenate(ends) for ends in ([each.source for each in links], [each.target for each in links])
    )
    kind = np.repeat(np.arange(len(links)), [len(each.source) for each in links])
    if len(source):
        order = np.lexsort((kind, trace[source]))
        rows = np.stack([source[order], target[order]], 1).ravel()
        names = [each.name for each in links]
        yield _after_rows(_ends(names, kind[order].repeat(2), rows, lanes, start), rows, len(events))


def _ends(names: Sequence[str], name: Ints, rows: Ints, lanes: TrackLayout, start: Ints) -> RowText:
    """Return the text of each end; the two ends of an arrow are adjacent. Each file numbers its arrows from 1."""
    openings = [f',\n{{"ph":{phase},"id":' for phase in _PHASES]
    labels = [f',"cat":"{name}","name":"{name}"' for name in names]
    tracks = [f',"pid":{lane.pid},"tid":{lane.tid},"ts":' for lane in lanes.tracks]
    file, position = lanes.file[lanes.of_row[rows]], np.arange(len(rows))
    number = (position - np.searchsorted(file, file)) // 2 + 1
    return joined(
        [
            *(lookup(openings, position % 2), whole(number), lookup(labels, name)),
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
