from __future__ import annotations

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unified_profiler as up
from unified_profiler.errors import ConfigurationError, UnsupportedCapabilityError, UsageError
from unified_profiler.model.trace import Trace
from unified_profiler.presentation.texts import render_hint
from unified_profiler.schedule import Phase
from unified_profiler.testing import FakeBackend
from unified_profiler.testing.fakes import FakeError


def profiler(backend: FakeBackend | None = None, **options: Any) -> up.Profiler:
    backend = backend or FakeBackend()
    return up.Profiler(backend=backend, clock=backend.clock, **options)


def run(steps: int, backend: FakeBackend | None = None, **options: Any) -> up.Profiler:
    backend = backend or FakeBackend()
    prof = profiler(backend, **options)
    with prof:
        for step in range(steps):
            backend.op(f"fake::op{step}")
            prof.step()
        if not steps:
            backend.op("fake::op0")
    return prof


def names(trace: Trace, kind: str) -> list[str]:
    rows = trace.events.select(["name", "kind"]).to_pylist()
    return [row["name"] for row in rows if row["kind"] == kind]


ONE_CYCLE = up.schedule(wait=1, warmup=1, active=2, repeat=1)


# --- schedule ----------------------------------------------------------------------------------------------------


def test_each_cycle_is_one_trace_with_its_steps() -> None:
    prof = run(9, schedule=up.schedule(wait=1, warmup=1, active=2, repeat=2))
    assert [names(trace, "step") for trace in prof.traces] == [["step 2", "step 3"], ["step 6", "step 7"]]
    assert [trace.info.complete for trace in prof.traces] == [True, True]


def test_recorders_are_driven_in_order() -> None:
    backend = FakeBackend()
    run(6, backend, schedule=ONE_CYCLE)
    verbs = [
        "recorder",
        "arm",
        "synchronize",
        "start",
        "mark_step",
        "synchronize",
        "mark_step",
        "synchronize",
        "stop",
        "normalize",
    ]
    assert backend.calls == verbs


def test_an_error_of_the_work_itself_reaches_the_program_and_what_was_recorded_is_kept() -> None:
    backend = FakeBackend()
    prof = up.Profiler(backend=backend)
    with pytest.raises(FakeError), prof:  # noqa: PT012  the whole block is what must let go of the error
        backend.op("work")
        backend.fails_at = frozenset({"synchronize"})
        prof.step()
    assert (names(prof.traces[0], "op"), prof.traces[0].info.complete) == (["work"], False)
    with pytest.raises(FakeError):
        prof.start()
    assert not prof.running
    backend.fails_at = frozenset()
    prof.start()
    backend.op("more")
    backend.fails_at = frozenset({"synchronize"})
    with pytest.raises(FakeError):
        prof.stop()
    assert names(prof.traces[1], "op") == ["more"]
    assert not prof.failures


def test_without_a_schedule_everything_is_recorded() -> None:
    prof = run(3)
    (trace,) = prof.traces
    assert names(trace, "step") == ["step 0", "step 1", "step 2"]
    assert trace.info.complete


def test_without_a_step_the_trace_is_complete_and_a_hint_says_so(caplog: pytest.LogCaptureFixture) -> None:
    prof = run(0)
    assert prof.traces[0].info.complete
    assert names(prof.traces[0], "op") == ["fake::op0"]
    assert "step() was never called" in caplog.text


@pytest.mark.parametrize(
    ("schedule", "steps", "reason"),
    [
        (
            up.schedule(wait=3, active=1),
            0,
            "Profiler.step() was never called, and the schedule begins to record at step 3",
        ),
        (up.schedule(wait=2, active=1), 1, "1 step has ended, and the schedule begins to record at step 2"),
        (
            up.schedule(skip_first=10**9, warmup=2, active=1),
            2,
            "2 steps have ended, and the schedule begins to record at",
        ),
        (
            lambda _: Phase.IDLE,
            2,
            "2 steps have ended, and the schedule function returned Phase.RECORD for none of them",
        ),
    ],
)
def test_a_schedule_that_records_nothing_has_a_hint(
    caplog: pytest.LogCaptureFixture, schedule: Any, steps: int, reason: str
) -> None:
    prof = run(steps, schedule=schedule)
    assert prof.traces == ()
    (hint,) = prof.run.manifests[0].hints
    assert hint.startswith(f"Nothing was recorded: {reason}")
    assert hint in caplog.text
    assert render_hint(hint, language="zh") != hint


