"""Converts the times of Kineto files, decimal microseconds, to integer nanoseconds without losing digits.

A double holds three decimals only up to about nine million seconds. Many files count from the Unix epoch, far beyond
that, so times are read by their digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec
import numpy as np
import pyarrow as pa

from unified_profiler.model.arrow_arrays import encoded_text_array
from unified_profiler.model.foreign_values import LARGEST, nanoseconds
from unified_profiler.model.nesting import Ints

ZERO = msgspec.Raw(b"0")
"""The time of an event that has none."""

_DECIMALS = pa.decimal128(38, 3)
_NANOSECOND = Decimal("0.001")
_NUMBERS = msgspec.json.Decoder(list[float])


def exact_nanoseconds(texts: Sequence[msgspec.Raw]) -> Ints:
    """Convert microseconds as JSON to the nearest nanosecond, by their digits.

    Raises:
        msgspec.ValidationError: A value is not a number.
        ValueError: A number is out of range.
    """
    try:
        thousandths = encoded_text_array(texts).cast(_DECIMALS)
    except pa.ArrowInvalid:
        return _one_by_one(texts)
    low, high = np.frombuffer(thousandths.buffers()[1], np.int64).reshape(-1, 2)[thousandths.offset :][: len(texts)].T
    if np.any(high != low >> 63) or np.any((low < -LARGEST) | (low > LARGEST)):
        return _one_by_one(texts)
    return np.ascontiguousarray(low)


def _one_by_one(texts: Sequence[msgspec.Raw]) -> Ints:
    """Convert values of which some have more than three decimals, are very large, or are no numbers."""
    nanoseconds(np.array(_NUMBERS.decode(b"[%b]" % b",".join(texts)), np.float64))  # checks them all
    numbers = [Decimal(bytes(text).decode("ascii")) for text in texts]
    return np.array([int(number.quantize(_NANOSECOND, ROUND_HALF_EVEN).scaleb(3)) for number in numbers], np.int64)
