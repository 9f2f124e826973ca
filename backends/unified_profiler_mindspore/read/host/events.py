"""From a FRAMEWORK directory to events: kernels on the host, and what its allocator said."""

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
from unified_profiler.model.columns import text
from unified_profiler.model.schema import EventTable, Kind, Layer, empty_table, event_table
from unified_profiler_mindspore.canonical.assignment import Lookup, lookup
from unified_profiler_mindspore.canonical.columns import canonical_columns
from unified_profiler_mindspore.canonical.execution_order import in_spans
from unified_profiler_mindspore.canonical.flops import flops, flops_of_call, tensors
from unified_profiler_mindspore.canonical.graph_locations import Launched, placed
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
from unified_profiler_mindspore.read.lanes import lanes_of
from unified_profiler_mindspore.read.note import NAME, OperatorCall, Recording, Span, check_sizes, read_note

THREAD = "mindspore kernels"
"""Name of the lane of kernels: which thread ran them MindSpore does not say, only that it is not the program's."""

USUAL_SIDE = "HostCpuOps"
"""Where all kernels of the host run; not repeated in the attributes."""

COLLECTIVE = re.compile(
    r"(Dist|Inner)Comm\w+|AllReduce|AllGatherV?|ReduceScatterV?|Broadcast|Reduce|Collective(Gather|Scatter)|"
    r"All[Tt]oAll\w*|NeighborExchange\w*|Barrier|Send|Receive|BatchISendIRecv"
)
"""Kernels that talk to other ranks."""

Metadata = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """What is known of a recording besides its kernels, if a recorder of this package made it."""

    table: Lookup
    graphs: Sequence[Graph] = ()
    spans: Sequence[Span] | None = None
    with_flops: bool = False
    calls: Sequence[OperatorCall] = ()


def host_events(folder: Path) -> tuple[EventTable, Metadata]:
    """Return the events of a FRAMEWORK directory and what else is known about the recording.

    Raises:
        TraceFormatError: A file is missing, damaged or of another kind.
    """
    files = framework_files(folder)
    note = read_note(folder / NAME) if (folder / NAME).is_file() else None
    if note is not None:
        check_sizes(note, [*files.values(), *graph_files(folder)])
    elif LAUNCHES not in files:
        msg = f"{folder} holds no {LAUNCHES}_*.txt, which MindSpore's profiler writes. Was anything recorded?"
        raise TraceFormatError(msg)
    place = _place(folder, files, note)
    said: Metadata = {"framework_version": note.framework_version} if note else {}
    tables = []
    if LAUNCHES in files:
        launches = read_launches(files[LAUNCHES])
        shapes, remark = _shapes(launches, files.get(SHAPES))
        said |= {"shapes": remark} if remark else {}
        tables.append(_kernels(launches, shapes, _known(folder, note), place))
    if MEMORY in files:
        record = read_memory(files[MEMORY])
        tables.append(_memory(record.between(note.start_ns, note.stop_ns) if note else record, place))
    return (pa.concat_tables(tables) if tables else empty_table()), said


def _place(folder: Path, files: Mapping[str, Path], note: Recording | None) -> dict[str, Any]:
    """Return the columns that are the same for all events."""
    details = sorted(folder.glob(f"{DETAILS}_*.csv"))
    pid = note.pid if note else read_pid(details[0]) if details else None
    rank = rank_of(next(iter(files.values()))) if files else None
    return {"framework": "mindspore", "pid": pid, "rank": rank, "device": "cpu:0"}


def _known(folder: Path, note: Recording | None) -> Known:
    if note is None:
        return Known(lookup())
    graphs = [read_graph(path) for path in graph_files(folder)]
    calls = [note.calls.distinct[number] for number in note.calls.order] if note.calls else []
    return Known(lookup().knowing(note.bases), graphs, note.spans, note.with_flops, calls)


