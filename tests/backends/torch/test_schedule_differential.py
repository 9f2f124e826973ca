"""Our schedule and machine against the real torch.profiler: the same moments on a grid of schedules and lengths."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerAction, profile

import unified_profiler as up
from unified_profiler.testing import FakeBackend

PHASES = {
    ProfilerAction.NONE: up.Phase.IDLE,
    ProfilerAction.WARMUP: up.Phase.WARMUP,
    ProfilerAction.RECORD: up.Phase.RECORD,
    ProfilerAction.RECORD_AND_SAVE: up.Phase.RECORD,
}

GRID = [
    {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip, "skip_first_wait": first}
    for wait, warmup, active, repeat, skip, first in itertools.product(
        (0, 2), (0, 1, 2), (1, 2), (0, 1, 2), (0, 2), (0, 1)
    )
]
LENGTHS = (0, 1, 2, 5, 9)


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup", "ignore:.*clears events at the end of each cycle")
@pytest.mark.parametrize("arguments", GRID, ids=lambda arguments: "-".join(str(v) for v in arguments.values()))
def test_phases_are_those_of_torch(arguments: dict[str, int]) -> None:
    theirs, ours = torch.profiler.schedule(**arguments), up.schedule(**arguments)
    assert [ours.at(step).phase for step in range(40)] == [PHASES[theirs(step)] for step in range(40)]


class Watched(profile):  # type: ignore[misc]  # torch is not type-checked here
    """The real torch.profiler, really recording, which writes down when it arms, starts, stops and delivers."""

    def __init__(self, **options: Any) -> None:
        self.moments: list[tuple[str, int]] = []
        super().__init__(
            activities=[torch.profiler.ProfilerActivity.CPU],
            on_trace_ready=lambda _: self.moments.append(("deliver", self.step_num)),
            **options,
        )

    def prepare_trace(self) -> None:
        self.moments.append(("arm", self.step_num))
        super().prepare_trace()

    def start_trace(self) -> None:
        self.moments.append(("start", self.step_num))
        super().start_trace()

    def stop_trace(self) -> None:
        self.moments.append(("stop", self.step_num))
        super().stop_trace()


def torch_moments(arguments: dict[str, int], length: int) -> list[tuple[str, int]]:
    watched = Watched(schedule=torch.profiler.schedule(**arguments))
    with watched:
        for _ in range(length):
            watched.step()
    return meaning(watched.moments)


def meaning(moments: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return DISCARD where torch starts and stops at once without delivering: its way of throwing a warm-up away."""
    actions: list[tuple[str, int]] = []
    for i, (name, step) in enumerate(moments):
        rest = moments[i + 1 : i + 3]
        if name == "start" and rest[:1] == [("stop", step)] and rest[1:] != [("deliver", step)]:
            actions.append(("discard", step))
        elif not (name == "stop" and actions and actions[-1] == ("discard", step)):
            actions.append((name, step))
    return actions


class Counting(FakeBackend):
    """A fake that writes down at which step each verb came."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[tuple[str, int]] = []
        self.profiler: up.Profiler | None = None

    def _record_call(self, verb: str) -> None:
        super()._record_call(verb)
        if verb in {"arm", "start", "stop", "discard"} and self.profiler is not None:
            self.moments.append((verb, self.profiler.current_step))


def our_moments(arguments: dict[str, int], length: int) -> list[tuple[str, int]]:
    backend = Counting()

    def delivered(_: up.Trace) -> None:
        backend.moments.append(("deliver", profiler.current_step))

    schedule = up.schedule(**arguments)
    profiler: up.Profiler = up.Profiler(
        schedule=schedule, backend=backend, clock=backend.clock, on_trace_ready=delivered
    )
    backend.profiler = profiler
    with profiler:
        for _ in range(length):
            profiler.step()
    return backend.moments


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup", "ignore:.*clears events at the end of each cycle")
@pytest.mark.parametrize("arguments", GRID, ids=lambda arguments: "-".join(str(v) for v in arguments.values()))
def test_start_stop_deliver_and_discard_come_when_torch_has_them(arguments: dict[str, int]) -> None:
    for length in LENGTHS:
        theirs = torch_moments(arguments, length)
        ours = our_moments(arguments, length)
        assert ours == theirs, f"{length} steps"
