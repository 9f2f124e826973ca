"""Result records of a gate: frozen, and printed as JSON without conversion."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from pydantic import Field

from unified_profiler.model.records import Record
from unified_profiler.model.statements import Statement

ContributionKind: TypeAlias = Literal["operator", "region", "api", "rank", "uncovered"]
StepSelection: TypeAlias = Literal["recorded", "unrecorded"]


class Verdict(str, Enum):
    """The decision of a gate."""

    WITHIN = "within"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> int:
        """Exit code of the command."""
        return list(Verdict).index(self)


class Measurement(Record):
    """The measured value of one side of a judgment."""

    value: float | None
    """Lower quartile of the step times, since load only adds time, or peak memory: median of all blocks or runs.

    None without steps.
    """
    step_count: int
    """Number of steps measured."""
    run_count: int


class Contribution(Record):
    """An operator, region, API call or rank that takes longer in the candidate."""

    kind: ContributionKind
    name: str
    baseline_ns: float
    candidate_ns: float
    difference_ns: float
    """Per step: difference of lower quartiles, as in the verdict."""
    share: float
    """Share of the sum of all increases."""
    differs: bool = False
    """Whether `diff` marks it: above the threshold and the noise."""


class Judgment(Record):
    """The verdict on one metric."""

    metric: str
    verdict: Verdict
    reason: Statement
    unit: Literal["ns", "bytes"]
    steps: StepSelection
    baseline: Measurement
    candidate: Measurement
    ratio: float | None = None
    """Candidate over baseline, of the lower quartiles."""
    ratio_low: float | None = None
    """Lower bound of the ratio, with 95 % confidence."""
    ratio_high: float | None = None
    """Upper bound of the ratio, with 95 % confidence."""
    paired: bool = False
    """Whether runs were recorded in turn and compared pair by pair."""
    needed_step_count: int | None = None
    """Steps per side for a conclusive verdict, estimated from how noise falls with their number; None if unknown."""
    needed_run_count: int | None = None
    """Runs per side, recorded in turn, for a conclusive verdict."""
    contributions: tuple[Contribution, ...] = ()
    """Causes of a regression, largest first."""


class GateSide(Record):
    """The runs of one side."""

    names: tuple[str, ...]
    frameworks: dict[str, str] = Field(default_factory=dict)
    ranks: tuple[int, ...] = ()


class GateRecord(Record):
    """The verdict over all metrics."""

    verdict: Verdict
    max_regression: float
    baseline: GateSide
    candidate: GateSide
    judgments: tuple[Judgment, ...]
    notices: tuple[Statement, ...] = ()
