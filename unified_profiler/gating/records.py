"""What a gate says: frozen records, printed as JSON as they are."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from pydantic import Field

from unified_profiler.model.records import Record
from unified_profiler.model.statements import Statement

Kind: TypeAlias = Literal["operator", "region", "api", "rank", "outside"]
StepSort: TypeAlias = Literal["recorded", "unrecorded"]


class Verdict(str, Enum):
    """What a gate decides."""

    WITHIN = "within"
    REGRESSION = "regression"
    CANNOT_TELL = "cannot_tell"

    @property
    def exit_code(self) -> int:
        """How the command ends."""
        return (Verdict.WITHIN, Verdict.REGRESSION, Verdict.CANNOT_TELL).index(self)


class Level(Record):
    """One side of a judgment."""

    value: float | None
    """Lower quartile of the steps, as load only ever adds time, or peak of memory: the middle of all blocks or runs.

    None where there was no step.
    """
    step_count: int
    """Steps that counted."""
    run_count: int


class Contribution(Record):
    """Something that takes longer in the candidate."""

    kind: Kind
    name: str
    baseline_ns: float
    candidate_ns: float
    difference_ns: float
    """In a step: lower quartiles, as in the verdict."""
    share: float
    """Part of all that takes longer."""
    differs: bool = False
    """Whether `diff` marks it by itself: larger than the bound and than the noise."""


class Judgment(Record):
    """One metric."""

    metric: str
    verdict: Verdict
    reason: Statement
    unit: Literal["ns", "bytes"]
    steps: StepSort
    baseline: Level
    candidate: Level
    ratio: float | None = None
    """Candidate over baseline, of the lower quartiles."""
    ratio_low: float | None = None
    """It is larger than this, with 95 % confidence."""
    ratio_high: float | None = None
    """It is smaller than this, with 95 % confidence."""
    paired: bool = False
    """Whether runs were taken in turn and are compared one by one with their neighbors."""
    needed_step_count: int | None = None
    """Steps of each side that would have told, by how the noise falls with their number; None if that is not known."""
    needed_run_count: int | None = None
    """Runs of each side, taken in turn, that would have told."""
    contributions: tuple[Contribution, ...] = ()
    """What makes up a regression, the largest first."""


class SideOfGate(Record):
    """The runs of one side."""

    names: tuple[str, ...]
    frameworks: dict[str, str] = Field(default_factory=dict)
    ranks: tuple[int, ...] = ()


class GateRecord(Record):
    """The verdict over all metrics."""

    verdict: Verdict
    max_regression: float
    baseline: SideOfGate
    candidate: SideOfGate
    judgments: tuple[Judgment, ...]
    notices: tuple[Statement, ...] = ()
