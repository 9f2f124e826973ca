"""The pieces of critical paths within one trace, as rows that an engine returns and `stitching` joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import Coded, coded, ints
from unified_profiler.analysis.critical_path.arrivals import Arrivals
from unified_profiler.analysis.critical_path.columns import KINDS, kind_code
from unified_profiler.analysis.critical_path.construction import TraceGraph, trace_graph
from unified_profiler.analysis.critical_path.graph import Piece, walk
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.spi import EventConventions

PATH_FACTS = pa.schema(
    {
        "fact": pa.int8(),
        "trace": pa.int64(),
        **dict.fromkeys(("rank", "cycle", "step", "piece", "before"), pa.int32()),
        **dict.fromkeys(("number", "start_ns", "end_ns", "stream", "event_id"), pa.int64()),
        **dict.fromkeys(("lane", "device", "kind", "name", "op"), pa.int32()),
        "text": pa.string(),
    }
)
"""The rows of one trace. Texts of segments are numbers, since paths of many segments repeat few texts."""


class Fact(IntEnum):
    """The types of rows."""

    STEP = 0
    """A step or the whole recording, and the `piece` at its end."""
    ENTRY = 1
    """A collective, by `number`, in which this rank was the last to enter, and the piece at its start."""
    PIECE = 2
    """From when to when a piece lasts, and what is before it: a piece, or an arrival in the collective `number`."""
    TEXT = 3
    """The text of a `number`."""
    SEGMENT = 4
    """A segment of a piece."""


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
        {"fact": Fact.ENTRY, "number": number, "piece": piece_of[len(windows) + index]}
        for index, number in enumerate(graph.entries)
    ]
    rows += [_piece_fact(graph, number, piece) for number, piece in enumerate(pieces)]
    tables = [pa.Table.from_pylist(rows, schema=PATH_FACTS), *_segments(graph, pieces)]
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
        return {"fact": Fact.STEP, "step": step, "start_ns": self.start, "end_ns": self.end, "piece": piece}


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
        "fact": Fact.PIECE,
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


def _segments(trace: TraceGraph, pieces: list[Piece]) -> tuple[pa.Table, pa.Table]:
    """Return the segments of all pieces that take time, and their texts."""
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


def _segment_table(trace: TraceGraph, rows: _SegmentRows) -> tuple[pa.Table, pa.Table]:
    events, count = trace.columns.events, len(rows.row)
    lane, lanes = trace.graph.lane[rows.point], trace.lane_rows()
    lane_row = lanes[lane]
    on_stream = trace.on_stream(rows.point)
    stream = np.where(on_stream, ints(events, "stream")[lane_row], -1)
    texts = _Texts([*KINDS], [*range(len(KINDS))])
    codes = {
        "kind": rows.kind,
        "name": texts.add(trace.columns.name, _named_rows(trace, rows), otherwise=rows.kind),
        "op": texts.add(coded(events, "op"), rows.row),
        "device": texts.add(coded(events, "device"), np.where(on_stream, lane_row, -1)),
        "lane": texts.add(Coded(np.arange(len(lanes), dtype=np.int32), _lane_texts(trace, lanes)), lane),
    }
    columns = {
        "fact": np.full(count, Fact.SEGMENT, np.int8),
        "piece": rows.piece,
        "start_ns": rows.start,
        "end_ns": rows.end,
        "stream": pa.array(stream, mask=~on_stream | (stream < 0)),
        "event_id": pa.array(ints(events, "id")[rows.row], mask=rows.row < 0),
        **{name: pa.array(code, mask=code < 0) for name, code in codes.items()},
    }
    return texts.facts(), _facts(columns, count)


def _facts(columns: Mapping[str, Any], count: int) -> pa.Table:
    """Build rows; columns that are not given are null."""
    nulls = {field.name: pa.nulls(count, field.type) for field in PATH_FACTS if field.name not in columns}
    return pa.table({name: {**columns, **nulls}[name] for name in PATH_FACTS.names}).cast(PATH_FACTS)


@dataclass(frozen=True)
class _Texts:
    """Numbers the texts of several columns."""

    values: list[str]
    used: list[int]

    def add(self, column: Coded, rows: Ints, *, otherwise: Ints | int = -1) -> Ints:
        """Add the texts of a column and return the numbers of those in some rows; `otherwise` for rows of -1."""
        first = len(self.values)
        self.values.extend(column.values)
        codes = np.where(rows >= 0, column.codes[rows], -1)
        codes = np.where(codes >= 0, codes + first, otherwise)
        flags = np.zeros(len(self.values) + 1, np.bool_)
        flags[codes] = True
        self.used.extend(np.flatnonzero(flags[first:-1]) + first)
        return codes

    def facts(self) -> pa.Table:
        """Return the texts that are used."""
        used = np.array(self.used, np.int64)
        texts = [self.values[number] for number in self.used]
        return _facts(
            {"fact": np.full(len(used), Fact.TEXT, np.int8), "number": used, "text": pa.array(texts, pa.string())},
            len(used),
        )


def _named_rows(trace: TraceGraph, rows: _SegmentRows) -> Ints:
    """Return the events that segments are named after: their own, the data loading around it, or the launch."""
    columns = trace.columns
    named = np.where(columns.is_kind(Kind.STEP)[rows.row] | (rows.row < 0), -1, rows.row)
    named = np.where(rows.kind == kind_code("data"), columns.loads_data[rows.row], named)
    return np.where(rows.kind == kind_code("launch"), trace.launch_of(rows.row), named)


def _lane_texts(trace: TraceGraph, rows: Ints) -> list[str]:
    """Return the names of threads, or device and stream, by one event of each."""
    events = trace.columns.events.select(["thread", "device", "stream", "tid"]).take(pa.array(np.maximum(rows, 0)))
    is_work = trace.columns.work[rows].tolist()
    return [_lane_text(row, is_thread=not work) for row, work in zip(events.to_pylist(), is_work, strict=True)]


def _lane_text(row: Mapping[str, Any], *, is_thread: bool) -> str:
    if is_thread:
        return (row["thread"] or f"thread {row['tid']}").strip()
    stream = row["stream"] if row["stream"] is not None else row["tid"]
    return f"{row['device']} stream {stream}"


def _with_trace(events: EventTable, table: pa.Table) -> pa.Table:
    """Fill in the columns that are the same in all rows; a trace is identified by when it begins."""
    trace = {name: events.column(name)[0].cast(pa.int32()) for name in ("rank", "cycle")}
    trace["trace"] = pa.scalar(int(ints(events, "start_ns").min()), pa.int64())
    for name, value in trace.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, PATH_FACTS.field(name), pa.repeat(value, len(table)))
    return table
