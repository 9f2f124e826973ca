"""Reads RunMetadata of v1 sessions, or the StepStats in it, as events, without importing TensorFlow.

One event for each node that ran, one for each allocation. Left out are the fields listed in `messages`, repeated work
(`builder.REPEATED_PARTS`), and graphs, which are not events: the table's metadata counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import checked_events
from unified_profiler.model.schema import EventTable
from unified_profiler_tensorflow.read.node_lookup import NodeLookup
from unified_profiler_tensorflow.read.run_metadata.builder import RUN, EventTableBuilder, without_repeated
from unified_profiler_tensorflow.read.run_metadata.messages import load
from unified_profiler_tensorflow.read.run_metadata.names import read_device
from unified_profiler_tensorflow.read.run_metadata.nodes import DeviceNodes


def read(path: Path, entry: Mapping[str, Any] | None = None, lookup: NodeLookup | None = None) -> EventTable:
    """Read the events of one run.

    Args:
        path: The file.
        entry: Facts that the file does not contain, as far as they are known: `graph` (its name), `step`, `start_ns`,
            `end_ns` and `thread` of the call that ran it, and `pid`.
        lookup: Classifies nodes.

    Raises:
        TraceFormatError: The file is damaged, empty, of another format, or contains no nodes.
    """
    entry = entry or {}
    with reading(path, expected="TensorFlow's RunMetadata or StepStats"):
        metadata, builder = load(path), EventTableBuilder(lookup=lookup or NodeLookup())
        _add_run(builder, entry)
        stats = metadata.step_stats.dev_stats
        devices = without_repeated({index: read_device(each.device) for index, each in enumerate(stats)})
        for index, device in devices.items():
            DeviceNodes(builder, device, stats[index].device, entry.get("graph")).add(stats[index].node_stats)
        table = checked_events(builder.table(step=entry.get("step"), pid=entry.get("pid")))
        return table.replace_schema_metadata({b"native": msgspec.json.encode(_run_metadata(metadata))})


def _run_metadata(metadata: Any) -> dict[str, Any]:
    values = {
        "devices": [stats.device for stats in metadata.step_stats.dev_stats],
        "thread_names": {str(t.key): t.value for stats in metadata.step_stats.dev_stats for t in stats.thread_names},
        "partition_graph_count": len(metadata.partition_graphs),
        "function_graph_count": len(metadata.function_graphs),
        "cost_graph_bytes": len(metadata.cost_graph),
        "session_name": metadata.session_metadata.name,
        "session_version": metadata.session_metadata.version,
    }
    return {key: value for key, value in values.items() if value}


def _add_run(builder: EventTableBuilder, entry: Mapping[str, Any]) -> None:
    """Add the call that ran the graph, on its own thread, if these are known."""
    if entry.get("thread") is None or entry.get("start_ns") is None or entry.get("end_ns") is None:
        return
    builder.add(
        RUN,
        name="Session.run",
        start_ns=entry["start_ns"],
        duration_ns=entry["end_ns"] - entry["start_ns"],
        tid=entry["thread"],
        attributes={"graph": entry.get("graph")},
    )
