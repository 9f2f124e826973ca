"""The pieces of critical paths within one trace, as rows that an engine returns and `stitching` joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import coded, ints
from unified_profiler.analysis.critical_path.arrivals import Arrivals
from unified_profiler.analysis.critical_path.columns import KINDS, kind_code
from unified_profiler.analysis.critical_path.construction import TraceGraph, trace_graph
from unified_profiler.analysis.critical_path.graph import Piece, walk
from unified_profiler.model.columns import dictionary_array
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.spi import EventConventions

PATH_FACTS = pa.schema(
    {
        "fact": pa.string(),
        **dict.fromkeys(("rank", "cycle", "step", "piece", "before"), pa.int32()),
        **dict.fromkeys(("number", "start_ns", "end_ns"), pa.int64()),
        **dict.fromkeys(("lane", "device"), pa.string()),
        "stream": pa.int64(),
        **dict.fromkeys(("kind", "name", "op"), pa.string()),
        "event_id": pa.int64(),
    }
)
"""Rows of five types, by `fact`.

`step`: a step or the whole recording, and the `piece` at its end. `entry`: a collective, by `number`, in which this rank
was the last, and the piece at its start. `piece`: from when to when it lasts, and what is before it: another piece, or the
arrival of another rank in a collective. `segment`: a segment of a piece.
"""


@dataclass(frozen=True)
class PathRequest:
    """The paths that are wanted, and what is known about other ranks.

    Attributes:
        conventions: The conventions of each framework.
        arrivals: When ranks arrived in collectives.
        starts: When each step, by cycle and number, began on the first rank; empty for runs of one rank.
        step: The only step that is wanted; None for all.
    """

    conventions: Mapping[str, EventConventions]
    arrivals: pa.Table
    starts: Mapping[tuple[int, int], int]
    step: int | None = None


def path_facts(events: EventTable, request: PathRequest) -> pa.Table:
    """Return the pieces of the critical paths of a trace's steps, or of all of it if it has no steps."""
    arrivals = Arrivals.of(events, request.arrivals)
    graph = trace_graph(events, request.conventions, arrivals)
    if graph is None:
        return PATH_FACTS.empty_table()
    windows = list(_windows(graph, request.step))
    if not windows:
        return PATH_FACTS.empty_table()
    cycle = int(ints(events.slice(0, 1), "cycle")[0])
    stop = min(request.starts.get((cycle, window.step), window.start) for window in windows)
    ends = [*(window.point for window in windows), *graph.entries.values()]
    order = np.argsort(graph.graph.time[ends], kind="stable").tolist()
    pieces = walk(graph.graph, [ends[index] for index in order], stop_ns=stop, external=graph.arrival >= 0)
    piece_of = {index: number for number, index in enumerate(order)}
    rows = [window.fact(piece_of[index]) for index, window in enumerate(windows)]
    rows += [
        {"fact": "entry", "number": number, "piece": piece_of[len(windows) + index]}
        for index, number in enumerate(graph.entries)
    ]
    rows += [_piece_fact(graph, number, piece) for number, piece in enumerate(pieces)]
    tables = [pa.Table.from_pylist(rows, schema=PATH_FACTS), _segments(graph, pieces)]
    return _with_trace(events, pa.concat_tables(tables))


@dataclass(frozen=True)
class _Window:
    """A step, and the point from which its path is followed backward."""

    step: int
    start: int
    end: int
    point: int

    def fact(self, piece: int) -> dict[str, Any]:
        step = None if self.step < 0 else self.step
        return {"fact": "step", "step": step, "start_ns": self.start, "end_ns": self.end, "piece": piece}


def _windows(graph: TraceGraph, wanted: int | None) -> Iterator[_Window]:
    """Yield the steps; the whole recording if there are none.

    Where work of a device ends after the step that launched it, the path leads to the end of that work: the device is
    behind the host, which would have to wait for it otherwise.
    """
    steps, points = graph.steps, graph.completions()
    if not len(steps.number) and wanted is None:
        time = graph.graph.time
        yield _Window(-1, int(time.min()), int(time.max()), graph.last_point)
    for number, start, end, point in zip(
        steps.number.tolist(), steps.start.tolist(), steps.end.tolist(), points.tolist(), strict=True
    ):
        if wanted in {None, number}:
            yield _Window(number, start, end, point)


def _piece_fact(graph: TraceGraph, number: int, piece: Piece) -> dict[str, Any]:
    return {
        "fact": "piece",
        "piece": number,
        "before": piece.before if piece.before >= 0 else None,
        "number": int(graph.arrival[piece.waited_for]) if piece.waited_for >= 0 else None,
        "start_ns": piece.start_ns,
        "end_ns": piece.end_ns,
    }


@dataclass(frozen=True)
class _SegmentRows:
    """Segments on paths, sorted by piece and time."""

    piece: Ints
    start: Ints
    end: Ints
    row: Ints
    kind: Ints
    point: Ints
    """A point on the lane of the segment."""

    def merged(self) -> _SegmentRows:
        """Join adjacent segments of one event on one lane."""
        same = (self.piece[1:] == self.piece[:-1]) & (self.row[1:] == self.row[:-1]) & (self.kind[1:] == self.kind[:-1])
        same &= self.start[1:] == self.end[:-1]
        first = np.append(True, ~same) if len(self.row) else np.zeros(0, np.bool_)
        last = np.append(~same, True) if len(self.row) else first
        return _SegmentRows(
            self.piece[first], self.start[first], self.end[last], self.row[first], self.kind[first], self.point[first]
        )


