"""The most memory that was in use in each step, by what both sides recorded of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from unified_profiler.errors import ConfigurationError
from unified_profiler.gating.series import OfRank, Values
from unified_profiler.model.run import Run
from unified_profiler.recording.hardware.counters import PROCESS_MEMORY
from unified_profiler.report.counters import ALLOCATED, Counter, counters
from unified_profiler.report.step_times import StepTimes

_SORTS: tuple[Callable[[Counter], bool], ...] = (
    lambda curve: curve.name == ALLOCATED and not (curve.device or "cpu").lower().startswith("cpu"),
    lambda curve: curve.name == ALLOCATED,
    lambda curve: curve.name == PROCESS_MEMORY.name,
)
"""The first that all runs have: allocations on accelerators, allocations, memory of the process."""


def memory_of(baseline: Sequence[Run], candidate: Sequence[Run]) -> OfRank:
    """Return what measures memory.

    Raises:
        ConfigurationError: No sort of it was recorded on both sides.
    """
    curves = {id(run): counters(run) for run in (*baseline, *candidate)}
    for wanted in _SORTS:
        if all(any(map(wanted, found)) for found in curves.values()):
            return partial(_peaks, curves=curves, wanted=wanted)
    msg = (
        "Memory cannot be judged: allocations, or the memory of the process, must have been recorded in all runs. "
        "Record with Profiler(profile_memory=True), or leave `hardware_hz` above 0."
    )
    raise ConfigurationError(msg)


def _peaks(
    run: Run, times: StepTimes, *, curves: dict[int, Sequence[Counter]], wanted: Callable[[Counter], bool]
) -> Values:
    """Return the highest of the curves in each step."""
    own = [_peak(curve, times) for curve in curves[id(run)] if curve.rank == times.rank and wanted(curve)]
    if not own:
        return Values(times.step[:0], np.zeros(0))
    highest = np.max(own, axis=0)
    known = np.isfinite(highest)
    return Values(times.step[known], highest[known])


def _peak(curve: Counter, times: StepTimes) -> Sequence[float]:
    """Return the highest value in each step, or the last one before it."""
    first = np.maximum(np.searchsorted(curve.time_ns, times.start_ns, side="right") - 1, 0)
    end = np.searchsorted(curve.time_ns, times.end_ns, side="right")
    return [float(curve.value[a:b].max()) if b > a else float("nan") for a, b in zip(first, end, strict=True)]
