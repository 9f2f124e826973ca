"""Describes every piece of device work of one trace: its class, launch, delay, operator, and the data it moved.

These rows are the table `device_work` of `query`, from which the tables of launches, copies, collectives and kernels
are selected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.analysis.ancestry import nearest, parent_rows
from unified_profiler.analysis.columns import Flags, coded, ints
from unified_profiler.analysis.conventions import matches_convention
from unified_profiler.analysis.devices import work as _work
from unified_profiler.analysis.devices.work import CLASSES, device_work
from unified_profiler.analysis.kept import kept
from unified_profiler.model.arrow_arrays import number_array, text_array
from unified_profiler.model.columns import Index, dictionary_array
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
        "grid": TEXT,
    }
)
"""One row per kernel, copy and collective of a device.

`delay_ns` is the time from the end of the launch call to the start of the work, zero if it began earlier; `operator`
the innermost operator around the launch, and `shapes` its inputs; `memory` whether a copy used pinned or pageable
memory of the host; `bytes` what a copy or a collective moved; `grid` the blocks of a kernel and the threads of a block.
"""

_ELEMENT_BYTES = {
    **dict.fromkeys(("byte", "char", "bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16", "uint16"), 2),
    **dict.fromkeys(("float", "int", "float32", "int32", "uint32"), 4),
    **dict.fromkeys(("double", "long", "complexfloat", "float64", "int64", "uint64"), 8),
    "complexdouble": 16,
}
"""Size of an element by its type, as frameworks name it, in lower case."""

_MEMORY = ("pinned", "pageable")
"""Kinds of host memory; the latter where a name has both."""

_UNKNOWN = EventConventions()
"""The conventions of a framework of which none are known."""

_OWN = ("rank", "cycle", "step", "id", "device", "stream", "name", "start_ns", "duration_ns")
"""Columns of the events that are the work."""

_BY_CONVENTION = frozenset({"bytes", "memory", "collective", "process_group", "group_size"})
"""Columns that take longer than the others, since frameworks have them in names and attributes of events."""

_GRID = "grid"
"""A column that takes longer still: nearly every kernel has attributes of its own."""


def work_pieces(
    events: EventTable, conventions: Mapping[str, EventConventions], *, names: Sequence[str] = PIECES.names
) -> pa.Table:
    """Return some columns of the rows of one trace, in order of start."""
    if not len(device_work(events)):
        return PIECES.empty_table().select(names)
    columns = _columns(events)
    if not _BY_CONVENTION.isdisjoint(names):
        columns = columns | _columns_by_convention(events, conventions=conventions)
    if _GRID in names:
        columns = columns | {_GRID: _grids(events, conventions=conventions)}
    return pa.table({name: columns[name] for name in names})


@kept
def _columns(events: EventTable) -> dict[str, Any]:
    work = device_work(events)
    own, launched, operator = events.select(_OWN).take(number_array(work.row)), work.launch >= 0, _operators(events)
    return {
        **{name: own.column(name) for name in _OWN},
        "class": dictionary_array(work.work_class, text_array(CLASSES)),
        "launch_name": _text_of(events, "name", work.launch),
        "launch_start_ns": number_array(work.launch_start, missing=~launched),
        "launch_ns": number_array(work.launch_end - work.launch_start, missing=~launched),
        "delay_ns": number_array(np.maximum(work.start - work.launch_end, 0), missing=~launched),
        "operator": _text_of(events, "name", operator),
        "shapes": _text_of(events, "input_shapes", operator),
    }


@kept
def _columns_by_convention(events: EventTable, *, conventions: Mapping[str, EventConventions]) -> dict[str, Any]:
    work = device_work(events)
    own = events.select(["name", "framework", "attributes", "bytes"]).take(number_array(work.row))
    is_collective = work.work_class == CLASSES.index("communication")
    collective, group, group_size, moved = _collectives(own, is_collective, conventions)
    return {
        "bytes": _known(np.where(moved >= 0, moved, ints(own, "bytes"))),
        "memory": _memory(own, work.work_class == CLASSES.index("copy"), conventions),
        "collective": collective,
        "process_group": group,
        "group_size": _known(group_size),
    }


@kept
def _grids(events: EventTable, *, conventions: Mapping[str, EventConventions]) -> pa.Array:
    """Return the grids of kernels, such as "25 x 4 x 32 of 256 x 1 x 1"."""
    own = events.select(["framework", "attributes"]).take(number_array(device_work(events).row))
    which, pairs = _distinct_attributes(own, np.arange(len(own)))
    return _texts([*(_grid(text, conventions.get(name, _UNKNOWN)) for name, text in pairs), None], which)


def _grid(attributes: str | None, convention: EventConventions) -> str | None:
    """Return the sizes of the grid and of a block, if there are any."""
    read = msgspec.json.decode(attributes or b"{}") if convention.grid_keys else {}
    sizes = [size for key in convention.grid_keys if isinstance(size := read.get(key), list)]
    return " of ".join(" x ".join(map(str, size)) for size in sizes) or None


def _operators(events: EventTable) -> Ints:
    """Return the row of the innermost operator around the launch of each piece of work, -1 for none."""
    is_op = coded(events, "kind").where({Kind.OP.value, Kind.COLLECTIVE.value}.__contains__)
    return nearest(device_work(events).launch, parent=parent_rows(events), wanted=is_op)


def _known(values: Ints) -> pa.Array:
    """Return numbers as a column, null where they are negative."""
    return number_array(values, missing=values < 0)


def _text_of(events: EventTable, name: str, rows: Ints) -> pa.ChunkedArray:
    """Return a text column of some rows, null where the row is -1."""
    return events.column(name).unify_dictionaries().take(number_array(np.maximum(rows, 0), missing=rows < 0))


def _memory(own: EventTable, selected: Flags, conventions: Mapping[str, EventConventions]) -> pa.Array:
    """Return whether the selected copies used pinned or pageable memory."""
    copies = own.select(["name", "framework"]).take(number_array(np.flatnonzero(selected)))
    codes = np.full(len(own), -1)
    for code, kind in enumerate(_MEMORY):
        codes[np.flatnonzero(selected)[matches_convention(copies, conventions, f"{kind}_copies")]] = code
    return dictionary_array(codes, text_array(_MEMORY))


class _Collective(NamedTuple):
    """The attributes of a collective; None or -1 where they are unknown."""

    name: str | None
    group: str | None
    size: int
    bytes: int

    @classmethod
    def of(cls, attributes: str | None, convention: EventConventions) -> _Collective:
        """Read the attributes."""
        read = msgspec.json.decode(attributes or b"{}")
        return cls(
            _text(read, convention.collective_name_key),
            _text(read, convention.collective_group_key),
            _whole(read, convention.collective_group_size_key),
            _bytes(read, convention),
        )


def _collectives(own: EventTable, selected: Flags, conventions: Mapping[str, EventConventions]) -> tuple[Any, ...]:
    """Return the fields of the collectives among pieces of work as columns, which are unknown for other pieces.

    Many collectives have the same attributes, which are read once.
    """
    which, pairs = _distinct_attributes(own, np.flatnonzero(selected))
    read = [_Collective.of(text, conventions.get(framework, _UNKNOWN)) for framework, text in pairs]
    name, group, size, moved = zip(*read, _Collective(None, None, -1, -1), strict=True)
    return _texts(name, which), _texts(group, which), np.array(size)[which], np.array(moved)[which]


def _distinct_attributes(own: EventTable, rows: Ints) -> tuple[Ints, list[tuple[str, str | None]]]:
    """Return the distinct pairs of framework and attributes in some rows, and for each row its pair, -1 elsewhere."""
    described = own.select(["framework", "attributes"]).take(number_array(rows))
    framework, attributes = (coded(described, name) for name in described.column_names)
    index, which = Index(), np.full(len(own), -1)
    which[rows] = [index[pair] for pair in zip(framework.codes.tolist(), attributes.codes.tolist(), strict=True)]
    names, texts = [*framework.values, ""], [*attributes.values, None]  # the code of null is -1
    return which, [(names[name], texts[text]) for name, text in index]


def _texts(values: Sequence[str | None], which: Ints) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode().take(number_array(which % len(values)))


def _text(attributes: Mapping[str, Any], key: str | None) -> str | None:
    value = None if key is None else attributes.get(key)
    return None if value is None else str(value)


def _whole(attributes: Mapping[str, Any], key: str | None) -> int:
    value = None if key is None else attributes.get(key)
    return value if isinstance(value, int) and 0 <= value < 1 << 40 else -1


def _bytes(attributes: Mapping[str, Any], convention: EventConventions) -> int:
    """Return the larger of what a rank puts into a collective and what it gets, -1 if unknown."""
    elements = max([_whole(attributes, key) for key in convention.collective_elements_keys], default=-1)
    kind = (_text(attributes, convention.collective_type_key) or "").lower().removeprefix("torch.")
    return elements * _ELEMENT_BYTES[kind] if elements >= 0 and kind in _ELEMENT_BYTES else -1
