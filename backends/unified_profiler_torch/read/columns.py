"""Arrow columns from numbers, with nulls from `MISSING`."""

from __future__ import annotations

import pyarrow as pa

from unified_profiler.model.columns import with_nulls
from unified_profiler.model.nesting import Ints
from unified_profiler_torch.read.args import MISSING


def numbers(values: Ints) -> pa.Array | None:
    """Build a column of integers; `MISSING` becomes null. A column without any value is None."""
    return with_nulls(values, values == MISSING)
