"""Timelines: the chrome JSON that TensorFlow's `Timeline` makes of step statistics, as ProfilerHook writes it.

Works without TensorFlow. Times are whole microseconds; shapes are not in it, and memory only as counters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, read_bytes, reading
from unified_profiler.model.foreign_values import checked_events
from unified_profiler.model.schema import EventTable
from unified_profiler_tensorflow.read.run_metadata.lanes import lane_number
from unified_profiler_tensorflow.read.run_metadata.names import Device, read_device
from unified_profiler_tensorflow.read.run_metadata.rows import (
    COUNTER,
    OPERATOR,
    Rows,
    meaning_of_part,
    without_repeated,
)

LEFT_OUT = {
    "N": "a tensor is made: when its node runs",
    "O": "a tensor's description, as text; the allocations are counters",
    "D": "a tensor was used for the last time",
    "s": "arrow from a node to one that takes its output: the attribute `inputs` says the same",
    "t": "the end of such an arrow",
}
"""Phases of events that are left out, and why."""

_SNIFF = 4096
_OPENING = re.compile(rb'\s*\{\s*"traceEvents"\s*:\s*\[\s*\{')
_ALLOCATORS = re.compile(rb'"name"\s*:\s*"Allocators"')
"""The name of the first process of every timeline."""
_COMPUTE = " Compute"
_INPUT = re.compile(r"input(\d+)$")


_Microseconds = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]


class _Event(msgspec.Struct):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int = 0
    tid: int = 0
    ts: _Microseconds = 0
    dur: _Microseconds = 0
    args: dict[str, Any] = {}


class _Document(msgspec.Struct, rename={"events": "traceEvents"}):
    events: list[_Event]


def recognizes(path: Path) -> bool:
    """Say from its first bytes whether this file is a timeline."""
    head = peek_bytes(path, _SNIFF)
    return _OPENING.match(head) is not None and _ALLOCATORS.search(head) is not None


def read(path: Path) -> EventTable:
    """Read the events of a timeline.

    Raises:
        TraceFormatError: It is damaged, empty, of another kind, or holds no nodes.
    """
    with reading(path, expected="a timeline of TensorFlow"):
        return _table(path, _load(path))


def _table(path: Path, events: Sequence[_Event]) -> EventTable:
    names = {e.pid: str(e.args.get("name", "")) for e in events if e.ph == "M" and e.name == "process_name"}
    computing = {e.pid: names.get(e.pid, str(e.pid)).removesuffix(_COMPUTE) for e in events if e.ph == "X"}
    if not computing:
        msg = f"{path} is a timeline without any node: there is nothing to show. Was the run traced?"
        raise TraceFormatError(msg)
    devices = without_repeated({pid: read_device(name) for pid, name in computing.items()})
    rows = Rows()
    for event in events:
        if event.ph == "X" and event.pid in devices:
            _add_node(rows, event, devices[event.pid], computing[event.pid])
        elif event.ph == "C":
            _add_counters(rows, event, names.get(event.pid, ""))
    said = msgspec.json.encode({"devices": list(computing.values())})
    return checked_events(rows.table()).replace_schema_metadata({b"native": said})


def _load(path: Path) -> list[_Event]:
    data = read_bytes(path)
    if not data.strip():
        msg = f"{path} is empty; expected a timeline of TensorFlow. Was the program killed while writing it?"
        raise TraceFormatError(msg)
    try:
        return msgspec.json.decode(data, type=_Document).events
    except msgspec.ValidationError as error:
        msg = f"{path} is JSON, but no timeline of TensorFlow: {error}."
        raise TraceFormatError(msg) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = "ends too early: it is truncated" if "truncated" in str(error) else f"is no valid JSON: {error}"
        msg = f"{path} {reason}. Expected a timeline of TensorFlow; make it again."
        raise TraceFormatError(msg) from error


def _add_node(rows: Rows, event: _Event, device: Device, device_name: str) -> None:
    node, op_type = str(event.args.get("name", "")), str(event.args.get("op", event.name))
    meaning = OPERATOR if device.part is None else meaning_of_part(device.part, event.name)
    rows.add_node(
        meaning,
        node,
        op_type,
        name=event.name or op_type,
        start_ns=event.ts * 1000,
        duration_ns=event.dur * 1000,
        device=device.name,
        stream=device.stream,
        tid=lane_number(device_name, event.tid),
        thread=f"{device_name} lane {event.tid}",
        attributes={"node": node, "inputs": _inputs(event.args), "kernel": event.args.get("kernel")},
    )


def _inputs(args: Mapping[str, Any]) -> list[str]:
    numbered = [(int(found.group(1)), name) for key, name in args.items() if (found := _INPUT.match(key))]
    return [name for _, name in sorted(numbered)]


def _add_counters(rows: Rows, event: _Event, process: str) -> None:
    """Add the values of a counter, one for each allocator."""
    values = {name: value for name, value in event.args.items() if isinstance(value, (int, float))}
    for name, value in values.items():
        rows.add(
            COUNTER,
            name=name,
            start_ns=event.ts * 1000,
            duration_ns=0,
            tid=lane_number(process, event.tid),
            thread=process,
            value=value,
            attributes={"category": event.cat},
        )
