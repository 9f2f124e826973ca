"""Operators that are told twice: XPlane sees those of v1 sessions too, and RunMetadata tells more about them.

Where a run of a session was traced, its nodes in the XPlane file stay, as events of the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable, Layer
from unified_profiler.model.tree import Flags
from unified_profiler_tensorflow.read.node_reader import NodeReader

Node = tuple[str, str]
"""Path and type."""

Shapes = tuple[str, str]
"""Shapes and types of the inputs, as they are in their columns."""

_RUNTIME = Layer.RUNTIME.value
_SHAPES = ("input_shapes", "input_types")


@dataclass(frozen=True)
class SessionRun:
    """One traced run of a session."""

    start_ns: int
    end_ns: int
    nodes: frozenset[Node]

    @classmethod
    def of(cls, events: EventTable, entry: Mapping[str, Any] | None) -> SessionRun | None:
        """Make it from the events of its RunMetadata; None where it is not known when the run was."""
        if not entry or entry.get("start_ns") is None or entry.get("end_ns") is None:
            return None
        nodes = frozenset(
            node for node in _nodes(events.filter(pc.not_equal(events.column("layer"), _RUNTIME))) if node
        )
        return cls(entry["start_ns"], entry["end_ns"], nodes)


def covered_by_sessions(runs: Sequence[SessionRun], start_ns: Ints, node: Ints, nodes: Sequence[Node]) -> Flags:
    """Say which events are nodes that one of the runs tells.

    Args:
        runs: The runs.
        start_ns: When each event began.
        node: The number of each event's node.
        nodes: The nodes.
    """
    found = np.zeros(len(start_ns), np.bool_)
    for graph in {run.nodes for run in runs}:
        known = np.array([each in graph for each in nodes], np.bool_)[node]
        windows = sorted((run.start_ns, run.end_ns) for run in runs if run.nodes == graph)
        begin, end = np.array(windows, np.int64).T
        last = np.searchsorted(begin, start_ns, side="right") - 1
        found |= known & (last >= 0) & (start_ns < np.maximum.accumulate(end)[last])
    return found


def input_shapes(events: EventTable) -> dict[Node, Shapes]:
    """Return the shapes of the nodes in an XPlane file that are told by RunMetadata, which does not tell shapes."""
    known = pc.and_(pc.is_valid(events.column("input_shapes")), pc.equal(events.column("layer"), _RUNTIME))
    events = events.filter(known)
    shapes = zip(*(events.column(name).to_pylist() for name in _SHAPES), strict=True)
    return {node: found for node, found in zip(_nodes(events), shapes, strict=True) if node}


def with_shapes(events: EventTable, shapes: Mapping[Node, Shapes]) -> EventTable:
    """Give the nodes of a RunMetadata their shapes."""
    found = [shapes.get(node, (None, None)) if node else (None, None) for node in _nodes(events)]
    for name, values in zip(_SHAPES, zip(*found, strict=True), strict=False):
        field = EVENT_SCHEMA.field(name)
        column = pa.array(values, pa.string()).dictionary_encode().cast(field.type)
        events = events.set_column(EVENT_SCHEMA.get_field_index(name), field, column)
    return events


def with_flops(events: EventTable, reader: NodeReader) -> EventTable:
    """Give the nodes of a RunMetadata, which has the shapes of their outputs, their floating-point operations."""
    shapes = (events.column(name).to_pylist() for name in (*_SHAPES, "output_shapes"))
    rows = zip(_nodes(events), *shapes, strict=True)
    counted = [reader.flops(*node, *told) if node else None for node, *told in rows]
    field = EVENT_SCHEMA.field("flops")
    return events.set_column(EVENT_SCHEMA.get_field_index(field.name), field, pa.array(counted, field.type))


def _nodes(events: EventTable) -> list[Node | None]:
    """Return the node of each event, None of those that are none."""
    names, attributes = (events.column(name).to_pylist() for name in ("name", "attributes"))
    said = [msgspec.json.decode(text) if text else {} for text in attributes]
    return [(str(each["node"]), name) if "node" in each else None for name, each in zip(names, said, strict=True)]
