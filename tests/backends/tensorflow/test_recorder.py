from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.profiler import profiler_v2
from tensorflow.python.profiler.internal import _pywrap_profiler
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from unified_profiler.errors import BackendBusyError, NativeProfilerError, UsageError
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_tensorflow.record import xplane_collector
from unified_profiler_tensorflow.record.recorder import TensorFlowRecorder

profiler = tf.profiler.experimental


@tf.function  # type: ignore[untyped-decorator]
def multiply(matrix: Any) -> Any:
    return tf.matmul(matrix, matrix)


@tf.function  # type: ignore[untyped-decorator]
def add(matrix: Any) -> Any:
    return tf.add(matrix, matrix)


def work() -> None:
    multiply(tf.ones((4, 4)))


@pytest.fixture(scope="module", autouse=True)
def _functions_are_built() -> None:
    work()
    add(tf.ones((4, 4)))


@pytest.fixture(autouse=True)
def _nothing_is_left_active() -> Iterator[None]:
    yield
    assert profiler_v2._profiler is None
    _pywrap_profiler.ProfilerSession().start("", {})  # refused as long as any other is active


def host(path: Path) -> Any:
    planes = xplane_pb2.XSpace.FromString(path.read_bytes()).planes
    return next(plane for plane in planes if plane.name == "/host:CPU")


def names(path: Path) -> list[str]:
    plane = host(path)
    return [plane.event_metadata[event.metadata_id].name for line in plane.lines for event in line.events]


def has(capture: NativeCapture, op: str) -> bool:
    (file,) = capture.files
    return any(name.endswith(f":{op}") for name in names(file))


def made(folder: Path, **options: Any) -> TensorFlowRecorder:
    folder.mkdir(exist_ok=True)
    return TensorFlowRecorder(RecordOptions(**options), folder)


def started(folder: Path, **options: Any) -> TensorFlowRecorder:
    recorder = made(folder, **options)
    recorder.arm()
    recorder.start()
    return recorder


def test_a_capture_is_a_trace_below_the_work_directory(record: Any, tmp_path: Path) -> None:
    capture = record(work)
    assert tmp_path / "xplane" in capture.files[0].parents
    assert (capture.backend, capture.framework_version) == ("tensorflow", tf.__version__)
    assert capture.start_ns < capture.stop_ns
    assert capture.details["thread"] == threading.get_native_id()
    assert capture.details["problems"] == []
    assert has(capture, "MatMul")


def test_what_runs_between_arm_and_start_is_not_recorded(tmp_path: Path) -> None:
    recorder = made(tmp_path)
    recorder.arm()
    add(tf.ones((4, 4)))
    recorder.start()
    work()
    capture = recorder.stop()
    assert (has(capture, "MatMul"), has(capture, "AddV2")) == (True, False)


@pytest.mark.parametrize(
    ("options", "host_level", "python_level"),
    [
        ({}, 2, 0),
        ({"record_shapes": True}, 3, 0),
        ({"with_stack": True}, 2, 1),
        ({"record_shapes": True, "native_options": {"host_tracer_level": 1}}, 1, 0),
        ({"native_options": {"python_tracer_level": 1, "device_tracer_level": 0, "delay_ms": None}}, 2, 1),
    ],
)
def test_the_levels_asked_for_are_applied(
    options: dict[str, Any], host_level: int, python_level: int, record: Any
) -> None:
    capture = record(work, **options)
    applied = capture.details["options"]
    assert (applied["host_tracer_level"], applied["python_tracer_level"]) == (host_level, python_level)
    assert capture.details["problems"] == []
    plane = host(capture.files[0])
    stats = {plane.stat_metadata[s.metadata_id].name for line in plane.lines for e in line.events for s in e.stats}
    assert ("shape" in stats) == (host_level == 3)
    assert any(name.startswith("$") for name in names(capture.files[0])) == (python_level == 1)
    assert has(capture, "MatMul") == (host_level > 1)