def _kernels(launches: Launches, shapes: Sequence[str | None], known: Known, place: Mapping[str, Any]) -> EventTable:
    kernels = placed(_distinct(launches, shapes), known.graphs, known.table)
    types = [kernels[number].node.type for number in launches.node.tolist()] if shapes else []
    calls = calls_of_launches(types, shapes, known.calls)
    columns = {
        "name": text(launches.node, [one.node.type for one in kernels]),
        "layer": Layer.FRAMEWORK.value,
        "kind": text(launches.node, [_kind(one.node.type).value for one in kernels]),
        "start_ns": launches.start_ns,
        "duration_ns": launches.duration_ns,
        "tid": lanes_of(launches.start_ns, launches.duration_ns),
        "thread": THREAD,
        "input_shapes": pa.array(_completed(shapes, types, calls), pa.string()).dictionary_encode() if shapes else None,
        "attributes": text(launches.node, [_attributes(launches, row) for row in range(len(kernels))]),
    }
    told = None if known.spans is None else in_spans(launches.start_ns, known.spans)
    columns |= canonical_columns(launches.node, kernels, known.table, told=told)
    if known.with_flops and shapes:
        by_shapes = flops(launches.node.tolist(), kernels, shapes)
        columns["flops"] = pa.array(
            [
                flops_of_call(call, kernel) if call else count
                for call, kernel, count in zip(calls, types, by_shapes, strict=True)
            ],
            pa.int64(),
        )
    return event_table(columns | dict(place), rows=len(launches.node))


def _completed(
    shapes: Sequence[str | None], kernels: Sequence[str], calls: Sequence[OperatorCall | None]
) -> list[str | None]:
    """Return the input shapes of each launch, taken from its operator where MindSpore's profiler recorded none."""
    return [
        input_shapes(call, kernel) if call and recorded is None else recorded
        for recorded, kernel, call in zip(shapes, kernels, calls, strict=True)
    ]


def _kind(name: str) -> Kind:
    return Kind.COLLECTIVE if COLLECTIVE.fullmatch(name) else Kind.OP


def _distinct(launches: Launches, shapes: Sequence[str | None]) -> list[Launched]:
    """Return each kernel once, with the shapes of its first launch."""
    kernels, first = np.unique(launches.node, return_index=True)
    seen = dict(zip(kernels.tolist(), first.tolist(), strict=True))
    return [
        Launched(name, parse(name), tensors(shapes[seen[number]] if shapes and number in seen else None))
        for number, name in enumerate(launches.nodes)
    ]


def _attributes(launches: Launches, row: int) -> str | None:
    name, side = launches.nodes[row], launches.sides[row]
    found = {"node": name} if "/" in name else {}
    if side != USUAL_SIDE:
        found["type"] = side
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False) if found else None


def _shapes(launches: Launches, path: Path | None) -> tuple[list[str | None], str | None]:
    """Return the input shapes of each launch; none and the reason where the two files do not fit together.

    They are two lists in the same order, of which one tells names and times, the other names and shapes.
    """
    if path is None:
        return [], f"no file {SHAPES}_*.txt"
    rows = read_shapes(path)
    if len(rows) != len(launches.node):
        return [], f"left out: {path.name} lists {len(rows)} launches, but {len(launches.node)} were timed"
    own_names = [name.rsplit("/", 1)[-1] for name in launches.nodes]
    for place, (number, (name, _)) in enumerate(zip(launches.node.tolist(), rows, strict=True)):
        if name and name != own_names[number]:
            return [], f"left out: launch {place} is {own_names[number]}, but {name} in {path.name}"
    return [shapes for _, shapes in rows], None


def _memory(record: MemoryRecord, place: Mapping[str, Any]) -> EventTable:
    """Return a counter event wherever a number changed; a sample that repeats the one before says nothing new."""
    change = np.diff(record.values, axis=1, prepend=record.values[:, :1])
    kept = change != 0
    kept[:, :1] = True
    which, when = np.nonzero(kept)
    columns = {
        "name": text(which, record.names),
        "layer": Layer.RUNTIME.value,
        "kind": Kind.COUNTER.value,
        "start_ns": record.time_ns[when],
        "duration_ns": 0,
        "value": record.values[which, when].astype(np.float64),
        "bytes": pa.array(change[which, when], mask=when == 0),
    }
    return event_table(columns | dict(place), rows=len(which))
