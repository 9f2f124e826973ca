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
_STEADY_RATIO = 1.2
"""Step times are steady up to this multiple of the median of the last half of the unrecorded steps."""


def overhead_of(steps: pa.Table) -> Overhead:
    """Compare the recorded steps of a rank with its unrecorded ones.

    The very first step, which initializes the program, counts only if it is the only unrecorded one.
    """
    duration = pc.subtract(steps.column("end_ns"), steps.column("start_ns")).to_numpy()
    phase = steps.column("phase")
    is_idle, is_recorded = (np.array(pc.equal(phase, each.value)) for each in (Phase.IDLE, Phase.RECORD))
    if is_idle.sum() > 1:
        is_idle[:1] = False
    idle, recorded = duration[is_idle], duration[is_recorded]
    unclear = _unclear(idle, recorded)
    number = steps.column("step").to_numpy()
    steady = _steady_step(number[is_idle], idle) if unclear == "falling" else None
    return Overhead(
        unrecorded_step_ns=_median(idle),
        recorded_step_ns=_median(recorded),
        unrecorded_step_count=len(idle),
        unclear=unclear,
        steady_step=steady if steady is not None and steady > number[is_recorded][0] else None,
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


def _steady_step(number: Ints, unrecorded: Ints) -> int | None:
    """Return the unrecorded step that follows the last slow ones; None if too few follow to record later.

    Slow are steps that are so in the median of `FEWEST_STEPS`: a single slow step, such as a checkpoint, is no warm-up.
    """
    windows = np.lib.stride_tricks.sliding_window_view(unrecorded, FEWEST_STEPS)
    level = float(np.median(unrecorded[len(unrecorded) // 2 :]))
    slow = np.flatnonzero(np.median(windows, axis=1) > _STEADY_RATIO * level)
    first = int(slow[-1]) + 1 + FEWEST_STEPS // 2 if len(slow) else 0
    return int(number[first]) if len(number) - first >= 2 * FEWEST_STEPS else None


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
