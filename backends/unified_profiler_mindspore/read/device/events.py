"""From an ASCEND_PROFILER_OUTPUT directory to events: the host's calls, what ran on the device, collectives, memory.

Written from MindSpore's own analysis, which makes these files, and their public documentation; not yet checked against
files of a real device.
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

from unified_profiler.model.foreign import read_bytes, reading
from unified_profiler.model.foreign_values import LARGEST, whole
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Kind, Layer, event_table
from unified_profiler_mindspore.canonical.assignment import lookup
from unified_profiler_mindspore.canonical.kernel_names import Node, parse
from unified_profiler_mindspore.read.device.memory import allocations, memory
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
    read_trace,
)
from unified_profiler_mindspore.read.lanes import KERNEL_LANE

DERIVED = frozenset({"Scope Layer", "Overlap Analysis"})
"""Processes that the analysis draws from the others: left out."""

ARROWS = frozenset({"s", "f", "t"})
"""Phases of arrows: those from host to device become correlation ids, the others join what nests anyway."""

TO_DEVICE = "HostToDevice"
"""Category of the arrows from a call to what it launched on the device."""

Metadata = dict[str, Any]


class Track(NamedTuple):
    """What the events of a process are."""

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
_COPY = re.compile(r"memcpy|memset", re.IGNORECASE)


def device_events(folder: Path) -> tuple[EventTable, Metadata]:
    """Return the events of an ASCEND_PROFILER_OUTPUT directory and what else is known about the recording.

    Raises:
        TraceFormatError: A file is missing, damaged or of another kind.
    """
    said = _profiler_info(folder.parent)
    device = f"npu:{said.get('ms_profiler_info', {}).get('device_id') or 0}"
    view = _View(folder / TRACE, device, _kernel_details(folder / KERNELS))
    rows = [*view.rows(), *allocations(folder / ALLOCATIONS), *memory(folder / MEMORY)]
    if steps := read_table(folder / STEP_TIMES):
        said["step_trace_time"] = steps
    columns = {name: _column(name, rows) for name in EVENT_SCHEMA.names if any(name in row for row in rows)}
    rank = said.get("ms_profiler_info", {}).get("rank_id")
    place = {"framework": "mindspore", "rank": None if rank is None else int(rank)}
    return event_table(columns | place, rows=len(rows)), said


def _column(name: str, rows: Sequence[Row]) -> pa.Array:
    kind = EVENT_SCHEMA.field(name).type
    values = [row.get(name) for row in rows]
    return pa.array(values, pa.string()).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(values, kind)


def _profiler_info(folder: Path) -> Metadata:
    """Return what profiler_info_*.json says: versions, rank, device, options."""
    found = sorted(folder.glob("profiler_info*.json"))
    if not found:
        return {}
    with reading(found[0], expected="what MindSpore's profiler says about a recording"):
        info = msgspec.json.decode(read_bytes(found[0]), type=dict[str, Any])
    return info | {"framework_version": info.get("ms_version")}


@dataclass(frozen=True)
class _View:
    """The chrome trace, with what other files say about its kernels."""

    path: Path
    device: str
    details: Mapping[int, Sequence[Mapping[str, str]]]
    """Rows of kernel_details by start."""

    def rows(self) -> Iterator[Row]:
        """Return a row per event."""
        with reading(self.path, expected="a chrome trace of MindSpore"):
            yield from self._rows(read_trace(self.path))

    def _rows(self, entries: Sequence[Entry]) -> Iterator[Row]:
        processes = {entry.pid: entry.args.get("name", "") for entry in entries if entry.name == "process_name"}
        threads = {(e.pid, e.tid): e.args.get("name") for e in entries if e.name == "thread_name"}
        correlations = self._correlations(entries)
        for entry in entries:
            process = processes.get(entry.pid, "")
            if entry.ph == "M" or entry.ph in ARROWS or process in DERIVED:
                continue
            row = self._row(entry, TRACKS.get(process, _OTHER), process)
            row["thread"] = "mindspore kernels" if process == "CPU OP" else threads.get((entry.pid, entry.tid))
            row["correlation_id"] = correlations.get((entry.pid, entry.tid, entry.ts))
            yield row

    def _correlations(self, entries: Iterable[Entry]) -> dict[tuple[Any, Any, Any], int]:
        """Number the arrows from calls to the device; each end is where an event begins."""
        numbers: dict[Any, int] = {}
        ends = [entry for entry in entries if entry.ph in ARROWS and entry.cat == TO_DEVICE]
        return {(e.pid, e.tid, e.ts): numbers.setdefault(e.id, len(numbers) + 1) for e in ends}

    def _row(self, entry: Entry, track: Track, process: str) -> Row:
        start_ns = nanoseconds(entry.ts)
        row: Row = {
            "name": entry.name,
            "layer": track.layer.value,
            "kind": track.kind.value,
            "start_ns": start_ns,
            "duration_ns": nanoseconds(entry.dur),
            "device": self.device if track.on_device else "cpu:0",
            "tid": whole(entry.tid, largest=LARGEST),
        }
        if track.on_device:
            row |= {"pid": int(self.device.partition(":")[2]), "stream": row["tid"]}
        extra = dict(entry.args) | ({"cat": entry.cat} if entry.cat else {})
        if entry.ph == "C":
            row |= _counter(entry)
        elif process == "MindSpore":
            row |= _host_call(entry.name, extra)
        elif process == "CPU OP":
            row |= {"tid": KERNEL_LANE, **_of_node(parse(entry.name), entry.name, extra)}
        elif track.kind is Kind.KERNEL:
            row |= self._kernel(entry, start_ns, extra)
        if extra:
            row["attributes"] = json.dumps(extra, separators=(",", ":"), ensure_ascii=False)
        return row

    def _kernel(self, entry: Entry, start_ns: int, extra: Metadata) -> Row:
        """Return what kernel_details and the launching operator say about a kernel; the rest goes to `extra`."""
        if _COPY.search(entry.name):
            return {"kind": Kind.COPY.value}
        found = [row for row in self.details.get(start_ns, ()) if row.get("Name", "").endswith(entry.name)]
        details = dict(found[0]) if found else {}
        node = parse(str(extra.get("mindspore_op") or entry.name).rsplit("::", 1)[-1])
        row: Row = {}
        for name, column in (("Input Shapes", "input_shapes"), ("Output Shapes", "output_shapes")):
            row[column] = _shapes(details.pop(name, ""))
        for name, column in (("Input Data Types", "input_types"), ("Output Data Types", "output_types")):
            row[column] = _list(details.pop(name, ""))
        kind = details.get("Type")
        for name in ("Name", "Start Time(us)", "Duration(us)"):
            details.pop(name, None)
        extra |= {name: value for name, value in details.items() if value not in {"", "N/A"}}
        return row | _canonical(replace(node, type=kind) if kind else node) | {"module": node.module}


def _counter(entry: Entry) -> Row:
    """Return the value of a counter: the first number among its arguments."""
    numbers = [value for value in entry.args.values() if isinstance(value, int | float)]
    return {"kind": Kind.COUNTER.value, "value": float(numbers[0]) if numbers else None}


def _host_call(name: str, extra: Metadata) -> Row:
    """Return what an event of MindSpore itself is: a step, a range of the program, an operator's launch, or a call."""
    if found := _STEP.search(name):
        return {"layer": Layer.APPLICATION.value, "kind": Kind.STEP.value, "step": int(found[1])}
    if "::PythonObserved::" in name:
        return {"layer": Layer.APPLICATION.value, "kind": Kind.REGION.value}
    if not _LAUNCH.search(name):
        return {}
    full_name = name.rsplit("::", 1)[-1]
    launch = {"layer": Layer.FRAMEWORK.value, "kind": Kind.OP.value}
    return launch | _of_node(parse(full_name), full_name, extra)


