"""Values of foreign files as values of the event schema: one that does not fit is refused or unknown, never wrapped.

A time that cannot be represented makes its file a damaged one. A size or an id that cannot is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import Ints, whole_numbers
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable

LARGEST = (1 << 62) - 1
"""Times and lanes lie within this: any two can be added in 64 bits. In nanoseconds it is 146 years."""

LARGEST_NUMBER = (1 << 31) - 1
"""Of ranks and steps, whose columns have 32 bits."""

_DEEPEST_METADATA = 100
"""Levels of nested objects and arrays; deeper ones can be parsed, but not written and read again."""

_LARGEST_COLUMN = (1 << 63) - 1
_BOUNDED = {"start_ns": -LARGEST, "duration_ns": 0, "pid": -LARGEST, "tid": -LARGEST}
"""The columns that are added to others, and the smallest value of each."""


def whole(value: object, *, largest: int = _LARGEST_COLUMN) -> int | None:
    """Return an integer that fits into a column, None for anything else."""
    return value if type(value) is int and -largest <= value <= largest else None


def native_metadata(table: EventTable) -> dict[str, Any]:
    """Return what a native profiler recorded about a capture as a whole, which normalizers attach to their table.

    Raises:
        ValueError: It is nested too deeply to be stored.
    """
    text = (table.schema.metadata or {}).get(b"native")
    metadata: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    level: list[Any] = [metadata]
    for _ in range(_DEEPEST_METADATA):
        level = [item for value in level for item in _items(value)]
        if not level:
            return metadata
    msg = f"the metadata of the trace has more than {_DEEPEST_METADATA} nested levels"
    raise ValueError(msg)


def _items(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def nanoseconds(microseconds: npt.NDArray[np.float64]) -> Ints:
    """Convert microseconds with three decimals exactly; multiplied as they are, they would lose the last digits.

    Raises:
        ValueError: One is no time.
    """
    outside = np.flatnonzero(~(np.abs(microseconds) <= LARGEST / 1000))
    if len(outside):
        msg = f"event {outside[0]} has a time of {microseconds[outside[0]]} microseconds"
        raise ValueError(msg)
    whole_part = np.floor(microseconds)
    fraction = np.rint((microseconds - whole_part) * 1000)
    exact: Ints = whole_part.astype(np.int64) * 1000 + fraction.astype(np.int64)
    return exact


def bounded(values: Ints | int, what: str) -> Ints:
    """Return numbers, of times that are still to be added to others.

    Raises:
        ValueError: One is too large for that.
    """
    numbers = np.atleast_1d(np.asarray(values))
    outside = np.flatnonzero((numbers < -LARGEST) | (numbers > LARGEST))
    if len(outside):
        msg = f"{what} {outside[0]} is {numbers[outside[0]]}, which is no time"
        raise ValueError(msg)
    checked: Ints = numbers.astype(np.int64, copy=False)
    return checked


def checked_events(table: EventTable) -> EventTable:
    """Return a table of events whose times and lanes can be worked with.

    Raises:
        ValueError: A value is missing that every event has, or is out of range.
    """
    missing = [field.name for field in EVENT_SCHEMA if not field.nullable and table.column(field.name).null_count]
    if missing:
        msg = f"events lack {missing}"
        raise ValueError(msg)
    for name, smallest in _BOUNDED.items():
        _check_range(table, name, smallest)
    return table


def checked_nesting(events: EventTable) -> EventTable:
    """Return events of one trace whose parents, as far as they are among them, lead to an outermost event in the end.

    Raises:
        ValueError: Some events enclose each other.
    """
    ids, parents = whole_numbers(events.column("id")), whole_numbers(events.column("parent_id"))
    above = look_up(parents, ids)
    rounds = len(above).bit_length()  # each doubles how far up is looked
    while rounds and np.any(above >= 0):
        above, rounds = np.where(above >= 0, above[above], -1), rounds - 1
    if np.any(above >= 0):
        msg = f"event {ids[np.argmax(above >= 0)]} encloses itself"
        raise ValueError(msg)
    return events


def _check_range(table: EventTable, name: str, smallest: int) -> None:
    column = table.column(name)
    limits = pc.min_max(column).as_py()
    if limits["min"] is None or (limits["min"] >= smallest and limits["max"] <= LARGEST):
        return
    outside = pc.or_(pc.less(column, smallest), pc.greater(column, LARGEST))
    row = pc.index(outside, pa.scalar(value=True)).as_py()
    msg = (
        f"event {row}, {table.column('name')[row].as_py()!r:.100}, has {name} {column[row].as_py()}; "
        f"expected {smallest} to {LARGEST}"
    )
    raise ValueError(msg)
