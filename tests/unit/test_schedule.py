from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.errors import ScheduleError
from unified_profiler.schedule import FOREVER, Always, CustomPlan, Phase, Schedule, Slot, as_plan, schedule

counts = st.integers(0, 5)
schedules = st.builds(
    Schedule,
    wait=counts,
    warmup=counts,
    active=st.integers(1, 5),
    repeat=counts,
    skip_first=counts,
    skip_first_wait=st.integers(0, 1),
)


def test_a_cycle_is_wait_warmup_active() -> None:
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    phases = [plan.at(step).phase.value for step in range(9)]
    assert phases == ["idle", "warmup", "record", "record", "idle", "warmup", "record", "record", "idle"]


def test_cycles_are_numbered() -> None:
    plan = schedule(wait=0, warmup=0, active=2)
    assert [plan.at(step).cycle for step in range(5)] == [0, 0, 1, 1, 2]


def test_skip_first_wait_leaves_out_the_wait_of_the_first_cycle_only() -> None:
    plan = schedule(wait=2, warmup=0, active=1, skip_first=1, skip_first_wait=1)
    assert [plan.at(step).phase is Phase.RECORD for step in range(6)] == [False, True, False, False, True, False]


@pytest.mark.parametrize("name", ["wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait"])
def test_a_negative_value_names_the_argument(name: str) -> None:
    arguments = {"wait": 1, "warmup": 1, "active": 1, name: -1}
    with pytest.raises(ScheduleError, match=f"`{name}`.*found -1"):
        schedule(**arguments)


@pytest.mark.parametrize("value", [0, 1.5, "3", None])
def test_active_must_be_a_whole_number_of_at_least_one(value: object) -> None:
    with pytest.raises(ScheduleError, match=r"`active`.*at least 1"):
        schedule(wait=1, warmup=1, active=value)  # type: ignore[arg-type]


def test_no_schedule_records_always() -> None:
    assert as_plan(None) == Always()
    assert Always().at(7) == Slot(Phase.RECORD, 0)


def test_a_function_of_the_step_is_a_plan() -> None:
    plan = as_plan(lambda step: Phase.RECORD if step == 3 else Phase.IDLE)
    assert isinstance(plan, CustomPlan)
    assert [plan.at(step).phase for step in (2, 3)] == [Phase.IDLE, Phase.RECORD]


def test_a_function_that_returns_something_else_says_what_it_returned() -> None:
    with pytest.raises(ScheduleError, match="it returned 'record'"):
        as_plan(lambda _: "record").at(0)  # type: ignore[arg-type,return-value]


def test_something_that_is_no_schedule_is_refused() -> None:
    with pytest.raises(ScheduleError, match="found int"):
        as_plan(5)  # type: ignore[arg-type]


@given(plan=schedules, step=st.integers(0, 60))
def test_idle_from_tells_exactly_how_long_the_idle_stretch_is(plan: Schedule, step: int) -> None:
    length = plan.idle_from(step)
    stretch = min(length, 100)
    assert all(plan.at(step + i).phase is Phase.IDLE for i in range(stretch))
    if plan.at(step).phase is not Phase.IDLE:
        assert length == 0
    elif length != FOREVER:
        assert length >= 1
