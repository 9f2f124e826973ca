"""Converts a FRAMEWORK directory to events: kernels on the host, and memory counters of its allocator."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.columns import text_column
from unified_profiler.model.schema import EventTable, Kind, Layer, empty_table, event_table
from unified_profiler_mindspore.canonical.assignment import Lookup, lookup
from unified_profiler_mindspore.canonical.columns import canonical_columns
from unified_profiler_mindspore.canonical.execution_order import innermost_spans
from unified_profiler_mindspore.canonical.flops import flops, flops_of_call, tensor_shapes
from unified_profiler_mindspore.canonical.graph_locations import Kernel, locate_kernels
from unified_profiler_mindspore.canonical.kernel_names import parse
from unified_profiler_mindspore.read.files import (
    DETAILS,
    LAUNCHES,
    MEMORY,
    SHAPES,
    framework_files,
    graph_files,
    rank_of,
)
from unified_profiler_mindspore.read.graph_ir import Graph, read_graph
from unified_profiler_mindspore.read.host.eager_calls import calls_of_launches, input_shapes
from unified_profiler_mindspore.read.host.launches import (
    Launches,
    MemoryRecord,
    read_launches,
    read_memory,
    read_pid,
    read_shapes,
)
from unified_profiler_mindspore.read.lanes import OPERATORS, lanes_of
from unified_profiler_mindspore.read.note import NAME, DirectionSpan, OperatorCall, Recording, check_sizes, read_note

USUAL_SIDE = "HostCpuOps"
"""The side on which all kernels of the host run; not repeated in the attributes."""

COLLECTIVE = re.compile(
    r"(Dist|Inner)Comm\w+|AllReduce|AllGatherV?|ReduceScatterV?|Broadcast|Reduce|Collective(Gather|Scatter)|"
    r"All[Tt]oAll\w*|NeighborExchange\w*|Barrier|Send|Receive|BatchISendIRecv"
)
"""Kernels that communicate with other ranks."""

Metadata = dict[str, Any]


@dataclass(frozen=True)
class RecordingDetails:
    """Data that this package's recorder adds to MindSpore's own: class names, graphs, spans and operator calls."""

    table: Lookup
    graphs: Sequence[Graph] = ()
    spans: Sequence[DirectionSpan] | None = None
    with_flops: bool = False
    calls: Sequence[OperatorCall] = ()


def host_events(folder: Path) -> tuple[EventTable, Metadata]:
    """Return the events of a FRAMEWORK directory and the metadata of the recording.

    Raises:
        TraceFormatError: A file is missing, damaged or of another kind.
    """
    files = framework_files(folder)
    note = read_note(folder / NAME) if (folder / NAME).is_file() else None
    if note is not None:
        check_sizes(note, [*files.values(), *graph_files(folder)])
    elif LAUNCHES not in files:
        msg = f"{folder} contains no {LAUNCHES}_*.txt, which MindSpore's profiler writes. Was anything recorded?"
        raise TraceFormatError(msg)
    common = _common_columns(folder, files, note)
    metadata: Metadata = {"framework_version": note.framework_version} if note else {}
    tables = []
    if LAUNCHES in files:
        launches = read_launches(files[LAUNCHES])
        shapes, remark = _launch_shapes(launches, files.get(SHAPES))
        metadata |= {"shapes": remark} if remark else {}
        tables.append(_kernel_events(launches, shapes, _read_details(folder, note), common))
    if MEMORY in files:
        record = read_memory(files[MEMORY])
        tables.append(_memory_events(record.between(note.start_ns, note.stop_ns) if note else record, common))
    return (pa.concat_tables(tables) if tables else empty_table()), metadata


def _common_columns(folder: Path, files: Mapping[str, Path], note: Recording | None) -> dict[str, Any]:
    """Return the columns that are the same for all events."""
    details = sorted(folder.glob(f"{DETAILS}_*.csv"))
    pid = note.pid if note else read_pid(details[0]) if details else None
    rank = rank_of(next(iter(files.values()))) if files else None
    return {"framework": "mindspore", "pid": pid, "rank": rank, "device": "cpu:0"}


def _read_details(folder: Path, note: Recording | None) -> RecordingDetails:
    if note is None:
        return RecordingDetails(lookup())
    graphs = [read_graph(path) for path in graph_files(folder)]
    calls = [note.calls.distinct[position] for position in note.calls.order] if note.calls else []
    return RecordingDetails(lookup().with_user_classes(note.bases), graphs, note.spans, note.with_flops, calls)


def _kernel_events(
    launches: Launches, shapes: Sequence[str | None], details: RecordingDetails, common: Mapping[str, Any]
) -> EventTable:
    kernels = locate_kernels(_distinct_kernels(launches, shapes), details.graphs, details.table)
    spans = None if details.spans is None else innermost_spans(launches.start_ns, details.spans)
    columns = {
        "name": text_column(launches.kernel, [kernel.node.type for kernel in kernels]),
        "layer": Layer.FRAMEWORK.value,
        "kind": text_column(launches.kernel, [_kind(kernel.node.type).value for kernel in kernels]),
        "start_ns": launches.start_ns,
        "duration_ns": launches.duration_ns,
        "tid": lanes_of(launches.start_ns, launches.duration_ns),
        "thread": OPERATORS,
        "attributes": text_column(launches.kernel, map(_attributes, launches.names, launches.sides)),
    }
    columns |= canonical_columns(launches.kernel, kernels, details.table, spans=spans)
    columns |= _shape_columns(launches, shapes, kernels, details) if shapes else {}
    return event_table(columns | dict(common), rows=len(launches.kernel))


def _shape_columns(
    launches: Launches, shapes: Sequence[str | None], kernels: Sequence[Kernel], details: RecordingDetails
) -> dict[str, pa.Array]:
    """Return input shapes and FLOPs, from the dispatched operator where MindSpore's profiler recorded no shapes."""
    indices = launches.kernel.tolist()
    types = [kernels[index].node.type for index in indices]
    calls = calls_of_launches(types, shapes, details.calls)
    inputs = [
        input_shapes(call, kernel) if call and recorded is None else recorded
        for recorded, kernel, call in zip(shapes, types, calls, strict=True)
    ]
    columns = {"input_shapes": pa.array(inputs, pa.string()).dictionary_encode()}
    if details.with_flops:
        counts = [
            flops_of_call(call, kernel) if call else count
            for call, kernel, count in zip(calls, types, flops(indices, kernels, shapes), strict=True)
        ]
        columns["flops"] = pa.array(counts, pa.int64())
    return columns


