"""What is read of the hardware, and how readings become values of counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from unified_profiler.recording.hardware.counters import Counter

LESS_OFTEN = 2
"""How many times less often cores are read: ticks of 10 ms say more over longer intervals."""
SELDOM = 5
"""How many times less often things are read that say as much over longer intervals, to halve what sampling costs."""


class Reading(NamedTuple):
    """What a source told of a counter."""

    counter: Counter
    amount: float
    device: str | None = None


def _nothing() -> None:
    """Do nothing."""


@dataclass
class Source:
    """Something that can be read, and fails, by itself.

    Attributes:
        name: What is read.
        read: Reads it.
        every: 1 to be read each time, n to be read every n-th time.
        close: Lets go of what it holds open; reading it again opens it again.
        failed: Whether it failed, after which it is left alone.
        cost_ns: The CPU time that reading it takes, on the average; None before it was first read.
        pauses: How many readings it still has to leave out.
    """

    name: str
    read: Callable[[], Iterable[Reading]]
    every: int = 1
    close: Callable[[], None] = _nothing
    failed: bool = False
    cost_ns: float | None = None
    pauses: int = 0


class Value(NamedTuple):
    """What a counter was from a moment on."""

    start_ns: int
    name: str
    device: str | None
    value: float


class Values:
    """Turns readings into values: of levels what was read, of totals what they grew by since the reading before."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str | None], tuple[int, float]] = {}

    def value(self, reading: Reading, now_ns: int) -> Value | None:
        """Return the value, None if the interval is too short yet or the total began anew.

        A level holds from now on. A rate holds from the beginning of the interval in which it was measured.
        """
        counter, amount, device = reading
        if not counter.factor:
            return Value(now_ns, counter.name, device, float(amount))
        before = self._before.get((counter.name, device))
        if before is not None and now_ns - before[0] < counter.shortest_ns:
            return None
        self._before[counter.name, device] = now_ns, amount
        if before is None or amount < before[1]:
            return None
        since_ns, less = before
        rate = (amount - less) / (now_ns - since_ns) * 1e9 * counter.factor
        return Value(since_ns, counter.name, device, min(rate, counter.at_most))
