"""Numbers of XPlane in columns."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from unified_profiler.model.nesting import Ints

LARGEST = (1 << 63) - 1


def numbers(codes: Ints, values: Iterable[float | None], kind: pa.DataType) -> pa.Array:
    """Build a column of numbers from codes."""
    return pa.array(list(values), kind).take(pa.array(codes))


def whole(value: object) -> int | None:
    """Return an integer that fits into a column, None for anything else."""
    return value if isinstance(value, int) and -LARGEST <= value <= LARGEST else None
