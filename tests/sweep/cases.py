"""The cases of a sweep: which training gets which signal, and when. All of it follows from a seed and a number."""

from __future__ import annotations

import random
from dataclasses import dataclass
from signal import Signals

FRAMEWORKS = ("torch", "tensorflow", "mindspore")
DELIVERIES = ("immediate", "deferred")
SIGNALS = (Signals.SIGKILL, Signals.SIGTERM, Signals.SIGINT)
STAGES = ("import", "first cycle", "steady state", "end of a cycle", "stop")

STEPS = 27
"""Of a training that gets a signal: six cycles and a seventh that `stop()` finds in the middle of recording."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When a signal is sent: some time after the program has reported something, or after it was started.

    The times are relative to a stage of unknown length, so they are log-uniform: a tenth of a millisecond after an
    event is as likely as a tenth of a second.
    """

    after: str | None = None
    occurrence: int = 0
    delay: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training that gets a signal.

    Attributes:
        stage: The part of the training that the signal is aimed at.
        moment: When it is sent. In the import the delay is a fraction of the time that an import takes.
        read_first: Whether the run is read before the program runs again, or after that.
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

    @property
    def combination(self) -> tuple[str, str, Signals]:
        """What the table of outcomes has a cell for."""
        return self.framework, self.deliver, self.signal

    def __str__(self) -> str:
        where = "before" if self.moment.after is None else f"after '{self.moment.after}' {self.moment.occurrence}"
        return f"{self.number:3d} {self.framework} {self.deliver} {self.signal.name}, {self.stage} ({where})"


def case_of(seed: int, number: int) -> Case:
    """Return a case. Every 18 cases in a row have all combinations of framework, delivery and signal."""
    random_ = random.Random(f"{seed}:{number}")  # noqa: S311  repeatable choices, no secrets
    delivery = number // len(FRAMEWORKS) % len(DELIVERIES)
    stage = random_.choice(STAGES)
    return Case(
        seed=seed,
        number=number,
        framework=FRAMEWORKS[number % len(FRAMEWORKS)],
        deliver=DELIVERIES[delivery],
        signal=SIGNALS[(number + number // 6 + delivery) % len(SIGNALS)],
        stage=stage,
        moment=_moment(stage, random_),
        read_first=random_.random() < 0.5,
    )


def _moment(stage: str, random_: random.Random) -> Moment:
    delay = 10 ** random_.uniform(-4, 0)
    if stage == "import":
        return Moment(delay=random_.random())
    if stage == "first cycle":
        return Moment(after="started", delay=delay)
    if stage == "steady state":
        return Moment(after="step", occurrence=random_.randrange(4, STEPS), delay=delay / 10)
    if stage == "end of a cycle":
        return Moment(after="ending cycle", occurrence=random_.randrange(STEPS // 4), delay=delay / 2)
    return Moment(after="stopping", delay=delay)
