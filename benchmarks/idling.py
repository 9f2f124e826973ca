"""What calls cost that record nothing: the price of leaving the profiler in the code."""

from __future__ import annotations

import timeit

import unified_profiler as up
from benchmarks.figures import Figure


def measure() -> list[Figure]:
    """Measure idle and switched-off calls, in microseconds."""
    idle = up.Profiler(schedule=up.schedule(wait=10**9, warmup=1, active=1))
    off = up.Profiler(level=0)
    with idle:
        return [
            _figure("idle step()", "profiler.step()", idle, at_most=1.0),
            _figure("idle region", "with profiler.region('x'): pass", idle, at_most=1.0),
            _figure("level 0 step()", "profiler.step()", off, at_most=0.3),
            _figure("level 0 region", "with profiler.region('x'): pass", off, at_most=0.3),
        ]


def _figure(name: str, statement: str, profiler: up.Profiler, *, at_most: float) -> Figure:
    number = 20_000
    best = min(timeit.repeat(statement, globals={"profiler": profiler}, number=number, repeat=40)) / number
    return Figure(name=name, value=best * 1e6, unit="us", at_most=at_most)
