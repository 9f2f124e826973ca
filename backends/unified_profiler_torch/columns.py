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


def numbers(values: Ints) -> pa.Array:
    """Build a column of integers; `MISSING` becomes null."""
    return pa.array(values, mask=values == MISSING)


def text(codes: npt.NDArray[Any], texts: Iterable[str | None]) -> pa.DictionaryArray:
    """Build a text column; codes below 0 and texts that are None become null."""
    distinct = Index()
    lookup = np.array([-1 if value is None else distinct[value] for value in texts] + [-1], np.int32)
    indices = lookup[codes]
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices < 0), pa.array(list(distinct), pa.string()))
