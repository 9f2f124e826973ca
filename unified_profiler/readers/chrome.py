"""Chrome JSON that this package wrote, back to the traces it was made of."""

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


class _Lane(msgspec.Struct):
    pid: int
    tid: int
    columns: dict[str, Any]


class _Own(msgspec.Struct):
    traces: list[msgspec.Raw]
    lanes: list[_Lane]


class _Document(msgspec.Struct, rename={"base_ns": "baseTimeNanoseconds", "events": "traceEvents"}):
    unified_profiler: _Own
    base_ns: int
    events: msgspec.Raw


def _row_type() -> type[Any]:
    """Return the struct of `args`: a field per column, absent ones None; JSON columns stay the text they are."""
    fields: list[tuple[str, Any, Any]] = [("trace", int, 0)]
    for field in EVENT_SCHEMA:
        if field.name in JSON_COLUMNS:
            fields.append((field.name, msgspec.Raw, msgspec.Raw()))
        elif pa.types.is_dictionary(field.type):
            fields.append((field.name, str | None, None))
        elif pa.types.is_floating(field.type):
            fields.append((field.name, float | str | None, None))
        else:
            fields.append((field.name, int | None, None))
    return msgspec.defstruct("_Row", fields, gc=False)


_Row = _row_type()


class _Event(msgspec.Struct, gc=False):
    ph: str
    name: str = ""
    cat: str = ""
    pid: int = 0
    tid: int = 0
    ts: float = 0.0
    dur: float = 0.0
    args: _Row | None = None  # type: ignore[valid-type]  # made from the schema above
    row: _Row | None = None  # type: ignore[valid-type]


def read_chrome(path: Path, text: bytes) -> list[Trace]:
    """Read the traces of a file that `ChromeExporter` wrote.

    Raises:
        TraceFormatError: The text is damaged.
        SchemaVersionError: A newer version wrote it.
    """
    with reading(path, expected="JSON that unified_profiler wrote"):
        document = msgspec.json.decode(text, type=_Document)
        infos = [parse_record(path, bytes(info), TraceInfo) for info in document.unified_profiler.traces]
        events = msgspec.json.decode(document.events, type=list[_Event])
        tables = _tables([event for event in events if event.ph in {"X", "i", "C"}], document, len(infos))
        return [Trace(table, info) for table, info in zip(tables, infos, strict=True)]


def _tables(events: Sequence[_Event], document: _Document, traces: int) -> list[EventTable]:
    rows: list[Any] = [event.row if event.ph == "C" else event.args for event in events]
    table = checked_events(event_table(_columns(events, rows, document), rows=len(events)))
    trace, number = np.fromiter((row.trace for row in rows), np.int64, len(rows)), table.column("id").to_numpy()
    of_trace = [np.flatnonzero(trace == index) for index in range(traces)]
    if (placed := sum(map(len, of_trace))) != len(table):
        msg = f"{len(table) - placed} events belong to no trace"
        raise ValueError(msg)
    in_order = [members[np.argsort(number[members], kind="stable")] for members in of_trace]
    return [checked_nesting(table.take(pa.array(members))) for members in in_order]


def _columns(events: Sequence[_Event], rows: Sequence[Any], document: _Document) -> dict[str, Any]:
    columns = {name: _column(name, rows) for name in EVENT_SCHEMA.names if name not in _OUTSIDE_ARGS}
    lanes = document.unified_profiler.lanes
    number = {(lane.pid, lane.tid): index for index, lane in enumerate(lanes)}
    lane_of = pa.array([number[event.pid, event.tid] for event in events], pa.int32())
    for name in {name for lane in lanes for name in lane.columns}:
        values = pa.array([lane.columns.get(name) for lane in lanes], columns[name].type)
        columns[name] = pc.coalesce(columns[name], values.take(lane_of))
    return columns | {
        "name": pa.array([event.name for event in events], pa.string()),
        "layer": pa.array([event.cat.partition(",")[0] for event in events], pa.string()),
        "kind": pa.array([event.cat.partition(",")[2] for event in events], pa.string()),
        "start_ns": nanoseconds(np.array([event.ts for event in events], np.float64))
        + bounded(document.base_ns, "base"),
        "duration_ns": nanoseconds(np.array([event.dur for event in events], np.float64)),
    }


def _column(name: str, rows: Sequence[Any]) -> pa.Array:
    kind = EVENT_SCHEMA.field(name).type
    values = list(map(attrgetter(name), rows))
    if name in JSON_COLUMNS:
        raw = list(map(bytes, values))
        text = {value: _json_text(value) for value in set(raw)}
        values = [text[value] for value in raw]
    elif pa.types.is_floating(kind):
        values = [None if value is None else float(value) for value in values]
    return pa.array(values, pa.string() if pa.types.is_dictionary(kind) else kind)


def _json_text(raw: bytes) -> str | None:
    """Undo what the exporter did: arrays and objects stand for their own text, strings for text that is no JSON."""
    if not raw:
        return None
    return msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()
