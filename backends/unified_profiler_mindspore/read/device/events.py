"""Converts an ASCEND_PROFILER_OUTPUT directory to events: host calls, device kernels, collectives and memory.

Based on the source of MindSpore's analysis, which writes these files, and on their public documentation; not yet tested
with files of a real device.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from unified_profiler.model.columns import Index
from unified_profiler.model.foreign import read_bytes, reading
from unified_profiler.model.foreign_values import LARGEST, int_or_none
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Kind, Layer, event_table
from unified_profiler_mindspore.canonical.assignment import lookup
from unified_profiler_mindspore.canonical.kernel_names import Node, parse
from unified_profiler_mindspore.read.device.memory import allocation_rows, total_rows
from unified_profiler_mindspore.read.device.trace_view import (
    ALLOCATIONS,
    KERNELS,
    MEMORY,
    STEP_TIMES,
    TRACE,
    Entry,
    Row,
    converted_rows,
    has_value,
    nanoseconds,
    read_table,
)
from unified_profiler_mindspore.read.lanes import KERNEL_LANE, OPERATORS

DERIVED = frozenset({"Scope Layer", "Overlap Analysis"})
"""Processes that the analysis derives from the others; not converted."""

ARROWS = frozenset({"s", "f", "t"})
"""Phases of flow arrows: those from host to device become correlation ids, the others connect nested events."""

TO_DEVICE = "HostToDevice"
"""Category of the arrows from a call to the device work that it launched."""

Metadata = dict[str, Any]


class Track(NamedTuple):
    """Layer and kind of the events of a process."""

    layer: Layer
    kind: Kind
    on_device: bool = False


TRACKS = {
    "MindSpore": Track(Layer.RUNTIME, Kind.RUNTIME),
    "CPU OP": Track(Layer.FRAMEWORK, Kind.OP),
    "CANN": Track(Layer.RUNTIME, Kind.RUNTIME),
    "Ascend Hardware": Track(Layer.RUNTIME, Kind.KERNEL, on_device=True),
    "HCCL": Track(Layer.RUNTIME, Kind.COLLECTIVE, on_device=True),
    "Communication": Track(Layer.RUNTIME, Kind.COLLECTIVE, on_device=True),
    "python": Track(Layer.APPLICATION, Kind.REGION),
    "python3": Track(Layer.APPLICATION, Kind.REGION),
}
_OTHER = Track(Layer.HARDWARE, Kind.RUNTIME, on_device=True)

_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")
_LAUNCH = re.compile(r"::(?:KernelLaunch|PyNativeLaunchTask)::")
_COPY = re.compile(r"memcpy|memset|^SDMA", re.IGNORECASE)
_COLLECTIVE = re.compile(r"(?:\w+::)*(hcom|hccl)_?[A-Za-z]", re.IGNORECASE)
_SYNCHRONIZATION = re.compile(r"(EVENT|NOTIFY)_(WAIT|RECORD|RESET)\w*|(MEM_)?(WAIT|WRITE)_VALUE\w*", re.IGNORECASE)
"""Tasks with which streams wait for each other: records on the device, but not work of it."""


def device_events(folder: Path) -> tuple[EventTable, Metadata]:
    """Return the events of an ASCEND_PROFILER_OUTPUT directory and the metadata of the recording.

    Raises:
        TraceFormatError: A file is missing, damaged or of another kind.
    """
    metadata = _profiler_info(folder.parent)
    info = metadata.get("ms_profiler_info", {})
    converter = _TraceConverter(folder / TRACE, f"npu:{info.get('device_id') or 0}", _kernel_details(folder / KERNELS))
    rows = [
        *converter.rows(),
        *converted_rows(folder / ALLOCATIONS, allocation_rows),
        *converted_rows(folder / MEMORY, total_rows),
    ]
    if steps := read_table(folder / STEP_TIMES):
        metadata["step_trace_time"] = steps
    columns = {name: _column(name, rows) for name in EVENT_SCHEMA.names if any(name in row for row in rows)}
    rank = info.get("rank_id")
    common = {"framework": "mindspore", "rank": None if rank is None else int(rank)}
    return event_table(columns | common, rows=len(rows)), metadata


def _column(name: str, rows: Sequence[Row]) -> pa.Array:
    column_type = EVENT_SCHEMA.field(name).type
    values = [row.get(name) for row in rows]
    if pa.types.is_dictionary(column_type):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, column_type)


def _profiler_info(folder: Path) -> Metadata:
    """Return the content of profiler_info_*.json: versions, rank, device, options."""
    paths = sorted(folder.glob("profiler_info*.json"))
    if not paths:
        return {}
    with reading(paths[0], expected="the metadata of a MindSpore recording"):
        info = msgspec.json.decode(read_bytes(paths[0]), type=dict[str, Any])
    return info | {"framework_version": info.get("ms_version")}


@dataclass(frozen=True)
class _TraceConverter:
    """Converts the chrome trace to rows, with the kernel details of another file."""

    path: Path
    device: str
    details: Mapping[int, Sequence[Mapping[str, str]]]
    """Rows of kernel_details.csv by start time."""

    def rows(self) -> Iterator[Row]:
        """Yield a row per event."""
        with reading(self.path, expected="a chrome trace of MindSpore"):
            entries = msgspec.json.decode(read_bytes(self.path), type=list[Entry])
            processes = {entry.pid: entry.args.get("name", "") for entry in entries if entry.name == "process_name"}
            threads = {(e.pid, e.tid): e.args.get("name") for e in entries if e.name == "thread_name"}
            correlations = self._correlations(entries)
            for entry in entries:
                process = processes.get(entry.pid, "")
                if entry.ph == "M" or entry.ph in ARROWS or process in DERIVED:
                    continue
                row = self._row(entry, TRACKS.get(process, _OTHER), process)
                row["thread"] = OPERATORS if process == "CPU OP" else threads.get((entry.pid, entry.tid))
                row["correlation_id"] = correlations.get((entry.pid, entry.tid, entry.ts))
                yield row

    def _correlations(self, entries: Iterable[Entry]) -> dict[tuple[Any, Any, Any], int]:
        """Number the arrows from host to device; both ends of an arrow are at the start of an event."""
        ends = [entry for entry in entries if entry.ph in ARROWS and entry.cat == TO_DEVICE]
        launches = {entry.id: (entry.pid, entry.tid, entry.ts) for entry in ends if entry.ph == "s"}
        numbers = Index()  # one for all that a call launched
        return {(e.pid, e.tid, e.ts): numbers[launches.get(e.id, e.id)] + 1 for e in ends}

    def _row(self, entry: Entry, track: Track, process: str) -> Row:
        start_ns = nanoseconds(entry.ts)
        row: Row = {
            "name": entry.name,
            "layer": track.layer.value,
            "kind": track.kind.value,
            "start_ns": start_ns,
            "duration_ns": nanoseconds(entry.dur),
            "device": self.device if track.on_device else "cpu:0",
            "tid": int_or_none(entry.tid, largest=LARGEST),
        }
        if track.on_device:
            row |= {"pid": int(self.device.partition(":")[2]), "stream": row["tid"]}
        extra = dict(entry.args) | ({"cat": entry.cat} if entry.cat else {})
        if entry.ph == "C":
            row |= _counter(entry)
        elif process == "MindSpore":
            row |= _host_call(entry.name, extra)
        elif process == "CPU OP":
            row |= {"tid": KERNEL_LANE, **_operator(entry.name, extra)}
        elif track.kind is Kind.KERNEL:
            row |= self._kernel(entry, start_ns, extra)
        if extra:
            row["attributes"] = json.dumps(extra, separators=(",", ":"), ensure_ascii=False)
        return row

    def _kernel(self, entry: Entry, start_ns: int, extra: Metadata) -> Row:
        """Return the columns of a kernel from kernel_details and its operator; other details are added to `extra`."""
        texts = entry.name, str(extra.get("Task Type", ""))
        if any(map(_SYNCHRONIZATION.fullmatch, texts)):
            return {"kind": Kind.RUNTIME.value}
        if any(map(_COPY.search, texts)):
            return {"kind": Kind.COPY.value}
        kind = Kind.COLLECTIVE if _COLLECTIVE.match(entry.name) else Kind.KERNEL
        candidates = self.details.get(start_ns, ())
        details = dict(next((row for row in candidates if row.get("Name", "").endswith(entry.name)), {}))
        node = parse(str(extra.get("mindspore_op") or entry.name).rsplit("::", 1)[-1])
        row: Row = {
            "kind": kind.value,
            "input_shapes": _shapes(details.pop("Input Shapes", "")),
            "output_shapes": _shapes(details.pop("Output Shapes", "")),
            "input_types": _list(details.pop("Input Data Types", "")),
            "output_types": _list(details.pop("Output Data Types", "")),
        }
        kernel_type = details.get("Type")
        for name in ("Name", "Start Time(us)", "Duration(us)"):
            details.pop(name, None)
        extra |= {name: value for name, value in details.items() if value not in {"", "N/A"}}
        return row | _canonical(replace(node, type=kernel_type) if kernel_type else node) | {"module": node.module}


def _counter(entry: Entry) -> Row:
    """Return the value of a counter: the first number among its arguments."""
    numbers = (float(value) for value in entry.args.values() if isinstance(value, int | float))
    return {"kind": Kind.COUNTER.value, "value": next(numbers, None)}


def _host_call(name: str, extra: Metadata) -> Row:
    """Classify an event of MindSpore itself: a step, a range of the program, an operator's launch, or a call."""
    if match := _STEP.search(name):
        return {"layer": Layer.APPLICATION.value, "kind": Kind.STEP.value, "step": int(match[1])}
    if "::PythonObserved::" in name:
        return {"layer": Layer.APPLICATION.value, "kind": Kind.REGION.value}
    if not _LAUNCH.search(name):
        return {}
    return {"layer": Layer.FRAMEWORK.value, "kind": Kind.OP.value} | _operator(name.rsplit("::", 1)[-1], extra)


