"""Numbers of XPlane in columns."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from unified_profiler.model.nesting import Ints


def numbers(codes: Ints, values: Iterable[float | None], kind: pa.DataType) -> pa.Array:
    """Build a column of numbers from codes."""
    return pa.array(list(values), kind).take(pa.array(codes))
