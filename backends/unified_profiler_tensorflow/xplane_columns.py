"""Columns of numbers and texts, built without a Python object per event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.nesting import Ints

Flags = npt.NDArray[np.bool_]

LARGEST = (1 << 63) - 1


class Index(dict[Any, int]):
    """Numbers every distinct value once, in the order of appearance."""

    def __missing__(self, key: Any) -> int:
        """Give a new value the next number."""
        self[key] = number = len(self)
        return number

    def codes(self, values: Iterable[Any]) -> Ints:
        """Return the number of each value."""
        return np.fromiter(map(self.__getitem__, values), np.int64)


def encode(values: Ints) -> tuple[Ints, Ints]:
    """Number the distinct values in the order of appearance; return the number of each, and the values."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()


def numbers(codes: Ints, values: Iterable[float | None], kind: pa.DataType) -> pa.Array:
    """Build a column of numbers from codes."""
    return pa.array(list(values), kind).take(pa.array(codes))


def text(codes: Ints, values: Iterable[str | None]) -> pa.DictionaryArray | None:
    """Build a text column from codes; a column without any text is None."""
    distinct = Index()
    lookup = np.array([-1 if value is None else distinct[value] for value in values] + [-1], np.int32)
    if not distinct:
        return None
    indices = lookup[codes]
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices < 0), pa.array(list(distinct), pa.string()))


def whole(value: object) -> int | None:
    """Return an integer that fits into a column, None for anything else."""
    return value if isinstance(value, int) and -LARGEST <= value <= LARGEST else None
