"""Values that belong to Arrow tables and are released with them."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

import pyarrow as pa

_Value = TypeVar("_Value")


class TableValues(Generic[_Value]):
    """Maps tables to values; a WeakKeyDictionary cannot, since tables have no hash.

    A value must not refer to its table, which would then never be released.
    """

    def __init__(self) -> None:
        self._values: dict[int, _Value] = {}

    def get(self, table: pa.Table) -> _Value | None:
        """Return the value of a table, None if it has none."""
        return self._values.get(id(table))

    def set(self, table: pa.Table, value: _Value) -> None:
        """Set the value of a table."""
        if id(table) not in self._values:
            weakref.finalize(table, self._values.pop, id(table), None).atexit = False
        self._values[id(table)] = value
