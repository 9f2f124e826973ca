"""Removes duplicates of session operators: XPlane and RunMetadata both contain them, RunMetadata with more details.

Where a session run was traced, its nodes in the XPlane file become runtime events and their shapes are copied to the
events of RunMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.columns import text_column
from unified_profiler.model.nesting import Ints, with_column
from unified_profiler.model.schema import EventTable, Layer
from unified_profiler.model.tree import Flags
from unified_profiler.spi.groups import distinct_rows
from unified_profiler_tensorflow.read.node_lookup import NodeLookup
from unified_profiler_tensorflow.read.run_metadata.nodes import Node, NodeEvents

Shapes = tuple[str, str]
"""Shapes and types of the inputs, in the form of their columns."""

_RUNTIME = Layer.RUNTIME.value
_SHAPES = ("input_shapes", "input_types")


@dataclass(frozen=True)
class SessionRun:
    """One traced run of a session."""

    start_ns: int
    end_ns: int
    nodes: frozenset[Node]

    @classmethod
    def of(cls, events: NodeEvents, entry: Mapping[str, Any] | None) -> SessionRun | None:
        """Build it from the events of its RunMetadata; None if the time of the run is unknown."""
        if not entry or entry.get("start_ns") is None or entry.get("end_ns") is None:
            return None
        return cls(entry["start_ns"], entry["end_ns"], frozenset(events.nodes))


def covered_by_sessions(runs: Sequence[SessionRun], start_ns: Ints, node: Ints, nodes: Sequence[Node]) -> Flags:
    """Flag the events that start within a session run and whose node, an index into `nodes`, belongs to that run."""
    covered = np.zeros(len(start_ns), np.bool_)
    for graph in {run.nodes for run in runs}:
        in_graph = np.array([each in graph for each in nodes], np.bool_)[node]
        windows = sorted((run.start_ns, run.end_ns) for run in runs if run.nodes == graph)
        begin, end = np.array(windows, np.int64).T
        last = np.searchsorted(begin, start_ns, side="right") - 1
        covered |= in_graph & (last >= 0) & (start_ns < np.maximum.accumulate(end)[last])
    return covered


def input_shapes(events: EventTable) -> dict[Node, Shapes]:
    """Return the shapes of the nodes of an XPlane file that RunMetadata covers, which contains no input shapes."""
    has_shapes = pc.and_(pc.is_valid(events.column("input_shapes")), pc.equal(events.column("layer"), _RUNTIME))
    events = events.filter(has_shapes)
    shapes = zip(*(events.column(name).to_pylist() for name in _SHAPES), strict=True)
    return {node: shape for node, shape in zip(_nodes(events), shapes, strict=True) if node}


def with_shapes(events: NodeEvents, shapes: Mapping[Node, Shapes], lookup: NodeLookup) -> NodeEvents:
    """Fill in the input shapes and the floating-point operations of the nodes of a RunMetadata."""
    if not events.nodes or not shapes:
        return events
    of_node: list[tuple[str | None, str | None]] = [shapes.get(node, (None, None)) for node in events.nodes]
    table = events.table
    for name, texts in zip(_SHAPES, zip(*of_node, strict=True), strict=False):
        if (column := text_column(events.node, texts)) is not None:
            table = with_column(table, name, column)
    outputs = table.column("output_shapes").combine_chunks()
    code = pc.fill_null(outputs.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    codes, rows = distinct_rows(events.node, code)
    known = [*outputs.dictionary.to_pylist(), None]
    flops = []
    for node, output in rows:
        (path, op_type), (inputs, types) = events.nodes[node], of_node[node]
        flops.append(lookup.flops(path, op_type, inputs, types, known[output]) if node >= 0 else None)
    column = pa.array(flops, pa.int64()).take(pa.array(codes))
    return events._replace(table=with_column(table, "flops", column))


def _nodes(events: EventTable) -> list[Node | None]:
    """Return the node of each event, None for events that are not nodes."""
    names, texts = (events.column(name).to_pylist() for name in ("name", "attributes"))
    attributes = {text: msgspec.json.decode(text) if text else {} for text in set(texts)}
    paths = [attributes[text].get("node") for text in texts]
    return [None if path is None else (str(path), name) for name, path in zip(names, paths, strict=True)]