def test_leaving_the_loop_while_recording_delivers_an_incomplete_trace() -> None:
    prof = run(3, schedule=ONE_CYCLE)
    (trace,) = prof.traces
    assert not trace.info.complete
    assert names(trace, "op") == ["fake::op2"]


def test_leaving_the_loop_in_warm_up_delivers_nothing() -> None:
    backend = FakeBackend()
    prof = run(1, backend, schedule=ONE_CYCLE)
    assert prof.traces == ()
    assert backend.calls == ["recorder", "arm", "discard"]


def test_a_function_of_the_step_is_followed() -> None:
    prof = run(6, schedule=lambda step: Phase.RECORD if step in {1, 4} else Phase.IDLE)
    assert [names(trace, "step") for trace in prof.traces] == [["step 1"], ["step 4"]]
    assert [trace.info.cycle for trace in prof.traces] == [0, 1]


def test_a_function_that_raises_is_a_failure_and_the_loop_goes_on() -> None:
    def broken(step: int) -> Phase:
        if step == 2:
            msg = "no idea"
            raise ValueError(msg)
        return Phase.RECORD

    prof = run(4, schedule=broken)
    assert [failure.source for failure in prof.failures] == ["schedule"]
    assert [names(trace, "step") for trace in prof.traces] == [["step 0", "step 1"], ["step 3"]]


def test_the_phase_can_be_seen() -> None:
    prof = profiler(schedule=ONE_CYCLE)
    phases = []
    with prof:
        for _ in range(5):
            phases.append(prof.phase)
            prof.step()
    assert phases == [Phase.IDLE, Phase.WARMUP, Phase.RECORD, Phase.RECORD, Phase.IDLE]
    assert prof.phase is Phase.IDLE


def test_every_step_is_logged_with_its_phase() -> None:
    prof = run(5, schedule=ONE_CYCLE)
    steps = prof.run.steps
    assert steps is not None
    assert steps.column("phase").to_pylist() == ["idle", "warmup", "record", "record", "idle"]
    assert steps.column("step").to_pylist() == [0, 1, 2, 3, 4]


# --- ways to use it ----------------------------------------------------------------------------------------------


def test_start_and_stop_by_hand_and_again() -> None:
    prof = profiler()
    for _ in range(2):
        prof.start()
        prof.step()
        prof.stop()
    assert [names(trace, "step") for trace in prof.traces] == [["step 0"], ["step 1"]]


def test_as_a_decorator_each_call_is_recorded() -> None:
    prof = profiler()

    @prof
    def train(value: int) -> int:
        prof.step()
        return value + 1

    assert train(1) == 2
    assert len(prof.traces) == 1


def test_handlers_get_the_trace() -> None:
    seen: list[Trace] = []
    run(1, on_trace_ready=[seen.append, seen.append])
    assert len(seen) == 2
    assert seen[0] is seen[1]


def test_a_handler_that_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="on_trace_ready"):
        profiler(on_trace_ready=[3])


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda prof: prof.step(), "not running"),
        (lambda prof: prof.stop(), "not running"),
        (lambda prof: (prof.start(), prof.start()), "running already"),
        (lambda prof: (prof.start(), prof.stop(), prof.stop()), "stopped already"),
        (lambda prof: (prof.start(), prof.region_end("x")), "without a region_begin"),
    ],
)
def test_a_call_at_the_wrong_moment_says_so(misuse: Any, message: str) -> None:
    prof = profiler()
    with pytest.raises(UsageError, match=message):
        misuse(prof)
    if prof.running:
        prof.stop()


# --- regions -----------------------------------------------------------------------------------------------------


def test_regions_are_recorded_within_their_step() -> None:
    prof = profiler()
    with prof, prof.region("forward", meta={"batch": 3}):
        pass
    (row,) = [row for row in prof.traces[0].events.to_pylist() if row["kind"] == "region"]
    assert (row["name"], row["step"], row["layer"]) == ("forward", 0, "application")
    assert json.loads(row["attributes"]) == {"meta": {"batch": 3}}


def test_a_region_decorates_functions_and_coroutines() -> None:
    prof = profiler()

    @prof.region("sync")
    def double(value: int) -> int:
        return 2 * value

    @prof.region("async")
    async def triple(value: int) -> int:
        return 3 * value

    with prof:
        assert double(2) == 4
        assert asyncio.run(triple(2)) == 6
    assert names(prof.traces[0], "region") == ["sync", "async"]


def test_a_decorated_function_may_call_itself() -> None:
    prof = profiler()

    @prof.region("down")
    def down(depth: int) -> None:
        if depth:
            down(depth - 1)

    with prof:
        down(2)
    rows = [row for row in prof.traces[0].events.to_pylist() if row["kind"] == "region"]
    assert sorted(row["depth"] for row in rows) == [1, 2, 3]


