"""Sources of hardware readings, and the conversion of readings to counter values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from unified_profiler.recording.hardware.counters import Counter

LESS_OFTEN = 2
"""Cores are read every second time: ticks of 10 ms are more accurate over longer intervals."""
SELDOM = 5
"""Slowly changing counters are read every fifth time, which halves the cost of sampling."""


class Reading(NamedTuple):
    """The amount of a counter as read from a source."""

    counter: Counter
    amount: float
    device: str | None = None


@dataclass
class Source:
    """A source of readings, which fails independently of the others.

    Attributes:
        name: Name of the source in messages.
        read: Returns the readings.
        every: 1 to be read each time, n to be read every n-th time.
        close: Closes the files that it holds open; reading opens them again.
        failed: Whether it has failed, after which it is not read again.
        cost_ns: Average CPU time of a reading; None before the first one.
        pauses: Number of readings that it still has to skip.
    """

    name: str
    read: Callable[[], Iterable[Reading]]
    every: int = 1
    close: Callable[[], None] = lambda: None
    failed: bool = False
    cost_ns: float | None = None
    pauses: int = 0


class CounterValue(NamedTuple):
    """The value of a counter from `start_ns` on."""

    start_ns: int
    name: str
    device: str | None
    value: float


class CounterValues:
    """Converts readings to values: gauges unchanged, running totals to their growth since the previous reading."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str | None], tuple[int, float]] = {}

    def value(self, reading: Reading, now_ns: int) -> CounterValue | None:
        """Return the value, None if the interval is still too short or the total was reset.

        A gauge is valid from now on, a rate from the beginning of the interval in which it was measured.
        """
        counter, amount, device = reading
        if not counter.factor:
            return CounterValue(now_ns, counter.name, device, float(amount))
        before = self._before.get((counter.name, device))
        if before is not None and now_ns - before[0] < counter.shortest_ns:
            return None
        self._before[counter.name, device] = now_ns, amount
        if before is None or amount < before[1]:
            return None
        since_ns, previous = before
        rate = (amount - previous) / (now_ns - since_ns) * 1e9 * counter.factor
        return CounterValue(since_ns, counter.name, device, min(rate, counter.at_most))