def _operator(full_name: str, extra: Metadata) -> Row:
    if "/" in full_name:
        extra["node"] = full_name
    node = parse(full_name)
    return {"name": node.type, "module": node.module} | _canonical(node)


def _canonical(node: Node) -> Row:
    table = lookup()
    direction = table.direction(node) or table.direction_by_type(node)
    layer = table.layer_of(node) if node.gradient_of in table.anchors else None
    return {"op": table.op(node), "origin": layer or table.origin(node, direction), "direction": direction}


def _kernel_details(path: Path) -> dict[int, list[dict[str, str]]]:
    rows: dict[int, list[dict[str, str]]] = defaultdict(list)
    for start_ns, row in converted_rows(path, lambda row: [(nanoseconds(row.get("Start Time(us)", "")), row)]):
        rows[start_ns].append(row)
    return rows


def _shapes(text: str) -> str | None:
    """Convert shapes to JSON: `"16,1,8,8;4,1,3,3"` becomes [[16,1,8,8],[4,1,3,3]]."""
    if not has_value(text):
        return None
    parts = [part.split(",") if part else [] for part in text.strip('"').split(";")]
    numbers = [[int(size) if size.strip().lstrip("-").isdigit() else size for size in part] for part in parts]
    return json.dumps(numbers, separators=(",", ":"))


def _list(text: str) -> str | None:
    return json.dumps(text.strip('"').split(";"), separators=(",", ":")) if has_value(text) else None
