from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.errors import ConfigurationError
from unified_profiler.integrations._driver import StepDriver
from unified_profiler.testing import FakeBackend
from unified_profiler.testing.fakes import FakeError

SCHEDULE = up.schedule(wait=1, warmup=1, active=2, repeat=1)


def driver(backend: FakeBackend | None = None, **options: Any) -> StepDriver:
    backend = backend or FakeBackend()
    return StepDriver(backend=backend, clock=backend.clock, **options)


def follow(driver: StepDriver, steps: int, stage: str = "fit") -> None:
    driver.begin(stage)
    for _ in range(steps):
        driver.step(stage)
    driver.end(stage)


def recorded(profiler: up.Profiler) -> list[tuple[int | None, int | None, bool]]:
    return [(trace.info.first_step, trace.info.last_step, trace.info.complete) for trace in profiler.traces]


def names(profiler: up.Profiler, kind: str) -> list[str]:
    rows = [row for trace in profiler.traces for row in trace.events.select(["name", "kind"]).to_pylist()]
    return [row["name"] for row in rows if row["kind"] == kind]


def test_a_profiler_that_nobody_started_is_started_and_stopped() -> None:
    one = driver(schedule=SCHEDULE)
    follow(one, 6)
    assert recorded(one.profiler) == [(2, 3, True)]
    one.profiler.start()  # so it is stopped
    one.profiler.stop()


def test_each_trainer_is_followed_from_the_beginning_of_the_schedule() -> None:
    one = driver(schedule=SCHEDULE)
    follow(one, 5)
    follow(one, 5)
    assert recorded(one.profiler) == [(2, 3, True), (7, 8, True)]


def test_a_profiler_that_somebody_started_is_left_running() -> None:
    backend = FakeBackend()
    with up.Profiler(backend=backend, clock=backend.clock) as profiler:
        follow(StepDriver(profiler), 2)
        profiler.step()
    assert names(profiler, "step") == ["step 0", "step 1", "step 2"]


def test_a_stage_within_another_ends_no_step_and_is_a_region() -> None:
    one = driver()
    one.begin("fit")
    one.step("fit")
    follow(one, 5, "evaluate")
    one.step("fit")
    one.end("fit")
    assert names(one.profiler, "step") == ["step 0", "step 1"]
    assert names(one.profiler, "region") == ["evaluate"]


def test_the_end_of_a_stage_that_never_began_does_nothing() -> None:
    one = driver()
    one.end("fit")
    one.step("fit")
    assert one.profiler.current_step == 0


# --- trainers that raise --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [None, SCHEDULE], ids=["no schedule", "schedule"])
def test_what_a_trainer_that_raised_left_is_delivered_when_the_next_begins(schedule: up.Schedule | None) -> None:
    one = driver(schedule=schedule)
    one.begin("fit")
    for _ in range(3):
        one.step("fit")
    follow(one, 5)
    assert [complete for _, _, complete in recorded(one.profiler)] == [False, True]


def test_a_region_that_a_trainer_left_open_does_not_outlive_it() -> None:
    one = driver()
    one.begin("fit")
    one.begin("evaluate")
    one.abandon()
    follow(one, 1)
    assert names(one.profiler, "region") == ["evaluate"]


def test_a_driver_that_is_no_longer_used_frees_the_native_profiler() -> None:
    backend = FakeBackend()
    one = driver(backend)
    profiler = one.profiler
    one.begin("fit")
    del one
    assert backend.calls[-2:] == ["stop", "normalize"]
    assert [complete for _, _, complete in recorded(profiler)] == [False]


def test_a_driver_that_another_thread_drops_is_not_stopped_there() -> None:
    backend = FakeBackend()
    held = [driver(backend)]
    profiler = held[0].profiler
    held[0].begin("fit")
    held[0].step("fit")
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert backend.calls[-1] == "mark_step"
    profiler.stop()
    assert backend.calls[-1] == "normalize"


EXITING = """
import unified_profiler as up
from unified_profiler.integrations._driver import StepDriver
from unified_profiler.testing import FakeBackend
driver = StepDriver(backend=FakeBackend(), output_dir="profile")
driver.begin("fit")
driver.step("fit")
raise SystemExit(3)
"""


def test_what_is_left_when_the_interpreter_exits_is_written(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", EXITING], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "")
    (trace,) = up.read(tmp_path / "profile").traces
    assert not trace.info.complete


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_profiler_that_cannot_start_is_logged_once_and_the_trainer_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = driver(output_dir=tmp_path / "profile")
    (tmp_path / "profile").write_text("a file in the way")
    follow(one, 3)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "the training continues" in caplog.text


def test_a_profiler_that_is_stopped_during_the_training_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    one = driver()
    one.begin("fit")
    one.profiler.stop()
    one.step("fit")
    one.step("fit")
    one.end("fit")
    assert caplog.text.count("the training continues") == 1
    follow(one, 2)
    assert names(one.profiler, "step")[-2:] == ["step 0", "step 1"]


def test_a_strict_profiler_raises() -> None:
    one = driver(FakeBackend(fails_at=frozenset({"start"})), strict=True)
    with pytest.raises(FakeError):
        one.begin("fit")


def test_a_backend_that_fails_stays_out_of_the_trainers_way() -> None:
    one = driver(FakeBackend(fails_at=frozenset({"start"})))
    follow(one, 3)
    assert [failure.action for failure in one.profiler.failures] == ["start"]


def test_an_error_of_the_programs_own_work_that_a_step_waited_for_goes_on_to_the_program() -> None:
    backend = FakeBackend()
    one = driver(backend)
    one.begin("fit")
    backend.fails_at = frozenset({"synchronize"})
    with pytest.raises(FakeError):
        one.step("fit")


def test_level_0_does_nothing() -> None:
    backend = FakeBackend()
    one = driver(backend, level=0, schedule=SCHEDULE)
    follow(one, 5)
    assert (backend.calls, one.profiler.current_step, one.stage) == ([], 0, None)


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "expected"), [((0, 0), (0, 0)), ((1, 2), (1, 2)), ((3, 4), (3, 4))])
def test_steps_are_recorded_from_the_first_to_the_last(steps: tuple[int, int], expected: tuple[int, int]) -> None:
    backend = FakeBackend()
    one = driver(backend, steps=steps)
    follow(one, 9)
    assert recorded(one.profiler) == [(*expected, True)]
    warmup = [] if steps[0] == 0 else ["warmup"]
    assert [p for p in phases(one) if p != "idle"] == [*warmup, *["record"] * (steps[1] - steps[0] + 1)]


def phases(one: StepDriver) -> list[str]:
    plan = one.profiler.settings.schedule
    assert plan is not None
    return [plan.at(step).phase.value for step in range(9)]


@pytest.mark.parametrize("steps", [(3, 2), (-1, 2), (1,), 5, "12", (1.0, 2)], ids=str)
def test_steps_that_are_no_range_are_refused(steps: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"steps=\(10, 12\)"):
        driver(steps=steps)


def test_steps_and_a_schedule_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="`steps` is a schedule"):
        driver(steps=(1, 2), schedule=SCHEDULE)


def test_a_profiler_and_keywords_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="not both; found level, strict"):
        StepDriver(up.Profiler(), strict=True, level=1)
