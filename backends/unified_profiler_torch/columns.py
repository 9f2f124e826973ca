"""Arrow columns from numbers: nulls from `MISSING`, text from codes, nanoseconds from Kineto's microseconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.nesting import Ints
from unified_profiler_torch.args import MISSING, Index


def nanoseconds(microseconds: npt.NDArray[np.float64]) -> Ints:
    """Convert microseconds with three decimals exactly; multiplied as they are, they would lose the last digits."""
    whole = np.floor(microseconds)
    fraction = np.rint((microseconds - whole) * 1000)
    exact: Ints = whole.astype(np.int64) * 1000 + fraction.astype(np.int64)
    return exact


def numbers(values: Ints) -> pa.Array | None:
    """Build a column of integers; `MISSING` becomes null. A column without any value is None."""
    return _with_nulls(values, values == MISSING)


def text(codes: npt.NDArray[Any], texts: Iterable[str | None]) -> pa.DictionaryArray | None:
    """Build a text column; codes below 0 and texts that are None become null. A column without any text is None."""
    distinct = Index()
    lookup = np.array([-1 if value is None else distinct[value] for value in texts] + [-1], np.int32)
    if not distinct:
        return None
    indices = lookup[codes]
    column = _with_nulls(indices, indices < 0)
    return None if column is None else pa.DictionaryArray.from_arrays(column, pa.array(list(distinct), pa.string()))


def _with_nulls(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> pa.Array | None:
    if not missing.any():
        return pa.array(values)
    return None if missing.all() else pa.array(values, mask=missing)
