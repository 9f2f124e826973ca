"""RunMetadata of v1 sessions, or the StepStats in it, as events. Works without TensorFlow.

One event for each node that ran, one for each allocation. Left out are the numbers listed in `step_stats`, the work
that is told twice (`step_stats_rows.REPEATED`), and graphs, which are no events: the table's metadata counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import checked_events
from unified_profiler.model.schema import EventTable
from unified_profiler_tensorflow.read.node_reader import NodeReader
from unified_profiler_tensorflow.read.run_metadata.messages import holds_step_stats, load
from unified_profiler_tensorflow.read.run_metadata.names import read_device
from unified_profiler_tensorflow.read.run_metadata.nodes import Nodes
from unified_profiler_tensorflow.read.run_metadata.rows import RUN, Rows, without_repeated


def recognizes(path: Path) -> bool:
    """Say whether this file holds a RunMetadata or a StepStats, by whatever program it was written."""
    return holds_step_stats(path)


def read(path: Path, entry: Mapping[str, Any] | None = None, reader: NodeReader | None = None) -> EventTable:
    """Read the events of one run.

    Args:
        path: The file.
        entry: What the file does not say, as far as it is known: `graph` (its name), `step`, `start_ns`, `end_ns` and
            `thread` of the call that ran it, and `pid`.
        reader: What is known about nodes.

    Raises:
        TraceFormatError: It is damaged, empty, of another kind, or holds no nodes.
    """
    entry = entry or {}
    with reading(path, expected="TensorFlow's RunMetadata or StepStats"):
        metadata, rows = load(path), Rows(reader=reader or NodeReader())
        _add_run(rows, entry)
        every = metadata.step_stats.dev_stats
        for number, device in without_repeated({i: read_device(stats.device) for i, stats in enumerate(every)}).items():
            Nodes(rows, device, every[number].device, entry.get("graph")).add(every[number].node_stats)
        table = checked_events(rows.table(step=entry.get("step"), pid=entry.get("pid")))
        return table.replace_schema_metadata({b"native": msgspec.json.encode(_said(metadata))})


def _said(metadata: Any) -> dict[str, Any]:
    """Return what the file says about the run as a whole."""
    said = {
        "devices": [stats.device for stats in metadata.step_stats.dev_stats],
        "thread_names": {str(t.key): t.value for stats in metadata.step_stats.dev_stats for t in stats.thread_names},
        "partition_graph_count": len(metadata.partition_graphs),
        "function_graph_count": len(metadata.function_graphs),
        "cost_graph_bytes": len(metadata.cost_graph),
        "session_name": metadata.session_metadata.name,
        "session_version": metadata.session_metadata.version,
    }
    return {key: value for key, value in said.items() if value}


def _add_run(rows: Rows, entry: Mapping[str, Any]) -> None:
    """Add the call that ran the graph, on its own thread, where that is known."""
    if entry.get("thread") is None or entry.get("start_ns") is None or entry.get("end_ns") is None:
        return
    rows.add(
        RUN,
        name="Session.run",
        start_ns=entry["start_ns"],
        duration_ns=entry["end_ns"] - entry["start_ns"],
        tid=entry["thread"],
        attributes={"graph": entry.get("graph")},
    )
