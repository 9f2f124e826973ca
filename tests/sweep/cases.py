"""The cases of a sweep: which training gets which signal, and when. All of it follows from a seed and a number."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from signal import Signals

FRAMEWORKS = ("torch", "tensorflow", "mindspore")
DELIVERIES = ("immediate", "deferred")
SIGNALS = (Signals.SIGKILL, Signals.SIGTERM, Signals.SIGINT)
COMBINATIONS = tuple(itertools.product(FRAMEWORKS, DELIVERIES, SIGNALS))
STAGES = ("import", "first cycle", "steady state", "end of a cycle", "stop")

STEPS = 27
"""Of a training that gets a signal: six cycles, and a seventh that `stop()` finds in the middle of recording."""


class Span(Enum):
    """What the delay of a signal is a part of. All but the second are measured, so no machine is too slow or fast."""

    SECOND = "one second"
    IMPORT = "the import of the framework, as long as the control took"
    CYCLE = "a cycle, as long as the one before"
    PAUSE = "the call of `step()` that ends a cycle, as long as the one before"
    STOP = "the call of `stop()`, as long as the ends of the cycles that it has to deliver"


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When a signal is sent: some time after the program has reported something, or after its start.

    Attributes:
        after: What it has reported; None for its start.
        occurrence: How often it has reported that before.
        part: How much of the span goes by until the signal is sent.
        span: What it is a part of.
    """

    after: str | None = None
    occurrence: int = 0
    part: float = 0.0
    span: Span = Span.SECOND


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training that gets a signal.

    Attributes:
        stage: The part of the training that the signal is aimed at.
        read_first: Whether the run is read before the program runs again, too.
    """

    seed: int
    number: int
    framework: str
    deliver: str
    signal: Signals
    stage: str
    moment: Moment
    read_first: bool

    @property
    def command(self) -> str:
        """The command that repeats this case alone."""
        return f"python -m tests.sweep --seed {self.seed} --only {self.number} --keep"

    def __str__(self) -> str:
        aim = f"{self.stage} {self.moment.occurrence or ''} +{self.moment.part:.3g} {self.moment.span.name.lower()}"
        return f"{self.number:3d} {self.framework:11}{self.deliver:10}{self.signal.name:8}{aim}"


def case_of(seed: int, number: int) -> Case:
    """Return a case. Each round of 18 has all combinations of framework, delivery and signal."""
    chosen = random.Random(f"{seed}:{number}")  # noqa: S311  repeatable choices, no secrets
    framework, deliver, signal = COMBINATIONS[number % len(COMBINATIONS)]
    stage = chosen.choice(STAGES)
    return Case(
        seed=seed,
        number=number,
        framework=framework,
        deliver=deliver,
        signal=signal,
        stage=stage,
        moment=_moment(stage, chosen),
        read_first=chosen.random() < 0.5,
    )


def batches(cases: Iterable[Case]) -> list[list[Case]]:
    """Group cases of one round and one framework: the run that follows theirs is one process, the readers are one."""

    def key(case: Case) -> tuple[int, str]:
        return case.number // len(COMBINATIONS), case.framework

    return [list(group) for _, group in itertools.groupby(sorted(cases, key=lambda case: case.number), key)]


def _moment(stage: str, chosen: random.Random) -> Moment:
    """Choose a moment of a stage: any is as likely as another, and a few are just after the end of it.

    How long the first cycle takes is unknown, so 1 ms into it is as likely as 1 s.
    """
    part, cycle = chosen.uniform(0.0, 1.1), chosen.randrange(1, STEPS // 4)
    if stage == "import":
        return Moment(part=1.5 * part, span=Span.IMPORT)  # that of the profiler and `start()` follow
    if stage == "first cycle":
        return Moment(after="started", part=10 ** (4 * part - 4))
    if stage == "steady state":
        return Moment(after="ended cycle", occurrence=cycle, part=part, span=Span.CYCLE)
    if stage == "end of a cycle":
        return Moment(after="ending cycle", occurrence=cycle, part=part, span=Span.PAUSE)
    return Moment(after="stopping", part=part, span=Span.STOP)