def _kind(name: str) -> Kind:
    return Kind.COLLECTIVE if COLLECTIVE.fullmatch(name) else Kind.OP


def _distinct_kernels(launches: Launches, shapes: Sequence[str | None]) -> list[Kernel]:
    """Return each kernel once, with the shapes of its first launch."""
    indices, first_launches = np.unique(launches.kernel, return_index=True)
    first = dict(zip(indices.tolist(), first_launches.tolist(), strict=True)) if shapes else {}
    return [
        Kernel(name, parse(name), tensor_shapes(shapes[first[index]] if index in first else None))
        for index, name in enumerate(launches.names)
    ]


def _attributes(name: str, side: str) -> str | None:
    attributes = ({"node": name} if "/" in name else {}) | ({"type": side} if side != USUAL_SIDE else {})
    return json.dumps(attributes, separators=(",", ":"), ensure_ascii=False) if attributes else None


def _launch_shapes(launches: Launches, path: Path | None) -> tuple[list[str | None], str | None]:
    """Return the input shapes of each launch; none and the reason if they do not match the launches.

    The two files list the launches in the same order, one with names and times, the other with names and shapes.
    """
    if path is None:
        return [], f"no file {SHAPES}_*.txt"
    rows = read_shapes(path)
    if len(rows) != len(launches.kernel):
        return [], f"left out: {path.name} lists {len(rows)} launches, but {len(launches.kernel)} were timed"
    own_names = [name.rsplit("/", 1)[-1] for name in launches.names]
    for launch, (index, (name, _)) in enumerate(zip(launches.kernel.tolist(), rows, strict=True)):
        if name and name != own_names[index]:
            return [], f"left out: launch {launch} is {own_names[index]}, but {name} in {path.name}"
    return [shapes for _, shapes in rows], None


def _memory_events(record: MemoryRecord, common: Mapping[str, Any]) -> EventTable:
    """Return a counter event for each change of a value; repeated values are left out."""
    change = np.diff(record.values, axis=1, prepend=record.values[:, :1])
    is_new = change != 0
    is_new[:, :1] = True
    counter, sample = np.nonzero(is_new)
    columns = {
        "name": text_column(counter, record.names),
        "layer": Layer.RUNTIME.value,
        "kind": Kind.COUNTER.value,
        "start_ns": record.time_ns[sample],
        "duration_ns": 0,
        "value": record.values[counter, sample].astype(np.float64),
        "bytes": pa.array(change[counter, sample], mask=sample == 0),
    }
    return event_table(columns | dict(common), rows=len(counter))
