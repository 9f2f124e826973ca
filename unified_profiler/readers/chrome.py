"""Reads traces from Chrome JSON files that this package wrote."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import bounded, checked_events, checked_nesting, nanoseconds
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, JSON_COLUMNS, EventTable, event_table
from unified_profiler.model.storage import parse_record
from unified_profiler.model.trace import Trace

_OUTSIDE_ARGS = frozenset({"name", "layer", "kind", "start_ns", "duration_ns"})


class _LaneColumns(msgspec.Struct):
    """Column values that all events of a lane share."""

    pid: int
    tid: int
    columns: dict[str, Any]


class _Header(msgspec.Struct):
    traces: list[msgspec.Raw]
    lanes: list[_LaneColumns]


class _Document(msgspec.Struct, rename={"base_ns": "baseTimeNanoseconds", "events": "traceEvents"}):
    unified_profiler: _Header
    base_ns: int
    events: msgspec.Raw


def _args_field(field: pa.Field) -> tuple[str, Any, Any]:
    if field.name in JSON_COLUMNS:
        return field.name, msgspec.Raw, msgspec.Raw()
    if pa.types.is_dictionary(field.type):
        return field.name, str | None, None
    return field.name, (float | str | None) if pa.types.is_floating(field.type) else (int | None), None


_Args = msgspec.defstruct("_Args", [("trace", int, 0), *map(_args_field, EVENT_SCHEMA)], gc=False)
"""A field per column; absent ones are None, and JSON columns stay text."""


class _ChromeEvent(msgspec.Struct, gc=False):
    ph: str
    name: str = ""
    cat: str = ""
    pid: int = 0
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0
    args: _Args | None = None  # type: ignore[valid-type]  # generated from the schema above
    row: _Args | None = None  # type: ignore[valid-type]


def read_chrome(path: Path, text: bytes) -> list[Trace]:
    """Read the traces of a file that `ChromeExporter` wrote.

    Raises:
        TraceFormatError: The text is damaged.
        SchemaVersionError: A newer version wrote it.
    """
    with reading(path, expected="JSON that unified_profiler wrote"):
        document = msgspec.json.decode(text, type=_Document)
        infos = [parse_record(path, bytes(info), TraceInfo) for info in document.unified_profiler.traces]
        events = msgspec.json.decode(document.events, type=list[_ChromeEvent])
        tables = _tables([event for event in events if event.ph in {"X", "i", "C"}], document, len(infos))
        return [Trace(table, info) for table, info in zip(tables, infos, strict=True)]


def _tables(events: Sequence[_ChromeEvent], document: _Document, trace_count: int) -> list[EventTable]:
    args: list[Any] = [event.row if event.ph == "C" else event.args for event in events]
    table = checked_events(event_table(_columns(events, args, document), rows=len(events)))
    trace, ids = np.fromiter((row.trace for row in args), np.int64, len(args)), table.column("id").to_numpy()
    orphans = np.count_nonzero((trace < 0) | (trace >= trace_count))
    if orphans:
        msg = f"{orphans} events belong to no trace"
        raise ValueError(msg)
    rows_of_trace = [np.flatnonzero(trace == index) for index in range(trace_count)]
    by_id = [rows[np.argsort(ids[rows], kind="stable")] for rows in rows_of_trace]
    return [checked_nesting(table.take(pa.array(rows))) for rows in by_id]


def _columns(events: Sequence[_ChromeEvent], args: Sequence[Any], document: _Document) -> dict[str, Any]:
    columns = {name: _column(name, args) for name in EVENT_SCHEMA.names if name not in _OUTSIDE_ARGS}
    lanes = document.unified_profiler.lanes
    index_of = {(lane.pid, lane.tid): index for index, lane in enumerate(lanes)}
    lane = pa.array([index_of[event.pid, event.tid] for event in events], pa.int32())
    for name in {name for lane_columns in lanes for name in lane_columns.columns}:
        values = pa.array([lane_columns.columns.get(name) for lane_columns in lanes], columns[name].type)
        columns[name] = pc.coalesce(columns[name], values.take(lane))
    return columns | {
        "name": pa.array([event.name for event in events], pa.string()),
        "layer": pa.array([event.cat.partition(",")[0] for event in events], pa.string()),
        "kind": pa.array([event.cat.partition(",")[2] for event in events], pa.string()),
        "start_ns": nanoseconds(np.array([event.ts for event in events], np.float64))
        + bounded(document.base_ns, "base"),
        "duration_ns": nanoseconds(np.array([event.dur for event in events], np.float64)),
    }


def _column(name: str, args: Sequence[Any]) -> pa.Array:
    dtype = EVENT_SCHEMA.field(name).type
    values = list(map(attrgetter(name), args))
    if name in JSON_COLUMNS:
        raw = list(map(bytes, values))
        text = {value: _json_text(value) for value in set(raw)}
        values = [text[value] for value in raw]
    elif pa.types.is_floating(dtype):
        values = [None if value is None else float(value) for value in values]
    return pa.array(values, pa.string() if pa.types.is_dictionary(dtype) else dtype)


def _json_text(raw: bytes) -> str | None:
    """Reverse the exporter's encoding: JSON arrays and objects are embedded as such, other text as a string."""
    if not raw:
        return None
    return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()
