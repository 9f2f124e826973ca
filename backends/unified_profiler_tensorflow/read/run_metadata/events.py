"""Reads RunMetadata of v1 sessions, or the StepStats in it, as events, without importing TensorFlow.

One event for each node that ran, one for each allocation. Left out are the fields listed in `node_stats`, repeated work
(`builder.REPEATED_PARTS`), and graphs, which are not events: the table's metadata counts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.model.collection import no_collection
from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import checked_events
from unified_profiler.model.nesting import with_column
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable
from unified_profiler_tensorflow.read.run_metadata.builder import RUN, EventTableBuilder, without_repeated
from unified_profiler_tensorflow.read.run_metadata.names import read_device
from unified_profiler_tensorflow.read.run_metadata.node_stats import NodeStats
from unified_profiler_tensorflow.read.run_metadata.nodes import DeviceNodes, NodeEvents, joined
from unified_profiler_tensorflow.read.run_metadata.step_stats import RunMetadata, load
from unified_profiler_tensorflow.read.run_metadata.work import WorkReader


def read(path: Path, entry: Mapping[str, Any] | None = None) -> EventTable:
    """Read the events of one run; see `read_run`."""
    return read_run(path, entry).table


def read_run(path: Path, entry: Mapping[str, Any] | None = None, reader: WorkReader | None = None) -> NodeEvents:
    """Read the events of one run, and which of them are operators.

    Args:
        path: The file.
        entry: Facts that the file does not contain, as far as they are known: `graph` (its name), `step`, `start_ns`,
            `end_ns` and `thread` of the call that ran it, and `pid`.
        reader: Reads the labels of all runs of a capture.

    Raises:
        TraceFormatError: The file is damaged, empty, of another format, or contains no nodes.
    """
    entry, reader = entry or {}, reader or WorkReader()
    with reading(path, expected="TensorFlow's RunMetadata or StepStats"), no_collection():
        metadata = load(path)
        devices = without_repeated({index: read_device(each.name) for index, each in enumerate(metadata.devices)})
        parts = [_run_events(entry)]
        for index, device in devices.items():
            stats = metadata.devices[index]
            nodes = DeviceNodes(device, stats.name, entry.get("graph"), reader)
            parts.append(nodes.events(NodeStats(stats.nodes)))
        events = _concatenated(parts)
        table = _with_run(events.table, step=entry.get("step"), pid=entry.get("pid"))
        native = msgspec.json.encode(_native_metadata(metadata))
        return events._replace(table=checked_events(table).replace_schema_metadata({b"native": native}))


def _native_metadata(metadata: RunMetadata) -> dict[str, Any]:
    values = vars(metadata) | {"devices": [device.name for device in metadata.devices]}
    return {key: value for key, value in values.items() if value}


def _with_run(table: EventTable, *, step: int | None, pid: int | None) -> EventTable:
    for name, value in {"step": step, "pid": pid}.items():
        if value is not None:
            table = with_column(table, name, pa.repeat(pa.scalar(value, EVENT_SCHEMA.field(name).type), len(table)))
    return table


def _concatenated(parts: Sequence[NodeEvents]) -> NodeEvents:
    parts = [part for part in parts if len(part.table)]
    if len(parts) == 1:
        return parts[0]
    first = np.cumsum([0, *(len(part.nodes) for part in parts)])
    node = [np.where(part.node >= 0, part.node + offset, -1) for part, offset in zip(parts, first, strict=False)]
    return NodeEvents(
        joined([part.table for part in parts]),
        np.concatenate(node),
        [node for part in parts for node in part.nodes],
    )


def _run_events(entry: Mapping[str, Any]) -> NodeEvents:
    """Return the call that ran the graph, on its own thread, if these are known."""
    builder = EventTableBuilder()
    if all(entry.get(name) is not None for name in ("thread", "start_ns", "end_ns")):
        builder.add(
            RUN,
            name="Session.run",
            start_ns=entry["start_ns"],
            duration_ns=entry["end_ns"] - entry["start_ns"],
            tid=entry["thread"],
            attributes={"graph": entry.get("graph")},
        )
    return NodeEvents(builder.table(), np.full(len(builder.rows), -1, np.int64), [])
