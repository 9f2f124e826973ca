"""Peak memory in use per step, from the kind of memory counter that both sides recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from unified_profiler.errors import ConfigurationError
from unified_profiler.gating.series import Measure, StepValues
from unified_profiler.model.run import Run
from unified_profiler.recording.hardware.counters import PROCESS_MEMORY
from unified_profiler.report.counters import ALLOCATED, Counter, counters
from unified_profiler.report.step_times import StepTimes

_COUNTER_KINDS: tuple[Callable[[Counter], bool], ...] = (
    lambda counter: counter.name == ALLOCATED and not (counter.device or "cpu").lower().startswith("cpu"),
    lambda counter: counter.name == ALLOCATED,
    lambda counter: counter.name == PROCESS_MEMORY.name,
)
"""In order of preference: allocations on accelerators, all allocations, process memory."""


def memory_measure(baseline: Sequence[Run], candidate: Sequence[Run]) -> Measure:
    """Return the function that measures memory, by the first kind of counter that all runs have.

    Raises:
        ConfigurationError: No kind of memory counter was recorded in all runs.
    """
    by_run = {id(run): counters(run) for run in (*baseline, *candidate)}
    for is_wanted in _COUNTER_KINDS:
        if all(any(map(is_wanted, each)) for each in by_run.values()):
            return partial(_peaks, by_run=by_run, is_wanted=is_wanted)
    msg = (
        "Memory cannot be judged: allocations or process memory must have been recorded in all runs. "
        "Record with Profiler(profile_memory=True), or leave `hardware_hz` above 0."
    )
    raise ConfigurationError(msg)


def _peaks(
    run: Run, times: StepTimes, *, by_run: dict[int, Sequence[Counter]], is_wanted: Callable[[Counter], bool]
) -> StepValues:
    """Return the highest value of the counters in each step."""
    peaks = [_peak(each, times) for each in by_run[id(run)] if each.rank == times.rank and is_wanted(each)]
    if not peaks:
        return StepValues(times.step[:0], np.zeros(0))
    highest = np.max(peaks, axis=0)
    known = np.isfinite(highest)
    return StepValues(times.step[known], highest[known])


def _peak(counter: Counter, times: StepTimes) -> Sequence[float]:
    """Return the highest value in each step, including the last sample before it."""
    first = np.maximum(np.searchsorted(counter.time_ns, times.start_ns, side="right") - 1, 0)
    end = np.searchsorted(counter.time_ns, times.end_ns, side="right")
    return [float(counter.value[a:b].max()) if b > a else float("nan") for a, b in zip(first, end, strict=True)]
