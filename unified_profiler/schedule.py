"""Schedules: immutable plans that assign a phase and a cycle to every step. Nothing here records or reads a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from unified_profiler.errors import ScheduleError
from unified_profiler.keywords import checked_keywords

FOREVER = 1 << 62
"""More steps than any training has."""


class Phase(Enum):
    """The profiler's state during a step."""

    IDLE = "idle"
    WARMUP = "warmup"
    RECORD = "record"


class Slot(NamedTuple):
    """The phase of a step and the cycle it belongs to."""

    phase: Phase
    cycle: int = 0


class Plan(Protocol):
    """Assigns a Slot to each step."""

    def at(self, step: int) -> Slot:
        """Return the slot of the given step, counted from 0."""
        ...

    def idle_from(self, step: int) -> int:
        """Return the number of consecutive steps, from this one on, that are certainly idle; 0 if this one is not."""
        ...


@checked_keywords
@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Cycles of wait, warmup and active steps, as in `torch.profiler.schedule`, which requires wait and warmup.

    Attributes:
        wait: Steps of each cycle in which nothing happens.
        warmup: Steps in which the native profiler runs and its result is discarded.
        active: Steps that are recorded.
        repeat: Number of cycles; 0 repeats until the end.
        skip_first: Steps before the first cycle.
        skip_first_wait: If not 0, the first cycle starts without its wait.
    """

    wait: int = 0
    warmup: int = 0
    active: int
    repeat: int = 0
    skip_first: int = 0
    skip_first_wait: int = 0

    def __post_init__(self) -> None:
        """Check the counts."""
        for name in ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait"):
            _check_count(name, getattr(self, name), least=1 if name == "active" else 0)

    @property
    def cycle_length(self) -> int:
        """Number of steps in a cycle."""
        return self.wait + self.warmup + self.active

    def at(self, step: int) -> Slot:
        """Return the slot of the given step, counted from 0."""
        if step < self.skip_first:
            return Slot(Phase.IDLE, 0)
        step -= self.skip_first
        if self.skip_first_wait:
            step += self.wait
        cycle, position = divmod(step, self.cycle_length)
        if self.repeat and cycle >= self.repeat:
            return Slot(Phase.IDLE, self.repeat)
        if position < self.wait:
            return Slot(Phase.IDLE, cycle)
        if position < self.wait + self.warmup:
            return Slot(Phase.WARMUP, cycle)
        return Slot(Phase.RECORD, cycle)

    def idle_from(self, step: int) -> int:
        """Return the number of consecutive idle steps from this one on; 0 if this one is not idle."""
        if self.at(step).phase is not Phase.IDLE:
            return 0
        if step < self.skip_first:
            return self.skip_first - step
        position = step - self.skip_first + (self.wait if self.skip_first_wait else 0)
        if self.repeat and position >= self.repeat * self.cycle_length:
            return FOREVER
        return self.wait - position % self.cycle_length


@dataclass(frozen=True)
class Always:
    """The plan without a schedule: record from start to stop."""

    def at(self, step: int) -> Slot:  # noqa: ARG002  the protocol's signature
        """Return the recording slot."""
        return Slot(Phase.RECORD, 0)

    def idle_from(self, step: int) -> int:  # noqa: ARG002
        """Return 0: no step is idle."""
        return 0


@dataclass(frozen=True)
class CustomPlan:
    """A user's function `step -> Phase`; a cycle ends where its recording ends."""

    phase_of: Callable[[int], Phase]

    def at(self, step: int) -> Slot:
        """Return the slot of the given step, counted from 0."""
        phase = self.phase_of(step)
        if not isinstance(phase, Phase):
            msg = (
                f"A schedule function must return a unified_profiler.Phase, but it returned "
                f"{phase!r}. Return Phase.IDLE, Phase.WARMUP or Phase.RECORD."
            )
            raise ScheduleError(msg)
        return Slot(phase, 0)

    def idle_from(self, step: int) -> int:  # noqa: ARG002
        """Return 0: the function is called at every step."""
        return 0


@checked_keywords
def schedule(
    *, active: int, wait: int = 0, warmup: int = 0, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Schedule:
    """Make a schedule, with the arguments of `torch.profiler.schedule`, where wait and warmup must be given.

    Example:
        >>> schedule(wait=1, warmup=1, active=2).at(2)
        Slot(phase=<Phase.RECORD: 'record'>, cycle=0)
    """
    return Schedule(
        wait=wait,
        warmup=warmup,
        active=active,
        repeat=repeat,
        skip_first=skip_first,
        skip_first_wait=skip_first_wait,
    )


def as_plan(value: Schedule | Callable[[int], Phase] | None) -> Plan:
    """Return the plan of a `schedule=` argument."""
    if value is None:
        return Always()
    if isinstance(value, Schedule):
        return value
    if callable(value):
        return CustomPlan(value)
    msg = (
        f"`schedule` must be unified_profiler.schedule(...), a function from step to Phase, or None; "
        f"found {type(value).__name__}."
    )
    raise ScheduleError(msg)


def _check_count(name: str, value: object, *, least: int) -> None:
    if isinstance(value, int) and value >= least:
        return
    msg = f"A schedule's `{name}` must be a whole number of at least {least}; found {value!r}."
    raise ScheduleError(msg)
