from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import unified_profiler as up
from unified_profiler import registry
from unified_profiler.launch.anchor import Recount
from unified_profiler.launch.interruption import Interruption
from unified_profiler.launch.launched_profiler import LaunchedProfiler
from unified_profiler.launch.opening import OpeningWindow, record_always
from unified_profiler.launch.windows import Windows
from unified_profiler.testing import FakeBackend

Deliver = Literal["immediate", "deferred"]
PLAN = up.schedule(wait=3, warmup=1, active=2, repeat=1)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


def windows(
    backend: FakeBackend,
    *,
    limit_seconds: float = 100,
    deliver: Deliver = "immediate",
    plan: up.Schedule = PLAN,
    first_step: Callable[[int | None], int | None] = lambda _end_ns: None,
    output_dir: Path | None = None,
) -> tuple[Windows, LaunchedProfiler, OpeningWindow]:
    def opening(folder: Path) -> LaunchedProfiler:
        return LaunchedProfiler(
            backend=backend, clock=backend.clock, schedule=record_always, output_dir=folder, deliver=deliver
        )

    profiler = LaunchedProfiler(
        backend=backend, clock=backend.clock, schedule=plan, deliver=deliver, output_dir=output_dir
    )
    window = OpeningWindow(opening, limit_seconds=limit_seconds, interruption=Interruption())
    return Windows(profiler, plan, window, first_step), profiler, window


def phases(profiler: up.Profiler) -> list[str]:
    assert profiler.run.steps is not None
    names: list[str] = profiler.run.steps.column("phase").to_pylist()
    return names


def test_the_opening_ends_with_the_first_step_and_leaves_unrecorded_ones_alone(backend: FakeBackend) -> None:
    both, profiler, opening = windows(backend)
    both.begin()
    assert opening.running
    both.step()
    assert not opening.running
    for _ in range(7):
        both.step()
    both.finish()
    assert phases(profiler) == ["warmup", "idle", "idle", "warmup", *["record"] * 2, *["idle"] * 2]


def test_steps_that_were_held_back_in_the_opening_count_as_warm_up(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend)
    both.begin()
    both.recount(Recount(keep=False, ends=(1, 2, 3, 4)))
    for _ in range(3):
        both.step()
    both.finish()
    assert phases(profiler) == ["warmup"] * 5 + ["record"] * 2


def test_steps_that_count_anew_throw_the_recording_away_and_begin_the_schedule_again(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend)
    for _ in range(8):
        both.step()
    assert len(profiler.traces) == 1
    both.recount(Recount(keep=False, ends=(backend.clock(),)))
    assert not len(profiler.traces)
    for _ in range(6):
        both.step()
    both.finish()
    assert phases(profiler) == ["warmup", "idle", "idle", "warmup", *["record"] * 2, "idle"]
    assert [(trace.info.cycle, trace.info.first_step, trace.info.last_step) for trace in profiler.traces] == [(0, 4, 5)]


def test_a_source_that_takes_over_after_the_window_leaves_it_alone(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend)
    for _ in range(8):
        both.step()
    both.recount(Recount(keep=True, ends=(backend.clock(), backend.clock())))
    both.finish()
    assert profiler.current_step == 10
    assert len(profiler.traces) == 1


def test_sources_that_take_over_in_the_window_again_and_again_do_not_keep_it_from_ending(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend)
    for _ in range(40):
        both.step()
        both.recount(Recount(keep=True, ends=(backend.clock(), backend.clock())))
    both.finish()
    assert len(profiler.traces) == 1


def test_an_evaluation_is_a_region_and_no_part_of_the_next_step(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend)
    for _ in range(5):
        both.step()
    both.begin_evaluation()
    backend.op("fake::evaluated")
    both.end_evaluation()
    backend.op("fake::trained")
    both.step()
    both.finish()
    rows = profiler.traces[0].events.select(["name", "step"]).to_pylist()
    assert {
        row["name"]: row["step"] for row in rows if row["name"].startswith("fake") or row["name"] == "evaluation"
    } == {
        "evaluation": None,
        "fake::evaluated": None,
        "fake::trained": 5,
    }


def test_steps_so_far_may_be_replaced_without_a_recording_to_throw_away(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend, limit_seconds=0)
    both.step()
    both.recount(Recount(keep=False, ends=(1, 2)))
    assert (profiler.current_step, profiler.phase) == (2, up.Phase.IDLE)
    both.finish()


def test_without_an_opening_phases_are_those_of_the_plan(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend, limit_seconds=0)
    for _ in range(7):
        both.step()
    both.finish()
    assert phases(profiler) == ["idle"] * 3 + ["warmup"] + ["record"] * 2 + ["idle"]


def test_a_deferred_opening_that_is_not_needed_is_never_normalized(backend: FakeBackend) -> None:
    both, profiler, _ = windows(backend, deliver="deferred")
    for _ in range(8):
        both.step()
    assert "normalize" not in backend.calls
    assert not both.finish()
    assert backend.calls.count("normalize") == len(profiler.traces) == 1


def test_a_deferred_opening_that_stands_in_is_finished(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "get", {"fake": backend}.__getitem__)
    both, profiler, opening = windows(backend, deliver="deferred")
    both.begin()
    backend.op("fake::op")
    both.step()
    assert both.finish()
    assert "fake::op" in profiler.traces[0].events.column("name").to_pylist()
    assert not opening.failures


