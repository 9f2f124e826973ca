"""What a benchmark returns: figures with the bound they should keep; and how two things are timed fairly."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import unified_profiler as up

NOBODY = "no profiler"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured number, whom it is set against, and the bound it should keep.

    "itself" stands for a cost of ours that is compared with nothing but its bound, or with another one of ours.
    """

    name: str
    value: float
    unit: str
    against: str = "itself"
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bound is kept; a figure without one is there for orientation."""
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    @property
    def bound(self) -> str:
        """The bound as a text, empty if there is none."""
        bounds = (("≥", self.at_least), ("≤", self.at_most))
        return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)

    @property
    def verdict(self) -> str:
        """Whether the bound is kept, as a word, empty if there is none."""
        return "" if not self.bound else "holds" if self.holds else "BROKEN"


@dataclass(frozen=True, kw_only=True)
class Group:
    """The figures of one module, or what kept it from having any."""

    name: str
    figures: tuple[Figure, ...] = ()
    failure: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the module came to its end and every bound was kept."""
        return self.failure is None and all(figure.holds for figure in self.figures)


def seconds(function: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def interleaved(first: Callable[[], float], second: Callable[[], float], *, rounds: int) -> tuple[float, float]:
    """Return the median of each of two measurements taken in turn, so that a noisy machine disturbs both alike."""
    pairs = [(first(), second()) if i % 2 else tuple(reversed((second(), first()))) for i in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def off_against_none(step: Callable[[], object], *, steps: int) -> float:
    """Return what a step takes with a Profiler at level 0, relative to one without any.

    The two take turns and each is set against its neighbor: so a step of 4 ms comes out equal to itself within 0.2 %
    on a shared machine, where the medians of whole loops differ by 1 %.
    """
    profiler = up.Profiler(level=0)

    def under() -> None:
        step()
        profiler.step()

    ratios = []
    with profiler:
        for i in range(steps):
            first, second = (under, step) if i % 2 else (step, under)
            times = {first: seconds(first), second: seconds(second)}
            ratios.append(times[under] / times[step])
    return statistics.median(ratios)
