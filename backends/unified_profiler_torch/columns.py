"""Arrow columns from numbers: nulls from `MISSING`, nanoseconds from Kineto's microseconds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.columns import with_nulls
from unified_profiler.model.nesting import Ints
from unified_profiler_torch.args import MISSING


def nanoseconds(microseconds: npt.NDArray[np.float64]) -> Ints:
    """Convert microseconds with three decimals exactly; multiplied as they are, they would lose the last digits."""
    whole = np.floor(microseconds)
    fraction = np.rint((microseconds - whole) * 1000)
    exact: Ints = whole.astype(np.int64) * 1000 + fraction.astype(np.int64)
    return exact


def numbers(values: Ints) -> pa.Array | None:
    """Build a column of integers; `MISSING` becomes null. A column without any value is None."""
    return with_nulls(values, values == MISSING)
