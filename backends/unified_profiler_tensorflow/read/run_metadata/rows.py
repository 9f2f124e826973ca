"""From nodes, copies and allocations, as plain values, to the columns of the event schema.

Shared by what holds them: RunMetadata, and the timelines that TensorFlow makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unified_profiler.model.schema import EventTable, Kind, Layer, event_table
from unified_profiler_tensorflow.read.node_reader import NodeReader
from unified_profiler_tensorflow.read.run_metadata.names import Device

_CANONICAL = ("op", "origin", "direction", "module")


@dataclass(frozen=True)
class Meaning:
    """Layer and kind of an event."""

    layer: Layer
    kind: Kind


OPERATOR = Meaning(Layer.FRAMEWORK, Kind.OP)
RUN = Meaning(Layer.API, Kind.API_CALL)
KERNEL = Meaning(Layer.RUNTIME, Kind.KERNEL)
COPY = Meaning(Layer.RUNTIME, Kind.COPY)
DEVICE_CALL = Meaning(Layer.RUNTIME, Kind.RUNTIME)
MEMORY = Meaning(Layer.RUNTIME, Kind.MEMORY)
COUNTER = Meaning(Layer.RUNTIME, Kind.COUNTER)

REPEATED = frozenset({"stream:all", "memcpy"})
"""Parts of an accelerator that TensorFlow lists besides its numbered streams, with the same work in them."""

COLLECTIVES = ("Collective", "Nccl", "_Nccl")
"""How the types of collective operators begin."""


@dataclass
class Rows:
    """Events, growing one by one; what a row does not say is null."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    reader: NodeReader = field(default_factory=NodeReader)
    _by_node: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def add(self, meaning: Meaning, *, attributes: Mapping[str, Any] | None = None, **columns: Any) -> None:
        """Append an event. Attributes that are None, empty or zero are left out."""
        said = {key: value for key, value in (attributes or {}).items() if value or value is False}
        columns |= {"layer": meaning.layer.value, "kind": meaning.kind.value}
        columns["attributes"] = json_text(said) if said else None
        self.rows.append(columns)

    def add_node(self, meaning: Meaning, node: str, op_type: str, **columns: Any) -> None:
        """Append an event that is, or was launched by, a node of a graph, if its type is known."""
        if meaning is OPERATOR and op_type.startswith(COLLECTIVES):
            meaning = Meaning(Layer.FRAMEWORK, Kind.COLLECTIVE)
        self.add(meaning, **(self._read(node, op_type) if op_type else {}), **columns)

    def _read(self, node: str, op_type: str) -> dict[str, Any]:
        if (node, op_type) not in self._by_node:
            found = self.reader.canonical(node, op_type)
            told = (found.op, found.origin, found.direction, self.reader.module(node))
            self._by_node[node, op_type] = dict(zip(_CANONICAL, told, strict=True))
        return self._by_node[node, op_type]

    def table(self, *, step: int | None = None, pid: int | None = None) -> EventTable:
        """Build the event table."""
        names = {name for row in self.rows for name in row}
        columns: dict[str, Any] = {name: [row.get(name) for row in self.rows] for name in sorted(names)}
        return event_table(columns | {"framework": "tensorflow", "step": step, "pid": pid}, rows=len(self.rows))


def meaning_of_part(part: str, work: str) -> Meaning:
    """Return what work of a part of an accelerator is: `stream:14`, `stream:14<MemcpyH2D>`, `memcpy`, `sync`."""
    if part.startswith("sync"):
        return DEVICE_CALL
    return COPY if "memcpy" in part.lower() or work.startswith("MEMCPY") else KERNEL


def without_repeated(devices: Mapping[int, Device]) -> dict[int, Device]:
    """Leave out the parts of accelerators whose work is in others."""
    streams = {device.name for device in devices.values() if device.stream is not None}
    return {key: d for key, d in devices.items() if d.part not in REPEATED or d.name not in streams}


def json_text(value: Any) -> str:
    """Write compact JSON."""
    return msgspec.json.encode(value).decode()
