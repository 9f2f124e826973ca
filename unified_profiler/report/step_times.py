"""Start and end times of all steps of a run, recorded or not, from the run's step table or else from its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import ints
from unified_profiler.model.nesting import Ints, is_kind
from unified_profiler.model.run import Run
from unified_profiler.model.schema import Kind
from unified_profiler.schedule import Phase

PHASES = (Phase.IDLE, Phase.WARMUP, Phase.RECORD)
"""In the order of `StepTimes.phase`."""
IDLE, RECORD = PHASES.index(Phase.IDLE), PHASES.index(Phase.RECORD)


@dataclass(frozen=True)
class StepTimes:
    """The steps of one rank, in order."""

    rank: int
    step: Ints
    start_ns: Ints
    end_ns: Ints
    phase: Ints
    """Indices into `PHASES`."""

    @property
    def duration_ns(self) -> Ints:
        """Duration of each step."""
        return self.end_ns - self.start_ns

    @property
    def unrecorded(self) -> Ints:
        """Durations of the unrecorded steps, without the first step, which initializes, unless it is the only one."""
        idle = np.flatnonzero(self.phase == IDLE)
        durations: Ints = self.duration_ns[idle[1:] if len(idle) > 1 and idle[0] == 0 else idle]
        return durations

    @property
    def recorded(self) -> Ints:
        """Durations of the recorded steps."""
        recorded: Ints = self.duration_ns[self.phase == RECORD]
        return recorded


def step_times(run: Run) -> Sequence[StepTimes]:
    """Return the steps of each rank."""
    return [_rank_steps(run.select(rank=rank), rank) for rank in run.ranks]


def _rank_steps(run: Run, rank: int) -> StepTimes:
    return _from_table(run.steps, rank) if run.steps is not None and len(run.steps) else _from_events(run, rank)


def _from_table(steps: pa.Table, rank: int) -> StepTimes:
    phases = {phase.value: index for index, phase in enumerate(PHASES)}
    phase = np.array([phases[text] for text in steps.column("phase").to_pylist()], np.int64)
    return StepTimes(rank, ints(steps, "step"), ints(steps, "start_ns"), ints(steps, "end_ns"), phase)


def _from_events(run: Run, rank: int) -> StepTimes:
    """Return the steps of a run without a step table, such as one read from a file of another program."""
    tables = [trace.events for trace in run.traces]
    rows = [table.filter(pa.array(is_kind(table, Kind.STEP))) for table in tables]
    if not sum(map(len, rows)):
        return StepTimes(rank, *[np.zeros(0, np.int64)] * 4)
    steps = pa.concat_tables([table.select(["step", "start_ns", "duration_ns"]) for table in rows]).sort_by("start_ns")
    start = ints(steps, "start_ns")
    return StepTimes(
        rank, ints(steps, "step"), start, start + ints(steps, "duration_ns"), np.full(len(steps), RECORD, np.int64)
    )