def test_a_level_that_tensorflow_ignores_is_told(
    record: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(xplane_collector, "_IntegerLike", int)  # the type in TensorFlow's documentation
    with caplog.at_level(logging.WARNING, "unified_profiler"):
        (problem,) = record(work, record_shapes=True).details["problems"]
    assert "host_tracer_level=2 although 3 was requested" in problem
    assert problem in caplog.text


def test_each_python_thread_is_known_by_its_line(tmp_path: Path) -> None:
    recorder = started(tmp_path)
    both_ran, leave = threading.Barrier(2), threading.Event()

    def elsewhere() -> None:
        work()
        both_ran.wait()
        leave.wait()

    thread = threading.Thread(target=elsewhere, name="elsewhere")
    thread.start()
    work()
    both_ran.wait()
    capture = recorder.stop()
    leave.set()
    thread.join()
    threads = {line: (tid, name) for line, tid, name in capture.details["threads"]}
    found = {threads[line.id] for line in host(capture.files[0]).lines if line.id in threads}
    assert found == {(threading.get_native_id(), threading.current_thread().name), (thread.native_id, "elsewhere")}


def two_steps(recorder: TensorFlowRecorder) -> dict[str, list[int]]:
    for step in (7, 8):
        recorder.mark_step(step)
        work()
    plane = host(recorder.stop().files[0])
    numbers: dict[str, list[int]] = {}
    for event in (event for line in plane.lines for event in line.events):
        for stat in event.stats:
            if plane.stat_metadata[stat.metadata_id].name == "step_num":
                numbers.setdefault(plane.event_metadata[event.metadata_id].name, []).append(stat.int64_value)
    return numbers


def test_steps_are_annotated_in_a_trace_that_is_kept(tmp_path: Path) -> None:
    assert two_steps(started(tmp_path, keep_native=True)) == {"ProfilerStep": [7, 8]}


def test_steps_are_not_annotated_otherwise(tmp_path: Path) -> None:
    assert two_steps(started(tmp_path)) == {}


# --- somebody else's profiler ---------------------------------------------------------------------------------


def test_an_active_profiler_is_left_alone(tmp_path: Path) -> None:
    profiler.start(str(tmp_path / "theirs"))
    recorder = started(tmp_path / "ours")
    work()
    with pytest.raises(BackendBusyError, match="already active"):
        recorder.stop()
    recorder.discard()
    profiler.stop()
    (theirs,) = (tmp_path / "theirs").rglob("*.xplane.pb")
    assert any(name.endswith(":MatMul") for name in names(theirs))


def test_a_profiler_that_ends_before_recording_begins_is_no_obstacle(tmp_path: Path) -> None:
    profiler.start("")
    recorder = made(tmp_path)
    recorder.arm()
    profiler.stop(save=False)
    recorder.start()
    work()
    assert has(recorder.stop(), "MatMul")


def test_the_native_profiler_of_a_server_is_left_alone(tmp_path: Path) -> None:
    theirs = _pywrap_profiler.ProfilerSession()
    theirs.start("", {})
    recorder = started(tmp_path / "ours")
    with pytest.raises(BackendBusyError, match="profiler server"):
        recorder.stop()
    recorder.discard()
    del theirs
    later = started(tmp_path / "later")
    work()
    assert has(later.stop(), "MatMul")


def test_a_busy_profiler_is_told_when_recording_begins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    profiler.start("")
    with caplog.at_level(logging.WARNING, "unified_profiler"):
        for cycle in ("first", "second"):
            started(tmp_path / cycle).discard()
    profiler.stop(save=False)
    assert caplog.text.count("already active") == 1


def test_sessions_are_recorded_although_the_profiler_is_taken(net: Any, tmp_path: Path) -> None:
    profiler.start("")
    recorder = started(tmp_path, record_shapes=True)
    net.run()
    capture = recorder.stop()
    profiler.stop(save=False)
    assert [file.name for file in capture.files] == ["run-00000.pb"]
    (problem,) = capture.details["problems"]
    assert "only the runs of v1 sessions" in problem
    assert "already active" in problem


def test_of_two_recorders_the_first_to_start_records(tmp_path: Path) -> None:
    first, second = (started(tmp_path / name) for name in ("first", "second"))
    work()
    with pytest.raises(BackendBusyError):
        second.stop()
    second.discard()
    assert has(first.stop(), "MatMul")


def test_the_program_can_stop_its_own_profiler_only(tmp_path: Path) -> None:
    recorder = started(tmp_path)
    with pytest.raises(tf.errors.UnavailableError):
        profiler.stop(save=False)
    work()
    assert has(recorder.stop(), "MatMul")


def test_a_profiler_that_the_program_starts_and_stops_while_recording_takes_its_place(tmp_path: Path) -> None:
    recorder = started(tmp_path / "ours")
    with profiler.Profile(str(tmp_path / "theirs")):
        work()
    with pytest.raises(BackendBusyError, match="this recording is lost"):
        recorder.stop()
    recorder.discard()
    (theirs,) = (tmp_path / "theirs").rglob("*.xplane.pb")
    assert any(name.endswith(":MatMul") for name in names(theirs))
    later = started(tmp_path / "later")
    work()
    assert has(later.stop(), "MatMul")


def test_sessions_go_on_being_recorded_when_the_program_starts_its_profiler(net: Any, tmp_path: Path) -> None:
    recorder = started(tmp_path / "ours", record_shapes=True)
    with profiler.Profile(str(tmp_path / "theirs")):
        net.run()
    capture = recorder.stop()
    assert [file.name for file in capture.files] == ["run-00000.pb"]
    assert any("The program started TensorFlow's profiler itself" in text for text in capture.details["problems"])


def test_tensorflow_makes_its_sessions_itself_when_nothing_records(tmp_path: Path) -> None:
    before = _pywrap_profiler.ProfilerSession
    recorder = started(tmp_path / "ours")
    assert _pywrap_profiler.ProfilerSession is not before
    recorder.stop()
    assert _pywrap_profiler.ProfilerSession is before


@pytest.mark.parametrize("verb", ["stop", "discard"])
def test_a_profiler_that_took_the_place_of_ours_is_left_alone(verb: str, tmp_path: Path) -> None:
    recorder = started(tmp_path / "ours")
    profiler.start(str(tmp_path / "theirs"))
    try:
        getattr(recorder, verb)()
    except BackendBusyError:
        recorder.discard()
    work()
    profiler.stop()
    (theirs,) = (tmp_path / "theirs").rglob("*.xplane.pb")
    assert any(name.endswith(":MatMul") for name in names(theirs))


# --- faults ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verbs", [[], ["arm"], ["arm", "start"], ["arm", "start", "stop"]])
def test_discard_frees_the_native_profiler_in_any_state(verbs: list[str], tmp_path: Path) -> None:
    recorder = made(tmp_path / "discarded")
    for verb in verbs:
        getattr(recorder, verb)()
    recorder.discard()
    recorder.discard()
    later = started(tmp_path / "later")
    work()
    assert has(later.stop(), "MatMul")


def test_discard_closes_an_open_step(tmp_path: Path) -> None:
    recorder = started(tmp_path / "discarded", keep_native=True)
    recorder.mark_step(0)
    recorder.discard()
    assert two_steps(started(tmp_path / "later", keep_native=True)) == {"ProfilerStep": [7, 8]}


@pytest.mark.parametrize("wrong", [{"no_such_option": 1}, {"host_tracer_level": "high"}])
def test_a_native_option_that_tensorflow_does_not_know_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NativeProfilerError, match=r"no_such_option|'str' object") as caught:
        made(tmp_path, native_options=wrong).arm()
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_trace_that_cannot_be_written_is_a_native_failure(tmp_path: Path, record: Any) -> None:
    recorder = started(tmp_path)
    (tmp_path / "xplane").write_text("in the way")
    with pytest.raises(NativeProfilerError, match="stop and save"):
        recorder.stop()
    recorder.discard()
    (tmp_path / "xplane").unlink()
    assert has(record(work), "MatMul")


def test_a_verb_out_of_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="armed"):
        made(tmp_path).start()


def test_a_tensorflow_that_keeps_its_profiler_elsewhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.delattr(profiler_v2, "_pywrap_profiler")
        recorder = started(tmp_path)
        with pytest.raises(NativeProfilerError, match="through internals that this version"):
            recorder.stop()


def test_memory_that_cannot_be_recorded_is_told(record: Any) -> None:
    (problem,) = record(work, profile_memory=True).details["problems"]
    assert "Memory is not recorded" in problem


def test_memory_that_a_session_tells_is_not_complained_about(net: Any, record: Any) -> None:
    capture = record(net.run, profile_memory=True)
    assert capture.details["problems"] == []
    run = tf.compat.v1.RunMetadata.FromString(capture.files[0].read_bytes())
    assert any(memory.total_bytes for d in run.step_stats.dev_stats for n in d.node_stats for memory in n.memory)
