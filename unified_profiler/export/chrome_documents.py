"""Builds Chrome JSON documents: header, names of processes and threads, then the events by time.

Times are relative to `baseTimeNanoseconds`, since viewers store them as floating point. Several documents, such as one
for each step, are prepared together, which is much faster than one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.analysis.tracks import Track, TrackLayout, codes, lay_out_tracks
from unified_profiler.export.chrome_events import LANE_COLUMNS, event_text
from unified_profiler.export.overlays import Overlay, first_start, overlay_events
from unified_profiler.export.row_text import Flags
from unified_profiler.model.nesting import Ints
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EventTable


@dataclass(frozen=True)
class Document:
    """The traces of one document."""

    infos: Sequence[TraceInfo]
    rows_per_trace: Sequence[int]
    overlays: Sequence[Overlay] = ()


def chrome_documents(
    events: EventTable, documents: Sequence[Document], *, arrows: bool = True
) -> Iterator[Iterable[Any]]:
    """Yield each document as blocks of text.

    Args:
        events: The events of all documents, one document and one trace after the other.
        documents: The documents.
        arrows: Whether to draw arrows.
    """
    sizes = np.array([sum(document.rows_per_trace) for document in documents], np.int64)
    file, ends = np.repeat(np.arange(len(documents)), sizes), np.cumsum(sizes)
    absolute, duration = events.column("start_ns").to_numpy(), events.column("duration_ns").to_numpy()
    order = _by_time(file, absolute, duration)
    by_document = np.split(absolute[order], ends[:-1])
    base = np.array([_base(*pair) for pair in zip(documents, by_document, strict=True)], np.int64)
    lanes = lay_out_tracks(events, file=file)
    in_header = {name: lanes.constant(codes(events, name)) for name in LANE_COLUMNS}
    trace, in_file = _trace_numbers(documents)
    start = absolute - base[file]
    text = event_text(
        events, lanes, in_header=in_header, start=start, trace=trace, trace_in_file=in_file, arrows=arrows
    )
    lane_values = _lane_values(events, lanes, in_header)
    edges = np.searchsorted(lanes.file, np.arange(len(documents) + 1)).tolist()
    for index, blocks in enumerate(text.parts_of(order, sizes.tolist())):
        own = slice(edges[index], edges[index + 1])
        header = _header(documents[index].infos, lane_values[own], int(base[index]))
        names = chain(
            _name_events(lanes.tracks[own]),
            overlay_events(documents[index].overlays, base=int(base[index]), tracks=lanes.tracks[own]),
        )
        yield chain([header, _encoded(names)], blocks, [b"\n]}\n"])


def _base(document: Document, starts: Ints) -> int:
    """Return time zero of a document: the start of its first event or span, 0 if it has none."""
    first = [starts[:1].item() if len(starts) else None, first_start(document.overlays)]
    return min((start for start in first if start is not None), default=0)


def _trace_numbers(documents: Sequence[Document]) -> tuple[Ints, Ints | None]:
    """Return the number of the trace of each event, over all documents and, if one has several, in its document."""
    rows = np.concatenate([np.array(document.rows_per_trace, np.int64) for document in documents])
    in_file = np.concatenate([np.arange(len(document.rows_per_trace)) for document in documents])
    trace = np.repeat(np.arange(len(rows)), rows)
    return trace, in_file[trace] if in_file.any() else None


def _by_time(file: Ints, start: Ints, duration: Ints) -> Ints:
    """Sort by file, start and descending duration. Few events start together, so only those are sorted by duration."""
    order = np.lexsort((start, file)) if len(file) and file[-1] else np.argsort(start, kind="stable")
    is_repeated = (np.diff(start[order]) == 0) & (np.diff(file[order]) == 0)
    tied = np.flatnonzero(np.append(is_repeated, False) | np.insert(is_repeated, 0, False)) if len(order) else order
    rows = order[tied]
    order[tied] = rows[np.lexsort((-duration[rows], start[rows], file[rows]))]
    return order


def _header(infos: Sequence[TraceInfo], lane_values: Sequence[dict[str, Any]], base: int) -> bytes:
    """Return the start of the document. Its first key must come first: `read` recognizes the format by it."""
    traces = ",".join(info.model_dump_json() for info in infos).encode()
    return (
        b'{"unified_profiler":{"traces":[%b],"lanes":%b},\n"displayTimeUnit":"ns","baseTimeNanoseconds":%d,\n'
        b'"traceEvents":['
    ) % (traces, msgspec.json.encode(lane_values), base)


def _lane_values(events: EventTable, lanes: TrackLayout, in_header: Mapping[str, Flags]) -> list[dict[str, Any]]:
    """Return for each lane its ids and the columns that are constant in all its events."""
    rows = events.select(LANE_COLUMNS).take(pa.array(lanes.first_row)).to_pylist()
    flags = {name: in_header[name].tolist() for name in LANE_COLUMNS}
    return [
        {"pid": lane.pid, "tid": lane.tid, "columns": {name: row[name] for name in LANE_COLUMNS if flags[name][index]}}
        for index, (lane, row) in enumerate(zip(lanes.tracks, rows, strict=True))
    ]


def _encoded(events: Iterable[dict[str, Any]]) -> bytes:
    lines = b",\n".join(map(msgspec.json.encode, events))
    return b"\n" + lines if lines else b""


def _name_events(tracks: Sequence[Track]) -> Iterator[dict[str, Any]]:
    processes = {lane.pid: lane for lane in reversed(tracks)}
    for index, (pid, lane) in enumerate(reversed(processes.items())):
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": lane.source.process_name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": index}}
    for index, lane in enumerate(tracks):
        yield _thread_metadata(lane, "thread_name", {"name": lane.name})
        yield _thread_metadata(lane, "thread_sort_index", {"sort_index": index})


def _thread_metadata(lane: Track, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": lane.pid, "tid": lane.tid, "args": args}
