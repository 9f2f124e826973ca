"""Validates numbers from untrusted files before they enter the event schema; out-of-range values never wrap.

A time out of range means that the file is damaged. A size or an id out of range is treated as unknown.
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
from unified_profiler.model.nesting import Ints, int_column
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable

LARGEST = (1 << 62) - 1
"""Limit of times and lanes, such that the sum of any two fits into 64 bits. In nanoseconds it is 146 years."""

LARGEST_NUMBER = (1 << 31) - 1
"""Limit of ranks and steps, whose columns have 32 bits."""

_MAX_METADATA_DEPTH = 100
"""Nesting depth of objects and arrays; deeper ones can be parsed, but not written and read again."""

_LARGEST_COLUMN = (1 << 63) - 1
_BOUNDED = {"start_ns": -LARGEST, "duration_ns": 0, "pid": -LARGEST, "tid": -LARGEST}
"""Columns that enter sums, and the smallest value of each."""


def int_or_none(value: object, *, largest: int = _LARGEST_COLUMN) -> int | None:
    """Return an integer that fits into a column, None for anything else."""
    return value if type(value) is int and -largest <= value <= largest else None


def native_metadata(table: EventTable) -> dict[str, Any]:
    """Return the capture-wide metadata of a native profiler, which normalizers attach to their table.

    Raises:
        ValueError: It is nested too deeply to be stored.
    """
    text = (table.schema.metadata or {}).get(b"native")
    metadata: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    values: list[Any] = [metadata]
    for _ in range(_MAX_METADATA_DEPTH):
        values = [item for value in values for item in _items(value)]
        if not values:
            return metadata
    msg = f"the metadata of the trace has more than {_MAX_METADATA_DEPTH} nested levels"
    raise ValueError(msg)


def _items(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def nanoseconds(microseconds: npt.NDArray[np.float64]) -> Ints:
    """Convert microseconds with three decimals exactly; a plain multiplication would lose the last digits.

    Raises:
        ValueError: A value is out of range.
    """
    outside = np.flatnonzero(~(np.abs(microseconds) <= LARGEST / 1000))
    if len(outside):
        msg = f"event {outside[0]} has a time of {microseconds[outside[0]]} microseconds"
        raise ValueError(msg)
    whole_part = np.floor(microseconds)
    fraction = np.rint((microseconds - whole_part) * 1000)
    exact: Ints = whole_part.astype(np.int64) * 1000 + fraction.astype(np.int64)
    return exact


def bounded(values: Ints | int, label: str) -> Ints:
    """Return times after checking that they can be added to other times; `label` names them in messages.

    Raises:
        ValueError: One is too large.
    """
    numbers = np.atleast_1d(np.asarray(values))
    outside = np.flatnonzero((numbers < -LARGEST) | (numbers > LARGEST))
    if len(outside):
        msg = f"{label} {outside[0]} is {numbers[outside[0]]}, which is not a valid time"
        raise ValueError(msg)
    checked: Ints = numbers.astype(np.int64, copy=False)
    return checked


def checked_events(table: EventTable) -> EventTable:
    """Return a table of events after checking its times and lanes.

    Raises:
        ValueError: A required value is missing, or a value is out of range.
    """
    missing = [field.name for field in EVENT_SCHEMA if not field.nullable and table.column(field.name).null_count]
    if missing:
        msg = f"events lack {missing}"
        raise ValueError(msg)
    for name, smallest in _BOUNDED.items():
        _check_range(table, name, smallest)
    return table


def checked_nesting(events: EventTable) -> EventTable:
    """Return the events of one trace after checking that their parents form no cycle.

    Raises:
        ValueError: Some events enclose each other.
    """
    ids = int_column(events, "id")
    ancestor = look_up(int_column(events, "parent_id"), ids)
    rounds = len(ancestor).bit_length()  # pointer jumping: each round doubles the distance to the ancestor
    while rounds and np.any(ancestor >= 0):
        ancestor, rounds = np.where(ancestor >= 0, ancestor[ancestor], -1), rounds - 1
    if np.any(ancestor >= 0):
        msg = f"event {ids[np.argmax(ancestor >= 0)]} encloses itself"
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
