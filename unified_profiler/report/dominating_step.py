"""A step that took most of the recorded time, and operators by what they take in a usual step instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from unified_profiler.analysis import Result, op_table
from unified_profiler.model.run import Run
from unified_profiler.report.records import DominatingStep
from unified_profiler.report.step_times import RECORD, StepTimes

_MOST = 0.5
"""Part of the recorded time of a rank from which on one step dominates it."""
_SLOW = 5
"""Times the median that it must have taken: of three steps, one may take half of the time without standing out."""
_FEWEST_STEPS = 3
"""With fewer there is no usual step."""


def dominating_step(times: Sequence[StepTimes]) -> DominatingStep | None:
    """Return the step that dominates its rank most; None if none does."""
    found = [step for step in map(_longest, times) if step is not None and step.share > _MOST]
    return max(found, key=lambda step: step.share, default=None)


def _longest(times: StepTimes) -> DominatingStep | None:
    rows = np.flatnonzero(times.phase == RECORD)
    durations = times.duration_ns[rows]
    if len(rows) < _FEWEST_STEPS or durations.max() <= _SLOW * np.median(durations):
        return None
    row = rows[durations.argmax()]
    share = float(durations.max() / durations.sum())
    return DominatingStep(rank=times.rank, step=int(times.step[row]), share=share)


def self_time_of_a_step(run: Run, key: str, *, step_count: int) -> dict[Any, int]:
    """Return the self time on the host that each operator or category takes in a step, median of all recorded steps."""
    rows: Result = op_table(run, by=(key, "rank", "cycle", "step"))
    spent: dict[Any, list[int]] = defaultdict(list)
    for row in rows.rows:
        if row.step is not None:
            spent[getattr(row, key)].append(row.self_cpu_ns)
    return {name: int(np.median([*times, *[0] * (step_count - len(times))])) for name, times in spent.items()}
