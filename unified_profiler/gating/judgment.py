"""From the steps of both sides to a verdict on one metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unified_profiler.comparison.noise import SMALLEST_SHARE
from unified_profiler.gating.contributions import Sides, contributions, machine_drift, rank_contributions
from unified_profiler.gating.intervals import FEWEST_PAIRS, Interval, Statistic, paired, typical, unpaired
from unified_profiler.gating.metrics import Metric
from unified_profiler.gating.records import Contribution, Judgment, Level, StepSort, Verdict
from unified_profiler.gating.series import Sample, durations, sample
from unified_profiler.model.statements import Statement, Value
from unified_profiler.presentation.texts import shown_amount
from unified_profiler.presentation.units import format_time

FEWEST_STEPS = 20
"""Of each side; with fewer, noise cannot be told from a change."""
_FEWEST_OF_A_RUN = 5
_MOST_TIMES = 100
"""More steps or runs than so many times those at hand are no advice."""


@dataclass(frozen=True)
class Case:
    """One metric of both sides."""

    metric: Metric
    sides: Sides
    steps: StepSort
    baseline: Sample
    candidate: Sample
    in_turn: bool
    """Whether runs of the sides were taken in turn."""

    @property
    def step_count(self) -> int:
        """Steps of the side that has fewer."""
        return min(self.baseline.step_count, self.candidate.step_count)

    @property
    def run_count(self) -> int:
        """Runs of the side that has fewer."""
        return min(len(self.baseline.runs), len(self.candidate.runs))

    @property
    def paired(self) -> bool:
        """Whether there are enough pairs of runs taken in turn, each with enough steps."""
        runs = (*self.baseline.runs, *self.candidate.runs)
        return self.in_turn and self.run_count >= FEWEST_PAIRS and min(map(len, runs)) >= _FEWEST_OF_A_RUN

    @cached_property
    def statistics(self) -> Sequence[Statistic]:
        """What is compared of blocks and runs."""
        return self.metric.statistics(np.concatenate([self.baseline.together, self.candidate.together]))

    @cached_property
    def interval(self) -> Interval:
        """How far the sides are apart."""
        if self.paired:
            return paired(self.baseline.runs, self.candidate.runs, self.statistics)
        return unpaired(self.baseline.runs, self.candidate.runs, self.statistics, between=self.metric.between)

    def level(self, side: Sample) -> Level:
        """Return what a side takes."""
        value = typical(side.runs, self.statistics[0], as_a_whole=self.paired) if side.step_count else None
        return Level(value=value, step_count=side.step_count, run_count=sum(map(bool, map(len, side.runs))))

    @property
    def least(self) -> float:
        """The smallest change that is worth a word: of what is part of a step, also half a percent of the step."""
        if self.metric.kind in {"step", "memory"}:
            return self.metric.least
        whole = sample(self.sides.baseline, "recorded", durations).together
        return max(self.metric.least, SMALLEST_SHARE * float(np.median(whole)))


def case_of(metric: Metric, sides: Sides, *, in_turn: bool) -> Case:
    """Measure both sides: unrecorded steps if both have enough of them, else recorded ones, never both."""
    sorts: tuple[StepSort, ...] = ("unrecorded", "recorded") if metric.kind == "step" else ("recorded",)
    cases = [
        Case(
            metric,
            sides,
            steps,
            sample(sides.baseline, steps, metric.of_rank),
            sample(sides.candidate, steps, metric.of_rank),
            in_turn,
        )
        for steps in sorts
    ]
    enough = [case for case in cases if case.step_count >= FEWEST_STEPS]
    return enough[0] if enough else max(cases, key=lambda case: case.step_count)


def judge(case: Case, max_regression: float) -> Judgment:
    """Decide one metric."""
    if case.step_count < FEWEST_STEPS:
        needed = {"needed_step_count": FEWEST_STEPS}
        return _judgment(case, Verdict.CANNOT_TELL, "few_steps", max_regression, needed)
    interval, limit = case.interval, math.log1p(max_regression)
    if interval.high <= limit:
        return _judgment(case, Verdict.WITHIN, "within", max_regression)
    if interval.low <= limit:
        return _undecided(case, max_regression, limit)
    if _change(case) < case.least:
        return _judgment(case, Verdict.WITHIN, "too_small", max_regression)
    doubt = _doubt(case, limit)
    if doubt is not None:
        return _judgment(case, Verdict.CANNOT_TELL, doubt, max_regression, {"needed_run_count": FEWEST_PAIRS})
    made = (*contributions(case.metric, case.sides), *_ranks(case))
    return _judgment(case, Verdict.REGRESSION, "regression", max_regression).model_copy(update={"contributions": made})


def _change(case: Case) -> float:
    value = case.level(case.baseline).value or 0.0
    return value * math.expm1(case.interval.estimate)


def _ranks(case: Case) -> tuple[Contribution, ...]:
    return () if case.metric.unit == "bytes" else rank_contributions(case.baseline, case.candidate)


def _doubt(case: Case, limit: float) -> str | None:
    """Say what speaks against a regression between runs that were not taken in turn, where the machine may differ."""
    if case.paired or case.metric.unit == "bytes":
        return None
    drift = machine_drift(case.sides)
    if drift is not None and case.interval.estimate - drift <= limit:
        return "machine"
    before, after = (sample(runs, "recorded", durations) for runs in (case.sides.baseline, case.sides.candidate))
    if case.steps == "recorded" or min(before.step_count, after.step_count) < _FEWEST_OF_A_RUN:
        return None
    quartiles = [case.statistics[0](side.together) for side in (before, after)]
    return "unconfirmed" if math.log(quartiles[1] / quartiles[0]) - (drift or 0.0) <= limit else None


def _undecided(case: Case, max_regression: float, limit: float) -> Judgment:
    """Say what would have told: more steps, or more runs where runs differ as a whole."""
    interval = case.interval
    apart = abs(interval.estimate - limit)
    room = apart - interval.between
    steps = _more(case.step_count, interval.width - interval.between, room)
    if steps is not None and not case.paired:
        return _judgment(case, Verdict.CANNOT_TELL, "noisy_steps", max_regression, {"needed_step_count": steps})
    runs = _more(case.run_count, interval.width, apart)
    if runs is None:
        return _judgment(case, Verdict.CANNOT_TELL, "at_the_bound", max_regression)
    runs = max(runs, FEWEST_PAIRS)
    needed = {"needed_run_count": runs, "needed_step_count": runs * math.ceil(case.step_count / case.run_count)}
    return _judgment(case, Verdict.CANNOT_TELL, "noisy_runs", max_regression, needed)


def _more(count: int, width: float, room: float) -> int | None:
    """Return how many would make an interval as narrow as there is room, since its width falls with their root."""
    if room <= 0 or not math.isfinite(width):
        return None
    times = (width / room) ** 2
    return max(math.ceil(count * times), count + 1) if times <= _MOST_TIMES else None


def _judgment(
    case: Case, verdict: Verdict, code: str, max_regression: float, needed: dict[str, int] | None = None
) -> Judgment:
    measured = case.step_count >= FEWEST_STEPS
    ratios: dict[str, float | None] = {"ratio": None, "ratio_low": None, "ratio_high": None}
    if measured:
        bounds = (case.interval.estimate, case.interval.low, case.interval.high)
        ratios = {name: _ratio(bound) for name, bound in zip(ratios, bounds, strict=True)}
    before, after = (case.level(side) for side in (case.baseline, case.candidate))
    values: dict[str, Value] = {
        "metric": case.metric.name,
        "baseline": shown(before.value, case.metric.unit),
        "candidate": shown(after.value, case.metric.unit),
        "step_count": case.step_count,
        "run_count": case.run_count,
        "limit_share": max_regression,
        **{f"{name.replace('ratio', 'change')}_share": _less_one(value) for name, value in ratios.items()},
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
        paired=measured and case.paired,
    ).model_copy(update={**ratios, **(needed or {})})


def shown(value: float | None, unit: str) -> str:
    """Return a time or an amount of memory as people read it."""
    if value is None:
        return "\u2013"
    return format_time(value) if unit == "ns" else shown_amount(value, unit)


def _ratio(logarithm: float) -> float | None:
    return math.exp(logarithm) if math.isfinite(logarithm) else None


def _less_one(value: float | None) -> float | None:
    return None if value is None else value - 1
