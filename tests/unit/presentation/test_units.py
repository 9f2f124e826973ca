"""Times and sizes are written in one way everywhere."""

from __future__ import annotations

import pytest

from unified_profiler.presentation.units import format_bytes, format_time

TIMES = {
    0: "0.000 us",
    812: "0.812 us",
    17_550: "17.550 us",
    17_550_000: "17.550 ms",
    -1_500_000: "-1.500 ms",
    59_999_000_000: "59.999 s",
    60_000_000_000: "1 min 0 s",
    192_999_000_000: "3 min 12 s",
    -7_200_000_000_000: "-120 min 0 s",
}
SIZES = {0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", -1536: "-1.50 KiB", 5 << 30: "5.00 GiB", 3 << 40: "3.00 TiB"}


@pytest.mark.parametrize(("nanoseconds", "text"), TIMES.items())
def test_a_time_has_a_unit_after_a_space(nanoseconds: int, text: str) -> None:
    assert format_time(nanoseconds) == text


@pytest.mark.parametrize(("count", "text"), SIZES.items())
def test_sizes_are_multiples_of_1024(count: int, text: str) -> None:
    assert format_bytes(count) == text
