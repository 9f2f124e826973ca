"""From a FRAMEWORK directory to events: kernels on the host, and what its allocator said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.columns import text
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind, Layer, empty_table, event_table
from unified_profiler_mindspore.canonical import lookup
from unified_profiler_mindspore.files import DETAILS, LAUNCHES, MEMORY, SHAPES, framework_files, rank_of
from unified_profiler_mindspore.lanes import lanes_of
from unified_profiler_mindspore.launches import (
    Launches,
    MemoryRecord,
    read_launches,
    read_memory,
    read_pid,
    read_shapes,
)
from unified_profiler_mindspore.nodes import Node, parse
from unified_profiler_mindspore.order import directions
from unified_profiler_mindspore.recording import NAME, Recording, check_sizes, read_note

THREAD = "mindspore kernels"
"""Name of the lane of kernels: which thread ran them MindSpore does not say, only that it is not the program's."""

USUAL_SIDE = "HostCpuOps"
"""Where all kernels of the host run; not repeated in the attributes."""

Metadata = dict[str, Any]


def host_events(folder: Path) -> tuple[EventTable, Metadata]:
    """Return the events of a FRAMEWORK directory and what else is known about the recording.

    Raises:
        TraceFormatError: A file is missing, damaged or of another kind.
    """
    files = framework_files(folder)
    note = read_note(folder / NAME) if (folder / NAME).is_file() else None
    if note is not None:
        check_sizes(note, list(files.values()))
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
        tables.append(_kernels(launches, shapes, place))
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


def _kernels(launches: Launches, shapes: pa.Array | None, place: Mapping[str, Any]) -> EventTable:
    nodes = [parse(name) for name in launches.nodes]
    columns = {
        "name": text(launches.node, [node.type for node in nodes]),
        "layer": Layer.FRAMEWORK.value,
        "kind": Kind.OP.value,
        "start_ns": launches.start_ns,
        "duration_ns": launches.duration_ns,
        "tid": lanes_of(launches.start_ns, launches.duration_ns),
        "thread": THREAD,
        "input_shapes": shapes,
        "module": text(launches.node, [node.module for node in nodes]),
        "attributes": text(launches.node, [_attributes(launches, row) for row in range(len(nodes))]),
    }
    return event_table(columns | _canonical(launches.node, nodes) | dict(place), rows=len(launches.node))


def _attributes(launches: Launches, row: int) -> str | None:
    name, side = launches.nodes[row], launches.sides[row]
    found = {"node": name} if "/" in name else {}
    if side != USUAL_SIDE:
        found["type"] = side
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False) if found else None


def _canonical(launched: Ints, nodes: Sequence[Node]) -> dict[str, Any]:
    table = lookup()
    found = directions(launched.tolist(), nodes, table)
    cases: dict[tuple[int, str | None], str | None] = {}
    origins = []
    for case in zip(launched.tolist(), found, strict=True):
        if case not in cases:
            cases[case] = table.origin(nodes[case[0]], case[1])
        origins.append(cases[case])
    return {
        "op": text(launched, [table.op(node) for node in nodes]),
        "origin": _encoded(origins),
        "direction": _encoded(found),
    }


def _encoded(values: Sequence[str | None]) -> pa.DictionaryArray:
    return pa.array(values, pa.string()).dictionary_encode()


def _shapes(launches: Launches, path: Path | None) -> tuple[pa.Array | None, str | None]:
    """Return the input shapes of each launch, and why there are none where the two files do not fit together.

    They are two lists in the same order, of which one tells names and times, the other names and shapes.
    """
    if path is None:
        return None, f"no file {SHAPES}_*.txt"
    rows = read_shapes(path)
    if len(rows) != len(launches.node):
        return None, f"left out: {path.name} lists {len(rows)} launches, but {len(launches.node)} were timed"
    own_names = [name.rsplit("/", 1)[-1] for name in launches.nodes]
    for place, (number, (name, _)) in enumerate(zip(launches.node.tolist(), rows, strict=True)):
        if name and name != own_names[number]:
            return None, f"left out: launch {place} is {own_names[number]}, but {name} in {path.name}"
    return _encoded([shapes for _, shapes in rows]), None


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