def _of_node(node: Node, full_name: str, extra: Metadata) -> Row:
    if "/" in full_name:
        extra["node"] = full_name
    return {"name": node.type, "module": node.module} | _canonical(node)


def _canonical(node: Node) -> Row:
    table = lookup()
    direction = table.direction(node) or table.direction_by_type(node)
    of_layer = node.gradient_of in table.anchors and table.layer_of(node)
    origin = of_layer or table.origin(node, direction)
    return {"op": table.op(node), "origin": origin, "direction": direction}


def _kernel_details(path: Path) -> dict[int, list[dict[str, str]]]:
    found: dict[int, list[dict[str, str]]] = defaultdict(list)
    for start_ns, row in converted_rows(path, lambda row: [(nanoseconds(row.get("Start Time(us)", "")), row)]):
        found[start_ns].append(row)
    return found


def _shapes(text: str) -> str | None:
    """Return shapes as JSON: `"16,1,8,8;4,1,3,3"` becomes [[16,1,8,8],[4,1,3,3]]."""
    if not has_value(text):
        return None
    parts = [part.split(",") if part else [] for part in text.strip('"').split(";")]
    numbers = [[int(size) if size.strip().lstrip("-").isdigit() else size for size in part] for part in parts]
    return json.dumps(numbers, separators=(",", ":"))


def _list(text: str) -> str | None:
    return json.dumps(text.strip('"').split(";"), separators=(",", ":")) if has_value(text) else None
