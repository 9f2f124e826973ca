"""Finds a step that took most of the recorded time, and the median self time of operators per step instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from unified_profiler.analysis import Result, op_table
from unified_profiler.model.run import Run
from unified_profiler.report.records import DominatingStep
from unified_profiler.report.step_times import RECORD, StepTimes

_LEAST_SHARE = 0.5
"""A step dominates if it took more than this share of the recorded time of its rank."""
_LEAST_RATIO = 5
"""It must also exceed this multiple of the median: one of three steps may take half the time without standing out."""
_FEWEST_STEPS = 3
"""With fewer there is no typical step."""


def dominating_step(times: Sequence[StepTimes]) -> DominatingStep | None:
    """Return the step with the largest share of its rank's time; None if no step dominates."""
    steps = [step for step in map(_longest, times) if step is not None and step.share > _LEAST_SHARE]
    return max(steps, key=lambda step: step.share, default=None)


def _longest(times: StepTimes) -> DominatingStep | None:
    rows = np.flatnonzero(times.phase == RECORD)
    durations = times.duration_ns[rows]
    if len(rows) < _FEWEST_STEPS or durations.max() <= _LEAST_RATIO * np.median(durations):
        return None
    row = rows[durations.argmax()]
    share = float(durations.max() / durations.sum())
    return DominatingStep(rank=times.rank, step=int(times.step[row]), share=share)


def median_self_times(run: Run, key: str, *, step_count: int) -> dict[Any, int]:
    """Return the host self time per step of each operator or category, as the median of all recorded steps."""
    rows: Result = op_table(run, by=(key, "rank", "cycle", "step"))
    spent: dict[Any, list[int]] = defaultdict(list)
    for row in rows.rows:
        if row.step is not None:
            spent[getattr(row, key)].append(row.self_cpu_ns)
    return {name: int(np.median([*times, *[0] * (step_count - len(times))])) for name, times in spent.items()}
