"""Writes traces in the Chrome trace event format (object form) for the Perfetto UI and chrome://tracing.

This module writes the document: header, names of processes and threads, then the events by time. Times are relative to
`baseTimeNanoseconds`, since viewers store them as floating point.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from unified_profiler.analysis.tracks import Track, TrackLayout, codes, lay_out_tracks
from unified_profiler.export.background import write_blocks
from unified_profiler.export.chrome_events import LANE_COLUMNS, event_blocks
from unified_profiler.export.row_text import Flags
from unified_profiler.model.part_files import atomic_write
from unified_profiler.model.schema import EventTable
from unified_profiler.model.trace import Trace


class ChromeExporter:
    """Writes traces as Chrome JSON. Several traces share one time axis; each rank is a process of its own.

    Args:
        compressed: Whether to write gzip.
        arrows: Whether to draw arrows from launches to kernels and from forward operators to their backward.
    """

    def __init__(self, *, compressed: bool = False, arrows: bool = True) -> None:
        self._compressed = compressed
        self._arrows = arrows

    def write(self, traces: Sequence[Trace], path: Path) -> None:
        """Write the traces, atomically by a temporary file."""
        with atomic_write(path) as part, part.open("wb") as plain:
            blocks = _document(traces, arrows=self._arrows)
            if not self._compressed:
                write_blocks(blocks, plain.write)
                return
            # No time stamp, so the same trace gives the same bytes. Higher levels save a fifth and take twice the time.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=plain, mtime=0) as packed:
                write_blocks(blocks, packed.write)


def _document(traces: Sequence[Trace], *, arrows: bool) -> Iterator[bytes]:
    tables = [trace.events for trace in traces]
    events = pa.concat_tables([table.replace_schema_metadata(None) for table in tables]).unify_dictionaries()
    lanes = lay_out_tracks(events)
    base = min((int(table.column("start_ns").to_numpy().min()) for table in tables if len(table)), default=0)
    in_header = {name: lanes.constant(codes(events, name)) for name in LANE_COLUMNS}
    yield _header(traces, _lane_values(events, lanes, in_header), base)
    separator = b"\n"
    for name in _name_events(lanes):
        yield separator + msgspec.json.encode(name)
        separator = b",\n"
    rows = [len(table) for table in tables]
    yield from event_blocks(events, lanes, in_header=in_header, base=base, rows_per_trace=rows, arrows=arrows)
    yield b"\n]}\n"


def _header(traces: Sequence[Trace], lane_values: Sequence[dict[str, Any]], base: int) -> bytes:
    """Return the start of the document. Its first key must come first: `read` recognizes the format by it."""
    infos = ",".join(trace.info.model_dump_json() for trace in traces).encode()
    return (
        b'{"unified_profiler":{"traces":[%b],"lanes":%b},\n"displayTimeUnit":"ns","baseTimeNanoseconds":%d,\n'
        b'"traceEvents":['
    ) % (infos, msgspec.json.encode(lane_values), base)


def _lane_values(events: EventTable, lanes: TrackLayout, in_header: Mapping[str, Flags]) -> list[dict[str, Any]]:
    """Return for each lane its ids and the columns that are constant in all its events."""
    rows = events.select(LANE_COLUMNS).take(pa.array(lanes.first_row)).to_pylist()
    return [
        {
            "pid": lane.pid,
            "tid": lane.tid,
            "columns": {name: row[name] for name in LANE_COLUMNS if in_header[name][index]},
        }
        for index, (lane, row) in enumerate(zip(lanes.tracks, rows, strict=True))
    ]


def _name_events(lanes: TrackLayout) -> Iterator[dict[str, Any]]:
    processes = {lane.pid: lane for lane in reversed(lanes.tracks)}
    for index, (pid, lane) in enumerate(reversed(processes.items())):
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": lane.source.process_name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": index}}
    for index, lane in enumerate(lanes.tracks):
        yield _thread_metadata(lane, "thread_name", {"name": lane.source.thread_name})
        yield _thread_metadata(lane, "thread_sort_index", {"sort_index": index})


def _thread_metadata(lane: Track, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": lane.pid, "tid": lane.tid, "args": args}
