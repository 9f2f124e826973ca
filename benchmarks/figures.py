"""What a benchmark returns: figures with the bound they should keep, printed as one table and kept as JSON."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import unified_profiler as up


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured number and the bound it should keep."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bound is kept; a figure without one is there for orientation."""
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)


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

    The two take turns and each is set against its neighbour: so a step of 4 ms comes out equal to itself within 0.2 %
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


def show(figures: Sequence[Figure]) -> None:
    """Print the figures."""
    table = Table(title="unified_profiler benchmarks")
    for column in ("figure", "value", "bound", "", "note"):
        table.add_column(column, justify="right" if column in {"value", "bound"} else "left")
    for figure in figures:
        bound = "" if figure.at_most is None else f"<= {figure.at_most:g}"
        bound = bound if figure.at_least is None else f">= {figure.at_least:g}"
        mark = "" if not bound else "[green]holds[/]" if figure.holds else "[red]BROKEN[/]"
        table.add_row(figure.name, f"{figure.value:.4g} {figure.unit}", bound, mark, figure.note)
    Console().print(table)


def save(figures: Sequence[Figure], path: Path) -> None:
    """Keep the figures, with the machine they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "platform": platform.platform(), "time": time.time()}
    path.write_text(json.dumps({"machine": machine, "figures": [asdict(figure) for figure in figures]}, indent=2))
