"""Judges one metric: measures the steps of both sides and turns the confidence interval into a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unified_profiler.comparison.noise import SMALLEST_SHARE
from unified_profiler.gating.contributions import Sides, contributions, machine_drift, rank_contributions
from unified_profiler.gating.intervals import (
    FEWEST_PAIRS,
    Interval,
    Statistic,
    paired_interval,
    typical_value,
    unpaired_interval,
)
from unified_profiler.gating.metrics import Metric
from unified_profiler.gating.records import Judgment, Measurement, StepSelection, Verdict
from unified_profiler.gating.series import Sample, sample, step_durations
from unified_profiler.model.statements import Statement, Value
from unified_profiler.presentation.texts import format_amount
from unified_profiler.presentation.units import format_time

FEWEST_STEPS = 20
"""Steps per side; with fewer, a change cannot be distinguished from noise."""
_FEWEST_STEPS_OF_RUN = 5
_LARGEST_DRIFT = 0.4
"""Slow-down that a slower or busier machine may explain; one that is certainly larger is a regression."""
_LARGEST_LOAD = 4.0
"""Slow-down that a busy machine may explain; no advice about the machine is given beyond it."""
_MOST_TIMES = 100
"""Suggest more steps or runs only up to this multiple of the recorded number."""


@dataclass(frozen=True)
class Case:
    """One metric, measured on both sides."""

    metric: Metric
    sides: Sides
    steps: StepSelection
    in_turn: bool
    """Whether runs of the two sides alternate in time."""
    baseline: Sample
    candidate: Sample

    @property
    def step_count(self) -> int:
        """Steps of the side that has fewer."""
        return min(self.baseline.step_count, self.candidate.step_count)

    @property
    def run_count(self) -> int:
        """Runs of the side that has fewer."""
        return min(len(self.baseline.runs), len(self.candidate.runs))

    @property
    def is_paired(self) -> bool:
        """Whether there are enough pairs of runs recorded in turn, each with enough steps."""
        runs = (*self.baseline.runs, *self.candidate.runs)
        return self.in_turn and self.run_count >= FEWEST_PAIRS and min(map(len, runs)) >= _FEWEST_STEPS_OF_RUN

    @cached_property
    def statistics(self) -> Sequence[Statistic]:
        """The statistics by which blocks and runs are compared."""
        return self.metric.statistics(np.concatenate([self.baseline.pooled, self.candidate.pooled]))

    @cached_property
    def interval(self) -> Interval:
        """The confidence interval of the log ratio."""
        runs = (self.baseline.runs, self.candidate.runs)
        if self.is_paired:
            return paired_interval(*runs, self.statistics)
        return unpaired_interval(*runs, self.statistics, run_deviation=self.metric.run_deviation)

    def measurement(self, side: Sample) -> Measurement:
        """Return the value of a side, and of how many steps and runs it is."""
        value = typical_value(side.runs, self.statistics[0], pooled=self.is_paired) if side.step_count else None
        return Measurement(value=value, step_count=side.step_count, run_count=sum(map(bool, map(len, side.runs))))

    @cached_property
    def recorded_change(self) -> float | None:
        """The log ratio of the recorded steps, if unrecorded ones are judged; None with too few recorded steps."""
        if self.steps == "recorded":
            return None
        before, after = (sample(runs, "recorded", step_durations) for runs in self.sides.both)
        if min(before.step_count, after.step_count) < _FEWEST_STEPS_OF_RUN:
            return None
        return math.log(self.statistics[0](after.pooled) / self.statistics[0](before.pooled))

    @property
    def smallest_change(self) -> float:
        """The smallest change that can be a regression; for parts of a step, also half a percent of the step."""
        if self.metric.kind in {"step", "memory"}:
            return self.metric.smallest_change
        steps = sample(self.sides.baseline, "recorded", step_durations).pooled
        return max(self.metric.smallest_change, SMALLEST_SHARE * float(np.median(steps)))


def case_of(metric: Metric, sides: Sides, *, in_turn: bool) -> Case:
    """Measure both sides: unrecorded steps if both have enough of them, else recorded ones, never a mix."""
    selections: tuple[StepSelection, ...] = ("unrecorded", "recorded") if metric.kind == "step" else ("recorded",)
    cases = [
        Case(metric, sides, steps, in_turn, *(sample(runs, steps, metric.measure) for runs in sides.both))
        for steps in selections
    ]
    enough = [case for case in cases if case.step_count >= FEWEST_STEPS]
    return enough[0] if enough else max(cases, key=lambda case: case.step_count)


def judge(case: Case, max_regression: float) -> Judgment:
    """Decide one metric."""
    if case.step_count < FEWEST_STEPS:
        return _judgment(case, Verdict.INCONCLUSIVE, "few_steps", max_regression, {"needed_step_count": FEWEST_STEPS})
    interval, limit = case.interval, math.log1p(max_regression)
    if interval.high <= limit:
        return _judgment(case, Verdict.WITHIN, "within", max_regression)
    if interval.low <= limit:
        return _inconclusive(case, max_regression, limit)
    change = (case.measurement(case.baseline).value or 0.0) * math.expm1(interval.estimate)
    if change < case.smallest_change:
        return _judgment(case, Verdict.WITHIN, "too_small", max_regression)
    objection = _objection(case, limit)
    is_beyond_machines = objection is not None and _least_change(case, objection) > math.log1p(_LARGEST_DRIFT)
    if objection is not None and not is_beyond_machines:
        return _judgment(case, Verdict.INCONCLUSIVE, objection, max_regression, {"needed_run_count": FEWEST_PAIRS})
    ranks = () if case.metric.unit == "bytes" else rank_contributions(case.baseline, case.candidate)
    causes = (*contributions(case.metric, case.sides), *ranks)
    may_be_busy = is_beyond_machines and interval.low <= math.log1p(_LARGEST_LOAD)
    code = "regression_of_most" if may_be_busy else "regression"
    return _judgment(case, Verdict.REGRESSION, code, max_regression).model_copy(update={"contributions": causes})


def _objection(case: Case, limit: float) -> str | None:
    """Return the code of the reason why a regression is doubtful, for runs not recorded in turn; None if it is not."""
    if case.is_paired or case.metric.unit == "bytes":
        return None
    drift = machine_drift(case.sides)
    if drift is not None and case.interval.estimate - drift <= limit:
        return "machine"
    recorded = case.recorded_change
    return "unconfirmed" if recorded is not None and recorded - (drift or 0.0) <= limit else None


def _least_change(case: Case, objection: str) -> float:
    """Return the log ratio that is certain in spite of an objection."""
    recorded = case.recorded_change if objection == "unconfirmed" else None
    return case.interval.low if recorded is None else min(case.interval.low, recorded)


def _inconclusive(case: Case, max_regression: float, limit: float) -> Judgment:
    """Suggest more steps, or more runs if whole runs differ."""
    interval = case.interval
    distance = abs(interval.estimate - limit)
    steps = _needed_count(case.step_count, interval.width - interval.between_runs, distance - interval.between_runs)
    if steps is not None and not case.is_paired:
        return _judgment(case, Verdict.INCONCLUSIVE, "noisy_steps", max_regression, {"needed_step_count": steps})
    runs = _needed_count(case.run_count, interval.width, distance)
    if runs is None:
        return _judgment(case, Verdict.INCONCLUSIVE, "at_the_bound", max_regression)
    runs = max(runs, FEWEST_PAIRS)
    needed = {"needed_run_count": runs, "needed_step_count": runs * math.ceil(case.step_count / case.run_count)}
    return _judgment(case, Verdict.INCONCLUSIVE, "noisy_runs", max_regression, needed)


def _needed_count(count: int, width: float, target_width: float) -> int | None:
    """Return the number of steps or runs that narrows the interval to the target: width falls with its square root."""
    if target_width <= 0 or not math.isfinite(width):
        return None
    factor = (width / target_width) ** 2
    return max(math.ceil(count * factor), count + 1) if factor <= _MOST_TIMES else None


def _judgment(
    case: Case, verdict: Verdict, code: str, max_regression: float, needed: dict[str, int] | None = None
) -> Judgment:
    has_interval = case.step_count >= FEWEST_STEPS
    interval = case.interval if has_interval else Interval(math.nan, math.nan, math.nan)
    bounds = {"ratio": interval.estimate, "ratio_low": interval.low, "ratio_high": interval.high}
    ratios = {name: math.exp(bound) if math.isfinite(bound) else None for name, bound in bounds.items()}
    before, after = (case.measurement(side) for side in (case.baseline, case.candidate))
    values: dict[str, Value] = {
        "metric": case.metric.name,
        "baseline": format_measured(before.value, case.metric.unit),
        "candidate": format_measured(after.value, case.metric.unit),
        "step_count": case.step_count,
        "run_count": case.run_count,
        "limit_share": max_regression,
        "change": format_change(ratios["ratio"]),
        "lowest_change": format_change(ratios["ratio_low"]),
        "highest_change": format_change(ratios["ratio_high"]),
        "recorded_change": format_change(None if case.recorded_change is None else math.exp(case.recorded_change)),
        **{
            f"{name.replace('ratio', 'change')}_share": None if ratio is None else ratio - 1
            for name, ratio in ratios.items()
        },
        **(needed or {}),
    }
    reason = Statement(code=code, level="info" if verdict is Verdict.WITHIN else "warning", values=values)
    return Judgment(
        metric=case.metric.name,
        verdict=verdict,
        reason=reason.with_text("gate"),
        unit=case.metric.unit,
        steps=case.steps,
        baseline=before,
        candidate=after,
        paired=has_interval and case.is_paired,
    ).model_copy(update={**ratios, **(needed or {})})


def format_change(ratio: float | None) -> str:
    """Format a ratio as a change with its sign; a dash if there is none."""
    return "\u2013" if ratio is None else f"{ratio - 1:+,.1%}"


def format_measured(value: float | None, unit: str) -> str:
    """Format a time or an amount of memory; a dash if there is none."""
    if value is None:
        return "\u2013"
    return format_time(value) if unit == "ns" else format_amount(value, unit)
