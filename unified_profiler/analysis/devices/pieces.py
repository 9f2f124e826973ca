"""Describes every piece of device work of one trace: its class, launch, delay, operator, and the data it moved.

These rows are the table `device_work` of `query`, from which the tables of launches, copies, collectives and kernels
are selected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.analysis.ancestry import nearest, parent_rows
from unified_profiler.analysis.columns import Flags, coded, ints
from unified_profiler.analysis.conventions import matches_convention
from unified_profiler.analysis.devices import work as _work
from unified_profiler.analysis.devices.work import CLASSES, DeviceWork, device_work
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import TEXT, EventTable, Kind
from unified_profiler.spi import EventConventions

COLUMNS = (
    *("rank", "cycle", "id", "parent_id", "name", "framework", "input_shapes", "bytes", "attributes"),
    *_work.COLUMNS,
)
"""The event columns that the rows are computed from."""

PIECES = pa.schema(
    {
        **dict.fromkeys(("rank", "cycle", "step"), pa.int32()),
        "id": pa.int64(),
        "device": TEXT,
        "stream": pa.int64(),
        "class": TEXT,
        "name": TEXT,
        **dict.fromkeys(("start_ns", "duration_ns", "bytes"), pa.int64()),
        "memory": TEXT,
        "launch_name": TEXT,
        **dict.fromkeys(("launch_start_ns", "launch_ns", "delay_ns"), pa.int64()),
        "operator": TEXT,
        "shapes": TEXT,
        **dict.fromkeys(("collective", "process_group"), TEXT),
        "group_size": pa.int64(),
    }
)
"""One row per kernel, copy and collective of a device.

`delay_ns` is the time from the end of the launch call to the start of the work, zero if it began earlier; `operator`
the innermost operator around the launch, and `shapes` its inputs; `memory` whether a copy used pinned or pageable
memory of the host; `bytes` what a copy or a collective moved.
"""

_ELEMENT_BYTES = {
    **dict.fromkeys(("byte", "char", "bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16", "uint16"), 2),
    **dict.fromkeys(("float", "int", "float32", "int32", "uint32"), 4),
    **dict.fromkeys(("double", "long", "complexfloat", "float64", "int64", "uint64"), 8),
    "complexdouble": 16,
}
"""Size of an element by its type, as frameworks name it, in lower case."""


def work_pieces(events: EventTable, conventions: Mapping[str, EventConventions]) -> pa.Table:
    """Return the rows of one trace, in order of start."""
    work = device_work(events)
    if not len(work):
        return PIECES.empty_table()
    rows, launched = work.row, work.launch >= 0
    operator = _operators(work)
    own = events.take(pa.array(rows))
    collectives = _Collectives.of(own, work.work_class == CLASSES.index("communication"), conventions)
    moved = np.where(collectives.bytes >= 0, collectives.bytes, ints(own, "bytes"))
    columns = {
        **{name: own.column(name) for name in ("rank", "cycle", "step", "id", "device", "stream", "name", "start_ns")},
        "class": pa.DictionaryArray.from_arrays(pa.array(work.work_class, pa.int32()), pa.array(CLASSES)),
        "duration_ns": own.column("duration_ns"),
        "bytes": pa.array(moved, mask=moved < 0),
        "memory": _memory(own, conventions),
        "launch_name": _text_of(events, "name", work.launch),
        "launch_start_ns": pa.array(work.launch_start, mask=~launched),
        "launch_ns": pa.array(work.launch_end - work.launch_start, mask=~launched),
        "delay_ns": pa.array(np.maximum(work.start - work.launch_end, 0), mask=~launched),
        "operator": _text_of(events, "name", operator),
        "shapes": _text_of(events, "input_shapes", operator),
        "collective": pa.array(collectives.name, pa.string()).dictionary_encode(),
        "process_group": pa.array(collectives.group, pa.string()).dictionary_encode(),
        "group_size": pa.array(collectives.size, mask=collectives.size < 0),
    }
    return pa.table({name: columns[name] for name in PIECES.names}).cast(PIECES)


def _operators(work: DeviceWork) -> Ints:
    """Return the row of the innermost operator around each launch, -1 for none."""
    is_op = coded(work.events, "kind").where({Kind.OP.value, Kind.COLLECTIVE.value}.__contains__)
    return nearest(work.launch, parent=parent_rows(work.events), wanted=is_op)


def _text_of(events: EventTable, name: str, rows: Ints) -> pa.Array:
    """Return a text column of some rows, null where the row is -1."""
    texts = coded(events, name)
    codes = np.where(rows >= 0, texts.codes[rows], -1)
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int32(), mask=codes < 0), pa.array(texts.values, pa.string())
    )


def _memory(own: EventTable, conventions: Mapping[str, EventConventions]) -> pa.Array:
    pinned, pageable = (matches_convention(own, conventions, f"{kind}_copies") for kind in ("pinned", "pageable"))
    codes = np.select([pageable, pinned], [1, 0], -1)
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=codes < 0), pa.array(["pinned", "pageable"]))


@dataclass(frozen=True)
class _Collectives:
    """Properties of collectives as columns of all rows: null or -1 if unknown, and for other work."""

    name: list[str | None]
    group: list[str | None]
    size: Ints
    bytes: Ints

    @classmethod
    def of(cls, own: EventTable, selected: Flags, conventions: Mapping[str, EventConventions]) -> _Collectives:
        """Read the attributes of the selected rows."""
        count = len(own)
        columns = cls([None] * count, [None] * count, np.full(count, -1), np.full(count, -1))
        rows = np.flatnonzero(selected)
        described = own.select(["framework", "attributes"]).take(pa.array(rows)).to_pylist()
        for row, event in zip(rows.tolist(), described, strict=True):
            convention = conventions.get(event["framework"] or "", EventConventions())
            attributes = msgspec.json.decode(event["attributes"] or b"{}")
            columns.name[row] = _text(attributes, convention.collective_name_key)
            columns.group[row] = _text(attributes, convention.collective_group_key)
            columns.size[row] = _whole(attributes, convention.collective_group_size_key)
            columns.bytes[row] = _bytes(attributes, convention)
        return columns


def _text(attributes: Mapping[str, Any], key: str | None) -> str | None:
    value = None if key is None else attributes.get(key)
    return None if value is None else str(value)


def _whole(attributes: Mapping[str, Any], key: str | None) -> int:
    value = None if key is None else attributes.get(key)
    return value if isinstance(value, int) and 0 <= value < 1 << 40 else -1


def _bytes(attributes: Mapping[str, Any], convention: EventConventions) -> int:
    """Return the larger of what a rank puts into a collective and what it gets, -1 if unknown."""
    elements = max((_whole(attributes, key) for key in convention.collective_elements_keys), default=-1)
    kind = (_text(attributes, convention.collective_type_key) or "").lower().removeprefix("torch.")
    return elements * _ELEMENT_BYTES[kind] if elements >= 0 and kind in _ELEMENT_BYTES else -1
