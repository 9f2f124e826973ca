"""Formats times and sizes with their units, everywhere in the same way, and parses sizes such as "10MB"."""

from __future__ import annotations

import re
from contextlib import suppress

from pydantic import ByteSize, TypeAdapter

from unified_profiler.errors import ConfigurationError

_SIZE = re.compile(r"\s*\d*\.?\d+\s*[a-zA-Z]*\s*", re.ASCII)
_LARGEST = 1 << 62
_MINUTE = 60_000_000_000
_SMALL_RATIO = 0.1


def format_time(nanoseconds: float) -> str:
    """Format a duration in us, ms or s with three decimals, and from a minute on as `3 min 12 s`."""
    size = abs(nanoseconds)
    if size >= _MINUTE:
        minutes, seconds = divmod(size, _MINUTE)
        return f"{'-' if nanoseconds < 0 else ''}{minutes:,.0f} min {seconds // 1_000_000_000:.0f} s"
    if size >= 1_000_000_000:
        return f"{nanoseconds / 1_000_000_000:.3f} s"
    if size >= 1_000_000:
        return f"{nanoseconds / 1_000_000:.3f} ms"
    return f"{nanoseconds / 1000:.3f} us"


def format_bytes(count: float) -> str:
    """Format a size in B, KiB, MiB, GiB or TiB, which are multiples of 1024."""
    for unit, size in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if abs(count) >= size:
            return f"{count / size:,.2f} {unit}"
    return f"{count:g} B"


def format_ratio(ratio: float) -> str:
    """Format a factor; small ones with two significant digits, since they would round to 0.00."""
    return f"{ratio:.2g}\u00d7" if 0 < abs(ratio) < _SMALL_RATIO else f"{ratio:,.2f}\u00d7"


def parse_bytes(size: object, *, option: str) -> int:
    """Return a size in bytes, given as a number or as text such as "10MB" (of 1000) or "1.5MiB" (of 1024).

    Raises:
        ConfigurationError: The size is neither, or not positive.
    """
    count = 0
    if isinstance(size, (str, int)) and not isinstance(size, bool) and _SIZE.fullmatch(str(size)):
        with suppress(ValueError, OverflowError):
            count = int(TypeAdapter(ByteSize).validate_python(size))
    if count > 0:
        return min(count, _LARGEST)
    msg = f"`{option}` must be a number of bytes, or text such as '10MB', '512KB' or '1.5MiB'; found {size!r}."
    raise ConfigurationError(msg)
