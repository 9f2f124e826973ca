"""The cases of a sweep: which training gets which signal, and when. All of it follows from a seed and a number."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass
from signal import Signals

FRAMEWORKS = ("torch", "tensorflow", "mindspore")
DELIVERIES = ("immediate", "deferred")
SIGNALS = (Signals.SIGKILL, Signals.SIGTERM, Signals.SIGINT)
COMBINATIONS = tuple(itertools.product(FRAMEWORKS, DELIVERIES, SIGNALS))
STAGES = ("import", "first cycle", "steady state", "end of a cycle", "stop")

STEPS = 27
"""Of a training that gets a signal: six cycles, and a seventh that `stop()` finds in the middle of recording."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When a signal is sent: some time after the program has reported something, or after its start.

    Attributes:
        after: What it has reported; None for its start.
        occurrence: How often it has reported that before.
        delay: Seconds from then on; after the start a fraction of the time that the import of the framework takes.
    """

    after: str | None = None
    occurrence: int = 0
    delay: float = 0.0


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
        aim = f"{self.stage} (+{self.moment.delay:.4f})"
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
    """Choose a moment. How long a stage takes is unknown, so 0.1 ms into it is as likely as 0.1 s."""
    delay = 10 ** chosen.uniform(-4, 0)
    if stage == "import":
        return Moment(delay=chosen.random())
    if stage == "first cycle":
        return Moment(after="started", delay=delay)
    if stage == "steady state":
        return Moment(after="step", occurrence=chosen.randrange(4, STEPS), delay=delay / 10)
    if stage == "end of a cycle":
        return Moment(after="ending cycle", occurrence=chosen.randrange(STEPS // 4), delay=delay / 2)
    return Moment(after="stopping", delay=delay)
