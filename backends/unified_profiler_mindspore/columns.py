"""Arrow columns of text from numbers: every distinct text once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from unified_profiler.model.nesting import Ints


def text(codes: Ints, texts: Iterable[str | None]) -> pa.DictionaryArray:
    """Build a column of which each row holds the text with its number; None becomes null."""
    distinct: dict[str | None, int] = {}
    lookup = np.array([-1 if value is None else distinct.setdefault(value, len(distinct)) for value in texts], np.int32)
    indices = lookup[codes] if len(lookup) else np.empty(0, np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices < 0), pa.array(list(distinct), pa.string()))


def encoded(values: Sequence[str | None]) -> pa.DictionaryArray:
    """Build a column from its texts, one per row."""
    return pa.array(values, pa.string()).dictionary_encode()
