"""Builds the event table of a RunMetadata or a timeline from nodes, copies and allocations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unified_profiler.model.schema import EventTable, Kind, Layer, event_table
from unified_profiler_tensorflow.read.node_lookup import NodeLookup
from unified_profiler_tensorflow.read.run_metadata.names import Device


@dataclass(frozen=True)
class EventType:
    """Layer and kind of an event."""

    layer: str
    kind: str


OPERATOR = EventType(Layer.FRAMEWORK.value, Kind.OP.value)
COLLECTIVE = EventType(Layer.FRAMEWORK.value, Kind.COLLECTIVE.value)
RUN = EventType(Layer.API.value, Kind.API_CALL.value)
KERNEL = EventType(Layer.RUNTIME.value, Kind.KERNEL.value)
COLLECTIVE_KERNEL = EventType(Layer.RUNTIME.value, Kind.COLLECTIVE.value)
COPY = EventType(Layer.RUNTIME.value, Kind.COPY.value)
DEVICE_CALL = EventType(Layer.RUNTIME.value, Kind.RUNTIME.value)
MEMORY = EventType(Layer.RUNTIME.value, Kind.MEMORY.value)
COUNTER = EventType(Layer.RUNTIME.value, Kind.COUNTER.value)

REPEATED_PARTS = frozenset({"stream:all", "memcpy"})
"""Parts of an accelerator that repeat the work of its numbered streams."""

_COPY = re.compile("mem(cpy|set)", re.IGNORECASE)
_COLLECTIVE_KERNEL = re.compile(r"(nccl|rccl)\w*Kernel", re.IGNORECASE)
_COLLECTIVE_PREFIXES = ("Collective", "Nccl", "_Nccl")


@dataclass
class EventTableBuilder:
    """Collects events one by one. Columns that an event does not set are null."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    lookup: NodeLookup = field(default_factory=NodeLookup)

    def add(self, event_type: EventType, *, attributes: Mapping[str, Any], **columns: Any) -> None:
        """Append an event. Attributes that are None, empty or zero are left out."""
        attributes = {key: value for key, value in attributes.items() if value or value is False}
        columns |= {"layer": event_type.layer, "kind": event_type.kind}
        columns["attributes"] = json_text(attributes) if attributes else None
        self.rows.append(columns)

    def add_node(self, event_type: EventType, node: str, op_type: str, **columns: Any) -> None:
        """Append an event that is a node of a graph, or was launched by one; an empty type is an unknown one."""
        if event_type is OPERATOR:
            event_type = operator_type(op_type)
        self.add(event_type, **{**self.lookup.columns(node, op_type), **columns})

    def table(self, *, step: int | None = None, pid: int | None = None) -> EventTable:
        """Build the event table."""
        names = {name for row in self.rows for name in row}
        columns: dict[str, Any] = {name: [row.get(name) for row in self.rows] for name in names}
        return event_table(columns | {"framework": "tensorflow", "step": step, "pid": pid}, rows=len(self.rows))


def operator_type(op_type: str) -> EventType:
    """Return the type of the event of a node on the device that it was placed on."""
    return COLLECTIVE if op_type.startswith(_COLLECTIVE_PREFIXES) else OPERATOR


def device_event_type(part: str, work: str) -> EventType:
    """Return the type of work on a part of an accelerator: `stream:14`, `stream:14<MemcpyH2D>`, `memcpy`, `sync`."""
    if part.startswith("sync"):
        return DEVICE_CALL
    if "memcpy" in part.lower() or _COPY.match(work):
        return COPY
    return COLLECTIVE_KERNEL if _COLLECTIVE_KERNEL.match(work) else KERNEL


def without_repeated(devices: Mapping[int, Device]) -> dict[int, Device]:
    """Remove the parts of accelerators that repeat the work of others."""
    streams = {device.name for device in devices.values() if device.stream is not None}
    return {key: d for key, d in devices.items() if d.part not in REPEATED_PARTS or d.name not in streams}


def json_text(value: Any) -> str:
    """Return compact JSON."""
    return msgspec.json.encode(value).decode()
