"""Estimates the overhead of recording from recorded and unrecorded step times of a rank, if they are comparable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.nesting import Ints
from unified_profiler.model.records import Overhead, OverheadUnclear
from unified_profiler.schedule import Phase

FEWEST_STEPS = 5
"""Least number of unrecorded steps for a meaningful median."""
_LARGEST_FALL = 0.5
"""Allowed decrease of step times within either group, as a share of the difference between the groups."""
_SIGNIFICANT_Z = 1.645
"""One-sided, at a significance level of 5 %."""
_MOST_POINTS = 100
"""Longer series are reduced to the medians of this many segments, because the slope takes all pairs."""


def overhead_of(steps: pa.Table) -> Overhead:
    """Compare the recorded steps of a rank with its unrecorded ones.

    The very first step, which initializes the program, counts only if it is the only unrecorded one.
    """
    duration = pc.subtract(steps.column("end_ns"), steps.column("start_ns")).to_numpy()
    phase = steps.column("phase")
    idle = duration[pc.equal(phase, Phase.IDLE.value).to_numpy()]
    if len(idle) > 1 and phase[0].as_py() == Phase.IDLE.value:
        idle = idle[1:]
    recorded = duration[pc.equal(phase, Phase.RECORD.value).to_numpy()]
    return Overhead(
        unrecorded_step_ns=_median(idle),
        recorded_step_ns=_median(recorded),
        unrecorded_step_count=len(idle),
        unclear=_unclear(idle, recorded),
    )


def _unclear(unrecorded: Ints, recorded: Ints) -> OverheadUnclear | None:
    """Return why the difference between the groups does not show the cost of recording; None if it does."""
    if len(unrecorded) < FEWEST_STEPS or not len(recorded):
        return "few_steps"
    trends = [_Trend.of(unrecorded), _Trend.of(recorded)]
    if np.percentile(recorded, 25) <= np.percentile(unrecorded, 75):
        return "falling" if any(trend.is_significant for trend in trends) else "scatter"
    difference = float(np.median(recorded)) - float(np.median(unrecorded))
    return "falling" if max(trend.fall_ns for trend in trends) > _LARGEST_FALL * difference else None


@dataclass(frozen=True)
class _Trend:
    """The decrease of step times from the first to the last, by the Theil-Sen slope (Sen 1968)."""

    fall_ns: float
    z: float
    """Statistic of the Mann-Kendall test (Mann 1945, Kendall 1975), positive for falling times."""

    @property
    def is_significant(self) -> bool:
        return self.z > _SIGNIFICANT_Z

    @classmethod
    def of(cls, durations: Ints) -> _Trend:
        values = _reduced(durations)
        count = len(values)
        if count < 2:
            return cls(0.0, 0.0)
        first, second = np.triu_indices(count, 1)
        falls = values[first] - values[second]
        score = max(float(np.sign(falls).sum()) - 1, 0.0)  # minus one: the continuity correction
        return cls(
            fall_ns=float(np.median(falls / (second - first))) * (count - 1),
            z=score / float(np.sqrt(count * (count - 1) * (2 * count + 5) / 18)),
        )


def _reduced(durations: Ints) -> npt.NDArray[np.float64]:
    segments = np.array_split(durations, min(len(durations), _MOST_POINTS)) if len(durations) else []
    return np.array([np.median(segment) for segment in segments])


def _median(values: Ints) -> int | None:
    return int(np.median(values)) if len(values) else None
