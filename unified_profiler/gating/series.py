"""Series of one value per step of a job: selects the steps to measure and combines the ranks of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unified_profiler.comparison.noise import Times
from unified_profiler.gating.records import StepSelection
from unified_profiler.model.nesting import Ints
from unified_profiler.model.run import Run
from unified_profiler.report.step_times import IDLE, PHASES, RECORD, StepTimes, step_times
from unified_profiler.schedule import Phase

_WARMUP = PHASES.index(Phase.WARMUP)
_STARTUP_SHARE = 0.1
"""Share of the steps of a run that may still initialize or compile."""
_LONGEST_STARTUP = 10


@dataclass(frozen=True)
class StepValues:
    """Values of one rank by step number."""

    step: Ints
    value: Times


Measure: TypeAlias = Callable[[Run, StepTimes], StepValues]
"""Returns the values of the given steps of one rank."""


@dataclass(frozen=True)
class Sample:
    """The values of one side: for each of its runs, one per step of the job."""

    runs: tuple[Times, ...]
    by_rank: tuple[dict[int, Times], ...]
    """The values of each rank, from which `runs` has the slowest per step."""

    @property
    def step_count(self) -> int:
        """Number of steps of all runs."""
        return sum(map(len, self.runs))

    @property
    def pooled(self) -> Times:
        """The values of all runs."""
        return np.concatenate(self.runs)


def sample(runs: Iterable[Run], steps: StepSelection, measure: Measure) -> Sample:
    """Measure the steady steps of runs; each step of a job takes the value of its slowest rank, which all wait for."""
    ranks = [{times.rank: measure(run, steady_steps(times, steps)) for times in step_times(run)} for run in runs]
    return Sample(
        runs=tuple(_slowest(list(each.values())) for each in ranks),
        by_rank=tuple({rank: values.value for rank, values in each.items()} for each in ranks),
    )


def step_durations(run: Run, times: StepTimes) -> StepValues:  # noqa: ARG001  a `Measure`
    """Return the wall time of each step."""
    return StepValues(times.step, times.duration_ns.astype(np.float64))


def steady_steps(times: StepTimes, steps: StepSelection) -> StepTimes:
    """Return the steps without the first ones of a run and those in which a recording starts or is delivered."""
    phase = IDLE if steps == "unrecorded" else RECORD
    before = np.concatenate([times.phase[:1], times.phase[:-1]])
    steady = (before == phase) | (before == _WARMUP) if phase == RECORD else before == phase
    startup = max(min(int(len(times.step) * _STARTUP_SHARE), _LONGEST_STARTUP), 1)
    kept = steady & (times.phase == phase) & (np.arange(len(times.step)) >= startup)
    return StepTimes(times.rank, times.step[kept], times.start_ns[kept], times.end_ns[kept], times.phase[kept])


def _slowest(ranks: list[StepValues]) -> Times:
    """Return the largest value of each step that all ranks have."""
    steps = np.concatenate([values.step for values in ranks] or [np.zeros(0, np.int64)])
    distinct, index, count = np.unique(steps, return_inverse=True, return_counts=True)
    largest = np.zeros(len(distinct))
    np.maximum.at(largest, index.reshape(-1), np.concatenate([values.value for values in ranks] or [np.zeros(0)]))
    common: Times = largest[count == len(ranks)]
    return common