@pytest.mark.parametrize(("begun", "ended", "kept"), [("a", None, "a"), (None, "b", "b"), ("a", "b", "b")])
def test_a_region_takes_its_meta_at_the_begin_or_at_the_end(begun: str | None, ended: str | None, kept: str) -> None:
    prof = profiler()
    with prof:
        prof.region_begin("load", meta=begun)
        prof.region_end("load", meta=ended)
    (row,) = (row for row in prof.traces[0].events.to_pylist() if row["kind"] == "region")
    assert json.loads(row["attributes"]) == {"meta": kept}


def test_regions_that_cross_are_both_kept() -> None:
    prof = profiler()
    with prof:
        prof.region_begin("load")
        prof.region_begin("copy")
        prof.region_end("load")
        prof.region_end("copy")
    assert sorted(names(prof.traces[0], "region")) == ["copy", "load"]


def test_a_region_around_the_loop_is_cut_at_the_window() -> None:
    prof = profiler(schedule=ONE_CYCLE)
    prof.start()
    with prof.region("epoch"):
        for _ in range(6):
            prof.step()
    prof.stop()
    (trace,) = prof.traces
    (row,) = [row for row in trace.events.to_pylist() if row["name"] == "epoch"]
    assert row["start_ns"] == trace.info.start_ns
    assert row["start_ns"] + row["duration_ns"] == trace.info.end_ns


def test_regions_outside_recording_leave_nothing() -> None:
    prof = profiler(schedule=ONE_CYCLE)
    with prof:
        with prof.region("first"):
            pass
        for _ in range(6):
            prof.step()
    assert names(prof.traces[0], "region") == []


def test_regions_of_several_threads_carry_their_thread() -> None:
    prof = profiler()

    def work() -> None:
        with prof.region("work"):
            pass

    with prof:
        threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = [row for row in prof.traces[0].events.to_pylist() if row["kind"] == "region"]
    assert {row["thread"] for row in rows} == {"worker 0", "worker 1", "worker 2"}


@pytest.mark.parametrize("name", ['quote "', "new\nline", "tab\t\x00\x07", "emoji 🙂", "lone \ud800 surrogate", ""])
def test_any_name_is_a_region(name: str) -> None:
    prof = profiler()
    with prof, prof.region(name):
        pass
    expected = name.replace("\ud800", "\\ud800")
    assert names(prof.traces[0], "region") == [expected]


# --- levels ------------------------------------------------------------------------------------------------------


def test_level_0_does_nothing_at_all(tmp_path: Path) -> None:
    backend = FakeBackend()
    prof = profiler(backend, level=0, output_dir=tmp_path / "out")

    def function() -> None: ...

    with prof:
        prof.region_begin("a")
        prof.region_end("never begun")
        with prof.region("b"):
            prof.step()
    prof.stop()
    assert prof.region("c")(function) is function
    assert (prof.traces, backend.calls) == ((), [])
    assert not (tmp_path / "out").exists()


def test_level_1_records_the_application_and_the_hardware_layer_only() -> None:
    backend = FakeBackend()
    prof = profiler(backend, level=1)
    with prof, prof.region("a"):
        prof.step()
    assert set(prof.traces[0].events.column("layer").to_pylist()) == {"application", "hardware"}
    assert backend.calls == []


