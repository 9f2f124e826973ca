from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.recording.machine import OUTSIDE, Command, transition
from unified_profiler.schedule import Phase, Slot

slots = st.builds(Slot, st.sampled_from(Phase), st.integers(0, 2))


def commands(*path: Slot) -> list[str]:
    walk = [OUTSIDE, *path, OUTSIDE]
    return [c.value for a, b in pairwise(walk) for c in transition(a, b)]


def test_a_whole_cycle() -> None:
    path = [Slot(Phase.IDLE), Slot(Phase.WARMUP), Slot(Phase.RECORD), Slot(Phase.RECORD)]
    assert commands(*path) == ["arm", "start", "stop", "deliver"]


def test_leaving_in_warm_up_discards() -> None:
    assert commands(Slot(Phase.WARMUP)) == ["arm", "discard"]


def test_recording_without_warm_up_arms_and_starts_at_once() -> None:
    assert transition(OUTSIDE, Slot(Phase.RECORD)) == (Command.ARM, Command.START)


def test_the_next_cycle_without_a_pause_delivers_first() -> None:
    change = transition(Slot(Phase.RECORD, 0), Slot(Phase.RECORD, 1))
    assert change == (Command.STOP, Command.DELIVER, Command.ARM, Command.START)


def test_going_back_to_warm_up_ends_the_recording() -> None:
    change = transition(Slot(Phase.RECORD, 0), Slot(Phase.WARMUP, 0))
    assert change == (Command.STOP, Command.DELIVER, Command.ARM)


def test_staying_does_nothing() -> None:
    assert transition(Slot(Phase.RECORD, 1), Slot(Phase.RECORD, 1)) == ()


@given(st.lists(slots, max_size=30))
def test_every_arm_has_one_stop_or_discard_on_any_path(path: list[Slot]) -> None:
    text = "".join({"arm": "A", "start": "S", "stop": "T", "deliver": "D", "discard": "X"}[c] for c in commands(*path))
    rest = text.replace("ASTD", "").replace("AX", "")
    assert rest == "", text
