"""Columns of codes and texts, built without a Python object per event: for normalizers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.nesting import Ints


class Index(dict[Any, int]):
    """Numbers every distinct value once, in the order of appearance."""

    def __missing__(self, key: Any) -> int:
        """Give a new value the next number."""
        self[key] = number = len(self)
        return number

    def codes(self, values: Iterable[Any], kind: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
        """Return the number of each value."""
        return np.fromiter(map(self.__getitem__, values), kind)


def encode(values: Ints) -> tuple[Ints, Ints]:
    """Number the distinct values in the order of appearance; return the number of each, and the values."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy()


def look_up(wanted: Ints, keys: Ints) -> Ints:
    """Return for each wanted number the first place where it is among the keys, -1 where it is not."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    place = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    return np.where(keys[place] == wanted, place, -1)


def text(codes: npt.NDArray[Any], texts: Iterable[str | None]) -> pa.DictionaryArray | None:
    """Build a text column; codes below 0 and texts that are None become null. A column without any text is None."""
    distinct = Index()
    lookup = np.array([-1 if value is None else distinct[value] for value in texts] + [-1], np.int32)
    if not distinct:
        return None
    indices = lookup[codes]
    if len(indices) and (indices < 0).all():
        return None
    return dictionary_array(indices, pa.array(list(distinct), pa.string()))


def dictionary_array(codes: npt.NDArray[Any], values: pa.Array) -> pa.DictionaryArray:
    """Build a dictionary array from codes, of which those below 0 are null.

    Under a null stands 0, never the code itself: Arrow looks up every index when it unifies dictionaries, and one
    outside the dictionary makes it read foreign memory.
    """
    missing = codes < 0
    indices = pa.array(np.maximum(codes, 0).astype(np.int32), mask=missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(indices, values)


def with_nulls(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> pa.Array | None:
    """Build a column of which some values are missing; a column without any value is None."""
    if not missing.any():
        return pa.array(values)
    return None if missing.all() else pa.array(values, mask=missing)
