"""Reads timelines: the Chrome JSON that TensorFlow's `Timeline` makes of step statistics, as ProfilerHook writes it.

Does not import TensorFlow. Times are whole microseconds; there are no shapes, and memory only as counters.
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
from unified_profiler.spi.lanes import lane_number
from unified_profiler_tensorflow.read.run_metadata.builder import (
    COUNTER,
    OPERATOR,
    EventTableBuilder,
    device_event_type,
    without_repeated,
)
from unified_profiler_tensorflow.read.run_metadata.names import Device, read_device

LEFT_OUT = {
    "N": "creation of a tensor: when its node runs",
    "O": "description of a tensor as text; the allocations are counters",
    "D": "last use of a tensor",
    "s": "start of an arrow from a node to one that uses its output, which the attribute `inputs` contains",
    "t": "end of such an arrow",
}
"""Phases of events that are left out, and why."""

_SNIFF = 4096
_OPENING = re.compile(rb'\s*\{\s*"traceEvents"\s*:\s*\[\s*\{')
_ALLOCATORS = re.compile(rb'"name"\s*:\s*"Allocators"')
"""The first process of every timeline."""
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
    """Return whether the first bytes are those of a timeline."""
    head = peek_bytes(path, _SNIFF)
    return _OPENING.match(head) is not None and _ALLOCATORS.search(head) is not None


def read(path: Path) -> EventTable:
    """Read the events of a timeline.

    Raises:
        TraceFormatError: The file is damaged, empty, of another format, or contains no nodes.
    """
    with reading(path, expected="a timeline of TensorFlow"):
        return _table(path, _load(path))


def _table(path: Path, events: Sequence[_Event]) -> EventTable:
    names = {e.pid: str(e.args.get("name", "")) for e in events if e.ph == "M" and e.name == "process_name"}
    computing = {e.pid: names.get(e.pid, str(e.pid)).removesuffix(_COMPUTE) for e in events if e.ph == "X"}
    if not computing:
        msg = f"{path} is a timeline without nodes, so there is nothing to show. Was the run traced?"
        raise TraceFormatError(msg)
    devices = without_repeated({pid: read_device(name) for pid, name in computing.items()})
    builder = EventTableBuilder()
    for event in events:
        if event.ph == "X" and event.pid in devices:
            _add_node(builder, event, devices[event.pid], computing[event.pid])
        elif event.ph == "C":
            _add_counters(builder, event, names.get(event.pid, ""))
    metadata = msgspec.json.encode({"devices": list(computing.values())})
    return checked_events(builder.table()).replace_schema_metadata({b"native": metadata})


def _load(path: Path) -> list[_Event]:
    data = read_bytes(path)
    if not data.strip():
        msg = f"{path} is empty; expected a timeline of TensorFlow. Was the program killed while writing it?"
        raise TraceFormatError(msg)
    try:
        return msgspec.json.decode(data, type=_Document).events
    except msgspec.ValidationError as error:
        msg = f"{path} is JSON, but not a timeline of TensorFlow: {error}."
        raise TraceFormatError(msg) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = "ends too early: it is truncated" if "truncated" in str(error) else f"is not valid JSON: {error}"
        msg = f"{path} {reason}. Expected a timeline of TensorFlow; make it again."
        raise TraceFormatError(msg) from error


def _add_node(builder: EventTableBuilder, event: _Event, device: Device, device_name: str) -> None:
    node, op_type = str(event.args.get("name", "")), str(event.args.get("op", event.name))
    builder.add_node(
        OPERATOR if device.part is None else device_event_type(device.part, event.name),
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
    numbered = [(int(match[1]), name) for key, name in args.items() if (match := _INPUT.match(key))]
    return [name for _, name in sorted(numbered)]


def _add_counters(builder: EventTableBuilder, event: _Event, process: str) -> None:
    """Add a counter event for each allocator."""
    values = {name: value for name, value in event.args.items() if isinstance(value, (int, float))}
    for name, value in values.items():
        builder.add(
            COUNTER,
            name=name,
            start_ns=event.ts * 1000,
            duration_ns=0,
            tid=lane_number(process, event.tid),
            thread=process,
            value=value,
            attributes={"category": event.cat},
        )
