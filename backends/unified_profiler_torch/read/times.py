"""Converts the times of Kineto files, decimal microseconds, to integer nanoseconds without losing digits.

A double holds three decimals only up to about nine million seconds. Files without `baseTimeNanoseconds` count from the
Unix epoch, far beyond that, so their digits are read again as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.arrow_arrays import text_array
from unified_profiler.model.foreign_values import nanoseconds
from unified_profiler.model.nesting import Ints

Floats = npt.NDArray[np.float64]

EXACT_BELOW = float(1 << 43)
"""Microseconds below which the nearest double identifies a number with three decimals."""

_ROUNDING_ERROR = 1e-3
"""Largest error, in nanoseconds, of the arithmetic below, apart from that of the double itself."""
_DECIMALS = pa.decimal128(38, 3)
_NANOSECOND = Decimal("0.001")
_ZERO = msgspec.Raw(b"0")


class EventTimes(msgspec.Struct, gc=False):
    """The undecoded times of an event."""

    ts: msgspec.Raw = _ZERO
    dur: msgspec.Raw = _ZERO


def need_digits(microseconds: Floats) -> bool:
    """Return whether doubles may differ from the decimal numbers by a nanosecond: large ones, or with more decimals."""
    if not len(microseconds):
        return False
    magnitude = np.abs(microseconds)
    if magnitude.max() >= EXACT_BELOW:
        return True
    thousandths = (magnitude - np.floor(magnitude)) * 1000
    distance = np.abs(thousandths - np.rint(thousandths))
    return bool(np.any(distance > np.spacing(magnitude) * 500 + _ROUNDING_ERROR))


def exact_nanoseconds(texts: Sequence[msgspec.Raw], microseconds: Floats) -> Ints:
    """Convert JSON numbers to the nearest nanosecond, by their digits.

    Args:
        texts: The numbers as recorded.
        microseconds: The same numbers as doubles.

    Raises:
        ValueError: A number is out of range.
    """
    nanoseconds(microseconds)  # checks the range, so that the digits below fit
    numbers = b",".join(texts).decode("ascii").split(",") if texts else []
    try:
        thousandths = text_array(numbers).cast(_DECIMALS)
    except pa.ArrowInvalid:
        # more than three decimals, or more digits than Arrow's type holds
        return np.array([_rounded(number) for number in numbers], np.int64)
    low_words: Ints = np.frombuffer(thousandths.buffers()[1], np.int64)[::2]
    return low_words[thousandths.offset : thousandths.offset + len(thousandths)]


def _rounded(number: str) -> int:
    return int(Decimal(number).quantize(_NANOSECOND, ROUND_HALF_EVEN).scaleb(3))
