"""One value per step of a job: what counts of a run, and how ranks become one series."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unified_profiler.comparison.noise import Times
from unified_profiler.gating.records import StepSort
from unified_profiler.model.nesting import Ints
from unified_profiler.model.run import Run
from unified_profiler.report.step_times import IDLE, PHASES, RECORD, StepTimes, step_times
from unified_profiler.schedule import Phase

_WARMUP = PHASES.index(Phase.WARMUP)
_OPENING_SHARE = 0.1
"""Part of the steps of a run that may still be building things."""
_LONGEST_OPENING = 10


@dataclass(frozen=True)
class Values:
    """Values of one rank by the numbers of its steps."""

    step: Ints
    value: Times


OfRank: TypeAlias = Callable[[Run, StepTimes], Values]
"""Takes the steps that count, and gives their values."""


@dataclass(frozen=True)
class Sample:
    """One side: for each of its runs a value per step of the job."""

    runs: tuple[Times, ...]
    by_rank: tuple[dict[int, Times], ...]
    """The same before the slowest rank was chosen."""

    @property
    def step_count(self) -> int:
        """Steps that count, of all runs."""
        return sum(map(len, self.runs))

    @property
    def together(self) -> Times:
        """The steps of all runs."""
        return np.concatenate(self.runs)


def sample(runs: Iterable[Run], steps: StepSort, of_rank: OfRank) -> Sample:
    """Measure the steps that count: in each step of the job, its slowest rank is what all others wait for."""
    ranks = [{times.rank: of_rank(run, counting(times, steps)) for times in step_times(run)} for run in runs]
    return Sample(
        runs=tuple(_slowest(list(each.values())) for each in ranks),
        by_rank=tuple({rank: values.value for rank, values in each.items()} for each in ranks),
    )


def durations(run: Run, times: StepTimes) -> Values:  # noqa: ARG001  of the sort that `sample` asks for
    """Return the wall time of each step."""
    return Values(times.step, times.duration_ns.astype(np.float64))


def counting(times: StepTimes, steps: StepSort) -> StepTimes:
    """Return the steps that count: no opening steps, and none in which a recording begins or is delivered."""
    phase = IDLE if steps == "unrecorded" else RECORD
    before = np.concatenate([times.phase[:1], times.phase[:-1]])
    steady = (before == phase) | (before == _WARMUP) if phase == RECORD else before == phase
    opening = max(min(int(len(times.step) * _OPENING_SHARE), _LONGEST_OPENING), 1)
    kept = steady & (times.phase == phase) & (np.arange(len(times.step)) >= opening)
    return StepTimes(times.rank, times.step[kept], times.start_ns[kept], times.end_ns[kept], times.phase[kept])


def _slowest(ranks: list[Values]) -> Times:
    """Return the largest value of each step that all ranks have."""
    steps = np.concatenate([values.step for values in ranks] or [np.zeros(0, np.int64)])
    distinct, place, count = np.unique(steps, return_inverse=True, return_counts=True)
    largest = np.zeros(len(distinct))
    np.maximum.at(largest, place.reshape(-1), np.concatenate([values.value for values in ranks] or [np.zeros(0)]))
    chosen: Times = largest[count == len(ranks)]
    return chosen
