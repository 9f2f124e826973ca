"""Builds integer and text columns for normalizers without creating a Python object per event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.arrow_arrays import number_array, text_array, to_numpy
from unified_profiler.model.nesting import Ints

_DENSE = 8
"""Keys are looked up in a table if their range is less than this multiple of their number."""


class Index(dict[Any, int]):
    """Numbers the distinct values in order of first appearance."""

    def __missing__(self, key: Any) -> int:
        """Assign the next number to a new value."""
        self[key] = number = len(self)
        return number

    def codes(self, values: Iterable[Any], dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
        """Return the number of each value."""
        return np.fromiter(map(self.__getitem__, values), dtype)


def encode(values: Ints) -> tuple[Ints, Ints]:
    """Number the distinct values in order of first appearance; return the number of each value and the values."""
    encoded = number_array(values).dictionary_encode()
    return to_numpy(encoded.indices).astype(np.int64), to_numpy(encoded.dictionary)


def distinct_pairs(first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the distinct pairs of two columns, as two columns, and the index of each row's pair among them."""
    codes_of_first, firsts = encode(first)
    codes_of_second, seconds = encode(second)
    index, pairs = encode(codes_of_first * max(len(seconds), 1) + codes_of_second)
    return firsts[pairs // max(len(seconds), 1)], seconds[pairs % max(len(seconds), 1)], index


def look_up(values: Ints, keys: Ints) -> Ints:
    """Return for each value the index of its first occurrence among the keys, -1 if it is absent."""
    if not len(keys):
        return np.full(len(values), -1, np.int64)
    smallest, largest = int(keys.min()), int(keys.max())
    if largest - smallest < _DENSE * len(keys):
        return _look_up_dense(values, keys, smallest, largest)
    order = np.argsort(keys, kind="stable")
    index = order[np.minimum(np.searchsorted(keys[order], values), len(keys) - 1)]
    return np.where(keys[index] == values, index, -1)


def _look_up_dense(values: Ints, keys: Ints, smallest: int, largest: int) -> Ints:
    """Look values up in a table of all numbers from the smallest to the largest key, without sorting."""
    index = np.full(largest - smallest + 2, -1, np.int64)  # the last is for values that cannot be keys
    index[keys[::-1] - smallest] = np.arange(len(keys))[::-1]  # of equal keys, the first is written last
    is_inside = (values >= smallest) & (values <= largest)
    matches: Ints = index[np.where(is_inside, values - smallest, -1)]
    return matches


def text_column(codes: npt.NDArray[Any], texts: Iterable[str | None]) -> pa.DictionaryArray | None:
    """Build a text column; negative codes and texts that are None become null. Return None if all values are null."""
    numbers = Index({None: 0})  # null is the first, so that it becomes -1
    lookup = np.append(numbers.codes(texts, np.int32), np.int32(0)) - 1
    indices = lookup[codes]
    if len(numbers) == 1 or (len(indices) and (indices < 0).all()):
        return None
    return dictionary_array(indices, text_array(list(numbers)[1:]))


def dictionary_array(codes: npt.NDArray[Any], values: pa.Array) -> pa.DictionaryArray:
    """Build a dictionary array from codes; negative ones are null.

    The index under a null is 0, never the code itself: Arrow looks up every index when it unifies dictionaries, and
    one outside the dictionary makes it read out of bounds.
    """
    missing = codes < 0
    indices = number_array(np.maximum(codes, 0).astype(np.int32), missing=missing)
    return pa.DictionaryArray.from_arrays(indices, values)


def with_nulls(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> pa.Array | None:
    """Build a column with nulls where values are missing; return None if all are."""
    return None if len(missing) and missing.all() else number_array(values, missing=missing)