# --- start-up -----------------------------------------------------------------------------------------------------


def application_events(trace: up.Trace) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in trace.events.to_pylist() if row["layer"] == "application"}


def test_the_time_before_the_first_step_is_a_span_of_its_own(backend: FakeBackend) -> None:
    began: list[int] = []
    plan = up.schedule(active=2, repeat=1)
    both, profiler, _ = windows(backend, plan=plan, first_step=lambda _end_ns: began[0])
    both.begin()
    backend.op("fake::setup")
    began.append(backend.clock())
    backend.op("fake::trained")
    both.step()
    both.step()
    both.finish()
    rows = application_events(profiler.traces[0])
    assert rows["start-up"]["start_ns"] + rows["start-up"]["duration_ns"] == rows["step 0"]["start_ns"] == began[0]
    assert rows["start-up"]["step"] is None
    steps = {row["name"]: row["step"] for row in profiler.traces[0].events.to_pylist()}
    assert (steps["fake::setup"], steps["fake::trained"]) == (None, 0)


def test_the_span_is_in_the_opening_window_too(backend: FakeBackend) -> None:
    began: list[int] = []
    both, profiler, _ = windows(backend, first_step=lambda _end_ns: began[0])
    both.begin()
    backend.op("fake::setup")
    began.append(backend.clock())
    backend.op("fake::trained")
    both.step()
    assert both.finish()
    assert application_events(profiler.traces[0])["step 0"]["start_ns"] == began[0]
    assert profiler.run.steps is not None
    assert profiler.run.steps["start_ns"][0].as_py() == began[0]


def test_steps_that_were_held_back_begin_where_the_first_of_them_did(backend: FakeBackend) -> None:
    asked: list[int | None] = []

    def first_step(end_ns: int | None) -> int:
        asked.append(end_ns)
        return 500

    both, profiler, _ = windows(backend, first_step=first_step)
    both.begin()
    both.recount(Recount(keep=False, ends=(1000, 1001, 1002, 1003)))
    both.finish()
    assert asked == [1000]
    assert profiler.run.steps is not None
    assert profiler.run.steps["start_ns"].to_pylist() == [500, 1000, 1001, 1002]


def test_a_program_without_a_step_began_its_work_after_the_start_up(backend: FakeBackend) -> None:
    began: list[int] = []
    both, profiler, _ = windows(backend, first_step=lambda _end_ns: began[0])
    both.begin()
    began.append(backend.clock())
    backend.op("fake::only")
    assert both.finish()
    assert application_events(profiler.traces[0])["step 0"]["start_ns"] == began[0]


def test_the_run_begins_with_the_program_and_keeps_how_long_it_started_up(backend: FakeBackend, tmp_path: Path) -> None:
    profiler = LaunchedProfiler(backend=backend, schedule=PLAN, output_dir=tmp_path)
    profiler.program_starts(100)
    profiler.start()
    profiler.begin_first_step(350)
    profiler.step()
    profiler.stop()
    manifest = up.read(tmp_path).manifests[0]
    assert (manifest.started_ns, manifest.start_up_ns) == (100, 250)


def test_a_program_that_marks_its_steps_has_no_start_up(backend: FakeBackend, tmp_path: Path) -> None:
    with up.Profiler(backend=backend, output_dir=tmp_path) as profiler:
        backend.op("fake::op")
        profiler.step()
    assert "start-up" not in profiler.traces[0].events["name"].to_pylist()
    assert up.read(tmp_path).manifests[0].start_up_ns is None


def test_a_program_that_fails_before_any_framework_leaves_no_run(backend: FakeBackend, tmp_path: Path) -> None:
    profiler = LaunchedProfiler(backend=backend, schedule=PLAN, output_dir=tmp_path / "profile")
    opening = OpeningWindow(lambda _folder: profiler, limit_seconds=100, interruption=Interruption())
    assert not Windows(profiler, PLAN, opening).finish(failed=True)
    assert not (tmp_path / "profile").exists()


@pytest.mark.parametrize("plan", [PLAN, up.schedule(active=2)])
def test_a_program_that_fails_before_any_operator_leaves_no_run(
    backend: FakeBackend, tmp_path: Path, plan: up.Schedule
) -> None:
    both, profiler, _ = windows(backend, plan=plan, output_dir=tmp_path)
    both.begin()
    assert list(tmp_path.iterdir())
    assert not both.finish(failed=True)
    assert not list(tmp_path.iterdir())
    profiler.add_hints(["too late"])
    assert (profiler.run.path, profiler.run.traces) == (None, ())


def test_a_program_that_fails_after_an_operator_leaves_its_run_and_exit_code(
    backend: FakeBackend, tmp_path: Path
) -> None:
    both, profiler, _ = windows(backend, output_dir=tmp_path)
    both.begin()
    backend.op("fake::op")
    profiler.program_ended(3)
    assert both.finish(failed=True)
    run = up.read(tmp_path)
    assert run.manifests[0].exit_code == 3
    assert run.traces[0].info.hints[-1].startswith("The script failed before a step ended, so this is")


def test_a_program_that_fails_after_its_first_step_leaves_its_run(backend: FakeBackend, tmp_path: Path) -> None:
    both, _, _ = windows(backend, output_dir=tmp_path, limit_seconds=0)
    both.step()
    both.finish(failed=True)
    assert up.read(tmp_path).manifests[0].step_count == 1