def _segments(trace: TraceGraph, pieces: list[Piece]) -> pa.Table:
    """Return the segments of all pieces that take time."""
    graph = trace.graph
    points = np.concatenate([piece.points for piece in pieces])
    edges = np.concatenate([piece.edges for piece in pieces])
    of_point = np.repeat(np.arange(len(pieces)), [len(piece.points) for piece in pieces])
    of_edge = np.repeat(np.arange(len(pieces)), [len(piece.edges) for piece in pieces])
    target = graph.target[edges]
    end = np.concatenate([graph.time[points], graph.time[target]])
    start = np.concatenate([graph.time[points] - graph.elapsed[points], graph.time[graph.source[edges]]])
    rows = _SegmentRows(
        piece=np.concatenate([of_point, of_edge]),
        start=start,
        end=end,
        row=np.concatenate([trace.row[points], trace.edge_row[edges]]),
        kind=np.concatenate([trace.kind[points], trace.edge_kind[edges]]),
        point=np.concatenate([points, target]),
    )
    order = np.lexsort((start, rows.piece))
    order = order[end[order] > start[order]]
    chosen = _SegmentRows(*(getattr(rows, name)[order] for name in rows.__dataclass_fields__))
    return _segment_table(trace, chosen.merged())


def _segment_table(trace: TraceGraph, rows: _SegmentRows) -> pa.Table:
    events, count = trace.columns.events, len(rows.row)
    lane_row = trace.lane_rows()[trace.graph.lane[rows.point]]
    on_device = trace.on_stream(rows.point)
    device = _texts(coded(events, "device"), np.where(on_device, lane_row, -1))
    stream = np.where(on_device, ints(events, "stream")[lane_row], -1)
    columns = {
        "fact": pa.repeat(pa.scalar("segment"), count),
        "piece": rows.piece,
        "start_ns": rows.start,
        "end_ns": rows.end,
        "lane": _lanes(trace, lane_row, on_device),
        "device": device,
        "stream": pa.array(stream, mask=~on_device | (stream < 0)),
        "kind": dictionary_array(rows.kind, pa.array(KINDS)),
        "name": _segment_names(trace, rows),
        "op": _texts(coded(events, "op"), rows.row),
        "event_id": pa.array(ints(events, "id")[rows.row], mask=rows.row < 0),
    }
    nulls = {field.name: pa.nulls(count, field.type) for field in PATH_FACTS if field.name not in columns}
    table = pa.table({name: (columns | nulls)[name] for name in PATH_FACTS.names})
    return table.cast(PATH_FACTS)


def _texts(column: Any, rows: Ints) -> pa.Array:
    """Return the texts of a column in some rows, null where the row is -1."""
    codes = np.where(rows >= 0, column.codes[rows], -1)
    return dictionary_array(codes, pa.array(column.values, pa.string()))


def _segment_names(trace: TraceGraph, rows: _SegmentRows) -> pa.Array:
    """Return the names: of the event, of the data loading it belongs to, of the call that launched it, or its kind."""
    columns = trace.columns
    named = np.where(columns.is_kind(Kind.STEP)[rows.row] | (rows.row < 0), -1, rows.row)
    named = np.where(rows.kind == kind_code("data"), columns.loads_data[rows.row], named)
    launched = rows.kind == kind_code("launch")
    named = np.where(launched, trace.launch_of(rows.row), named)
    names = columns.name
    codes = np.where(named >= 0, names.codes[named], len(names.values) + rows.kind)
    return dictionary_array(codes, pa.array([*names.values, *KINDS], pa.string()))


def _lanes(trace: TraceGraph, lane_row: Ints, on_device: Any) -> pa.Array:
    """Return the name of the thread, or device and stream."""
    distinct, index = np.unique(lane_row, return_inverse=True)
    events = trace.columns.events.select(["thread", "device", "stream", "tid"]).take(pa.array(np.maximum(distinct, 0)))
    texts = [_lane_text(row, is_thread=not streams) for row, streams in zip(
        events.to_pylist(), trace.columns.work[distinct].tolist(), strict=True)]
    return dictionary_array(np.where(lane_row >= 0, index, -1), pa.array(texts, pa.string()))


def _lane_text(row: Mapping[str, Any], *, is_thread: bool) -> str:
    if is_thread:
        return (row["thread"] or f"thread {row['tid']}").strip()
    stream = row["stream"] if row["stream"] is not None else row["tid"]
    return f"{row['device']} stream {stream}"


def _with_trace(events: EventTable, table: pa.Table) -> pa.Table:
    for name in ("rank", "cycle"):
        value = events.column(name)[0].cast(pa.int32())
        index = table.schema.get_field_index(name)
        table = table.set_column(index, PATH_FACTS.field(name), pa.repeat(value, len(table)))
    return table