def test_the_level_variable_beats_the_keyword(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIFIED_PROFILER_LEVEL", "0")
    assert run(3, level=2).traces == ()


# --- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["recorder", "arm", "start", "mark_step", "stop", "normalize"])
def test_a_backend_that_fails_is_reported_and_the_loop_goes_on(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    backend = FakeBackend(fails_at=frozenset({verb}))
    prof = run(6, backend, schedule=ONE_CYCLE)
    assert [failure.source for failure in prof.failures] == ["fake"]
    assert f"failure at {verb}" in prof.failures[0].error
    assert caplog.text.count("failure at") == 1
    assert names(prof.traces[0], "step") == ["step 2", "step 3"]


def test_a_capture_that_cannot_be_read_is_kept_and_the_failure_says_where() -> None:
    prof = run(1, FakeBackend(fails_at=frozenset({"normalize"})))
    kept = prof.failures[0].kept
    assert kept is not None
    assert [file.name for file in Path(kept).iterdir()] == ["fake.json"]


def test_a_failure_does_not_touch_the_other_backends() -> None:
    good, bad = FakeBackend("good"), FakeBackend("bad", fails_at=frozenset({"start"}))
    with up.Profiler(backend=[bad, good], clock=good.clock) as prof:
        good.op("fake::op0")
    assert names(prof.traces[0], "op") == ["fake::op0"]
    assert bad.calls == ["recorder", "arm", "synchronize", "start", "discard"]


def test_the_same_failure_is_logged_once_and_kept_every_time(caplog: pytest.LogCaptureFixture) -> None:
    backend = FakeBackend(fails_at=frozenset({"start"}))
    prof = run(4, backend, schedule=up.schedule(wait=0, warmup=0, active=1))
    assert len(prof.failures) >= 4
    assert caplog.text.count("failure at") == 1


def test_a_handler_that_raises_does_not_stop_the_others() -> None:
    seen: list[Trace] = []

    def broken(trace: Trace) -> None:
        msg = "handler"
        raise RuntimeError(msg)

    prof = run(1, on_trace_ready=[broken, seen.append])
    assert len(seen) == 1
    assert "broken" in prof.failures[0].action


@pytest.mark.parametrize("verb", ["recorder", "arm", "start", "stop", "normalize"])
def test_strict_raises_and_leaves_nothing_armed(verb: str) -> None:
    backend = FakeBackend(fails_at=frozenset({verb}))
    with pytest.raises(FakeError):
        run(6, backend, strict=True, schedule=ONE_CYCLE)
    assert backend.calls.count("arm") <= backend.calls.count("stop") + backend.calls.count("discard")


def test_a_missing_capability_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    backend = FakeBackend(capabilities=frozenset())
    prof = run(1, backend, record_shapes=True)
    assert "cannot record what `record_shapes` requests" in prof.failures[0].error
    assert prof.failures[0].option == "record_shapes"
    assert "Everything else is recorded" in caplog.text
    assert "failed" not in caplog.text
    assert names(prof.traces[0], "op") == ["fake::op0"]


def test_a_missing_capability_raises_in_strict_mode() -> None:
    with pytest.raises(UnsupportedCapabilityError, match="record_shapes"):
        run(1, FakeBackend(capabilities=frozenset()), record_shapes=True, strict=True)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_in_the_loop_delivers_what_there_is(error: type[BaseException], tmp_path: Path) -> None:
    backend = FakeBackend()
    prof = profiler(backend, output_dir=tmp_path)
    with pytest.raises(error), prof:  # noqa: PT012
        backend.op("fake::op0")
        prof.step()
        backend.op("fake::op1")
        raise error
    (trace,) = up.read(tmp_path).traces
    assert not trace.info.complete
    assert names(trace, "op") == ["fake::op0", "fake::op1"]


def test_an_interruption_inside_profiling_leaves_nothing_armed() -> None:
    class Interrupting(FakeBackend):
        def _record_call(self, verb: str) -> None:
            super()._record_call(verb)
            if verb == "start":
                raise KeyboardInterrupt

    backend = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        run(3, backend)
    assert backend.calls == ["recorder", "arm", "synchronize", "start", "discard"]


VERBS = ["recorder", "arm", "start", "mark_step", "stop", "normalize", "discard"]


@settings(max_examples=150)
@given(
    plan=st.builds(
        up.Schedule,
        wait=st.integers(0, 2),
        warmup=st.integers(0, 2),
        active=st.integers(1, 3),
        repeat=st.integers(0, 3),
        skip_first=st.integers(0, 2),
        skip_first_wait=st.integers(0, 1),
    ),
    steps=st.integers(0, 15),
    fails_at=st.frozensets(st.sampled_from(VERBS), max_size=2),
    raises=st.booleans(),
    strict=st.booleans(),
)
def test_no_schedule_length_or_fault_leaves_a_recorder_armed(
    plan: up.Schedule, steps: int, fails_at: frozenset[str], raises: bool, strict: bool
) -> None:
    logging.getLogger("unified_profiler").setLevel(logging.CRITICAL)
    backend = FakeBackend(fails_at=fails_at)
    prof = profiler(backend, schedule=plan, strict=strict)
    try:
        with prof:
            for _ in range(steps):
                prof.step()
            if raises:
                raise KeyboardInterrupt
    except (FakeError, KeyboardInterrupt):
        pass
    finally:
        logging.getLogger("unified_profiler").setLevel(logging.NOTSET)
    assert prof.phase is Phase.IDLE
    assert armed_at_the_end(backend.calls) == 0


def armed_at_the_end(calls: list[str]) -> int:
    armed = 0
    for call in calls:
        if call == "arm":
            assert armed == 0, "armed twice"
            armed = 1
        elif call in {"stop", "discard"}:
            armed = 0
    return armed
