"""Converts Arrow columns to Python values, including times that Arrow itself cannot convert."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_NOT_CONVERTED = (OverflowError, ValueError)
_UNITS = {pa.date32(): "D", pa.date64(): "ms"}


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column.

    Times that a `datetime` cannot represent (outside the years 1 to 9999, or with nanoseconds) become ISO 8601 text,
    and the infinite ones of DuckDB "infinity" and "-infinity".
    """
    try:
        values: list[Any] = column.to_pylist()
    except _NOT_CONVERTED:
        values = [_value(scalar) for scalar in column]
    return values


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except _NOT_CONVERTED:
        pass
    kind = scalar.type
    if pa.types.is_struct(kind):
        return {name: _value(part) for name, part in scalar.items()}
    if pa.types.is_map(kind):
        return [(_value(entry["key"]), _value(entry["value"])) for entry in scalar.values]
    if pa.types.is_union(kind) or pa.types.is_dictionary(kind):
        return _value(scalar.value)
    if pa.types.is_nested(kind):
        return [_value(part) for part in scalar.values]
    return _time(scalar.value, _UNITS.get(kind) or kind.unit, bits=kind.bit_width)


def _time(value: int, unit: str, *, bits: int) -> str:
    if abs(value) == 2 ** (bits - 1) - 1:
        return "infinity" if value > 0 else "-infinity"
    return str(np.datetime64(value, unit))
