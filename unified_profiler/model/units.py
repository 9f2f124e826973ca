"""Numbers with units, as torch's profiler prints them."""

from __future__ import annotations


def format_time(nanoseconds: float) -> str:
    """Format a duration as torch does: in us, ms or s with three decimals."""
    size = abs(nanoseconds)
    if size >= 1_000_000_000:
        return f"{nanoseconds / 1_000_000_000:.3f}s"
    if size >= 1_000_000:
        return f"{nanoseconds / 1_000_000:.3f}ms"
    return f"{nanoseconds / 1000:.3f}us"


def format_bytes(count: float) -> str:
    """Format a size as torch does: in B, KB, MB or GB of 1024."""
    for unit, size in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:g} B"
