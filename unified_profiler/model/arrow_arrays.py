"""Converts NumPy arrays and texts to Arrow arrays and back, through their buffers.

`pyarrow.array` and `pyarrow.scalar` import pandas if it is installed, to recognize its objects. That takes longer than
reading a small trace, so reading uses these functions instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Flags = npt.NDArray[np.bool_]

_LARGEST_OFFSET = (1 << 31) - 1
_NUMPY_TYPES = {
    pa.from_numpy_dtype(name): np.dtype(name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
}


def number_array(values: npt.NDArray[Any], *, missing: Flags | None = None) -> pa.Array:
    """Build an array of integers, floating-point numbers or booleans; null where values are missing."""
    validity = None if missing is None or not missing.any() else _bitmap(~missing)
    data = _bitmap(values) if values.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [validity, data])


def as_array(values: Any) -> pa.Array | pa.ChunkedArray:
    """Return Arrow arrays unchanged, and NumPy arrays and sequences as an array."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    is_numeric = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
    return number_array(values) if is_numeric else pa.array(values)


def text_array(texts: Sequence[str]) -> pa.StringArray:
    """Build an array of texts."""
    return encoded_text_array([text.encode() for text in texts])


def encoded_text_array(encoded: Sequence[bytes]) -> pa.StringArray:
    """Build an array of texts from their UTF-8."""
    offsets = np.fromiter(accumulate(map(len, encoded), initial=0), np.int64, len(encoded) + 1)
    if offsets[-1] > _LARGEST_OFFSET:
        return pa.array(encoded, pa.string())  # raises Arrow's error
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def repeated_number(value: float | None, dtype: pa.DataType, rows: int) -> pa.Array:
    """Build an array of one number, or of nulls."""
    kind = _NUMPY_TYPES[dtype]
    values = np.full(rows, 0 if value is None else value, kind)
    return number_array(values, missing=np.full(rows, value is None))


def repeated_text(value: str | None, rows: int) -> pa.DictionaryArray:
    """Build a dictionary array of one text, or of nulls."""
    indices = repeated_number(None if value is None else 0, pa.int32(), rows)
    return pa.DictionaryArray.from_arrays(indices, text_array([] if value is None else [value]))


def to_numpy(column: pa.Array | pa.ChunkedArray, *, null: int = -1) -> npt.NDArray[Any]:
    """Return a column of numbers as a read-only array, which may share the column's memory, with a value for nulls."""
    array = _one_chunk(column)
    validity, data = array.buffers()
    stored = np.frombuffer(data or b"", _NUMPY_TYPES[array.type])
    values: npt.NDArray[Any] = stored[array.offset : array.offset + len(array)]
    return values if not array.null_count else np.where(_bits(validity, array), values, values.dtype.type(null))


def is_null(column: pa.Array | pa.ChunkedArray) -> Flags:
    """Flag the nulls of a column."""
    array = _one_chunk(column)
    return ~_bits(array.buffers()[0], array) if array.null_count else np.zeros(len(array), np.bool_)


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _bits(bitmap: pa.Buffer, array: pa.Array) -> Flags:
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def _bitmap(flags: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
