from __future__ import annotations

import json
import logging
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pyarrow as pa
import pytest
from mindspore import ops
from mindspore.profiler.platform.cpu_profiler import CpuProfiler
from mindspore.profiler.profiler_interface import ProfilerInterface

from unified_profiler.errors import BackendBusyError, ConfigurationError, NativeProfilerError, UsageError
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_mindspore.read.normalizer import MindSporeNormalizer
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.recorder import MindSporeRecorder

Work = Callable[[], ms.Tensor]


def table(capture: NativeCapture) -> pa.Table:
    return MindSporeNormalizer().normalize(capture)


def names(capture: NativeCapture) -> list[str]:
    """Return the kernels; memory, once it was recorded in a process, is in all later files of MindSpore's own."""
    return [row["name"] for row in table(capture).to_pylist() if row["kind"] == "op"]


def made(folder: Path, **options: Any) -> MindSporeRecorder:
    folder.mkdir(exist_ok=True)
    return MindSporeRecorder(RecordOptions(**options), folder)


def started(folder: Path, **options: Any) -> MindSporeRecorder:
    recorder = made(folder, **options)
    recorder.arm()
    recorder.start()
    return recorder


def wrong_index() -> ms.Tensor:
    """Queues a kernel that fails when it runs."""
    values, index = np.ones((4, 4), np.float32), np.full((4, 4), 77, np.int64)
    return ops.gather_elements(ms.Tensor(values), 1, ms.Tensor(index))


@pytest.fixture
def own_profile(tmp_path: Path) -> Iterator[Any]:
    """A `mindspore.profiler.profile` of the program itself, not yet started."""
    output = tmp_path / "own"
    with native.output_below(str(output)):
        profile = ms.profiler.profile(activities=[ms.profiler.ProfilerActivity.CPU], start_profile=False)
    yield profile
    if native.is_profiler_active():
        profile.stop()


# --- what is recorded -----------------------------------------------------------------------------------------------


def test_a_capture_is_the_native_files_and_a_note(record: Any, add: Work, tmp_path: Path) -> None:
    capture = record(add)
    assert [file.name for file in capture.files] == [
        "cpu_op_execute_timestamp_0.txt",
        "cpu_framework_0.txt",
        "unified_profiler.json",
    ]
    assert {file.parent for file in capture.files} == {tmp_path / "work" / "FRAMEWORK"}
    assert (capture.backend, capture.framework_version) == ("mindspore", ms.__version__)
    assert capture.start_ns < capture.stop_ns
    assert names(capture) == ["Add"]


def test_what_runs_between_arm_and_start_is_not_recorded(tmp_path: Path, add: Work, multiply: Work) -> None:
    recorder = made(tmp_path)
    recorder.arm()
    multiply()
    recorder.start()
    add()
    assert names(recorder.stop()) == ["Add"]


def test_kernels_that_are_only_queued_when_recording_starts_are_not_recorded(
    tmp_path: Path, add: Work, multiply: Work
) -> None:
    recorder = made(tmp_path)
    recorder.arm()
    for _ in range(20):
        multiply()
    recorder.start()
    add()
    assert names(recorder.stop()) == ["Add"]


def test_kernels_that_are_only_queued_when_recording_stops_are_recorded(record: Any, multiply: Work) -> None:
    assert names(record(lambda: [multiply() for _ in range(20)])) == ["MatMul"] * 20


def test_a_recording_in_which_nothing_ran_is_empty(record: Any) -> None:
    assert len(table(record(lambda: None))) == 0


def test_many_recordings_in_one_process_hold_their_own_kernels(tmp_path: Path, add: Work) -> None:
    counts = []
    for number in range(1, 5):
        recorder = started(tmp_path / str(number))
        for _ in range(number):
            add()
        counts.append(len(names(recorder.stop())))
    assert counts == [1, 2, 3, 4]


def test_a_verb_out_of_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="armed"):
        made(tmp_path).start()


# --- memory ---------------------------------------------------------------------------------------------------------


def test_memory_is_recorded_where_asked_for_and_nowhere_else(tmp_path: Path, add: Work) -> None:
    """MindSpore goes on recording memory once it was asked to, and writes all of it each time."""
    kinds, windows = [], []
    for number, wanted in enumerate([True, False, True]):
        recorder = started(tmp_path / str(number), profile_memory=wanted)
        add()
        capture = recorder.stop()
        events = table(capture)
        kinds.append(set(events.column("kind").to_pylist()))
        windows.append((capture.start_ns, capture.stop_ns, events.column("start_ns").to_pylist()))
    assert kinds == [{"op", "counter"}, {"op"}, {"op", "counter"}]
    assert all(start <= time <= stop for start, stop, times in windows for time in times)
    assert not (tmp_path / "1" / "FRAMEWORK" / "cpu_ms_memory_record_0.txt").exists()


# --- others who use the native profiler -----------------------------------------------------------------------------


def test_a_profile_of_the_program_is_left_alone(own_profile: Any, tmp_path: Path, add: Work) -> None:
    own_profile.start()
    with pytest.raises(BackendBusyError, match=r"mindspore\.profiler\.profile"):
        made(tmp_path / "work").arm()
    add()
    own_profile.stop()
    (folder,) = (tmp_path / "own").iterdir()
    assert names(NativeCapture(backend="mindspore", files=(folder,))) == ["Add"]


def test_a_profile_started_after_arming_is_left_alone(own_profile: Any, tmp_path: Path, add: Work) -> None:
    recorder = made(tmp_path / "work")
    recorder.arm()
    own_profile.start()
    with pytest.raises(BackendBusyError):
        recorder.start()
    recorder.discard()
    add()
    own_profile.stop()
    (folder,) = (tmp_path / "own").iterdir()
    assert names(NativeCapture(backend="mindspore", files=(folder,))) == ["Add"]


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("verb", ["stop", "discard"])
def test_a_profile_that_takes_over_has_its_own_operators_and_no_others(
    verb: str, finished: bool, own_profile: Any, tmp_path: Path, add: Work, multiply: Work, record: Any
) -> None:
    recorder = started(tmp_path / "lost")
    multiply()
    own_profile.start()
    add()
    if finished:
        own_profile.stop()
    with pytest.raises(BackendBusyError, match="are lost") if verb == "stop" else nullcontext():
        getattr(recorder, verb)()
    if not finished:
        own_profile.stop()
    (folder,) = (tmp_path / "own").iterdir()
    assert names(NativeCapture(backend="mindspore", files=(folder,))) == ["Add"]
    assert names(record(add)) == ["Add"]


def test_a_profile_that_only_warms_up_takes_nothing(tmp_path: Path, add: Work) -> None:
    recorder = started(tmp_path / "work")
    add()
    with native.output_below(str(tmp_path / "own")):
        ms.profiler.profile(activities=[ms.profiler.ProfilerActivity.CPU], start_profile=False)
    ProfilerInterface.init()
    assert names(recorder.stop()) == ["Add"]
    native.reset_profiler()


def test_mindspore_starts_its_profiler_itself_when_nothing_records(record: Any) -> None:
    before = vars(CpuProfiler)["start"]
    seen: list[Any] = []
    record(lambda: seen.append(vars(CpuProfiler)["start"]))
    assert seen != [before]
    assert vars(CpuProfiler)["start"] is before


def test_the_older_profiler_keeps_the_native_one_until_it_has_analyzed(tmp_path: Path, record: Any, add: Work) -> None:
    older = ms.Profiler(output_path=str(tmp_path / "older"), start_profile=True)
    with pytest.raises(BackendBusyError, match="analyse"):
        made(tmp_path / "work").arm()
    older.stop()
    native.reset_profiler()  # what analyse() does at its end, without the analysis
    assert names(record(add, folder="free")) == ["Add"]


def test_of_two_recorders_the_first_to_start_records(tmp_path: Path, add: Work) -> None:
    first, second = (made(tmp_path / name) for name in ("first", "second"))
    first.arm()
    second.arm()
    first.start()
    with pytest.raises(BackendBusyError, match="Another Profiler"):
        second.start()
    second.discard()
    add()
    assert names(first.stop()) == ["Add"]


# --- discard and failures -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verbs", [[], ["arm"], ["arm", "start"], ["arm", "start", "stop"]])
def test_discard_frees_the_native_profiler_in_any_state(
    verbs: list[str], tmp_path: Path, record: Any, add: Work
) -> None:
    recorder = made(tmp_path / "discarded")
    for verb in verbs:
        getattr(recorder, verb)()
    add()
    recorder.discard()
    recorder.discard()
    assert names(record(add)) == ["Add"]


def test_a_directory_that_vanished_costs_nothing(tmp_path: Path, add: Work, record: Any) -> None:
    recorder = started(tmp_path / "vanished")
    add()
    shutil.rmtree(tmp_path / "vanished")
    assert names(recorder.stop()) == ["Add"]
    assert names(record(add)) == ["Add"]


@pytest.mark.parametrize("moment", ["start", "stop"])
def test_files_that_cannot_be_written_are_a_native_failure(
    moment: str, tmp_path: Path, add: Work, record: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "blocked"
    recorder = made(folder)
    recorder.arm()
    if moment == "stop":
        recorder.start()
        add()
    shutil.rmtree(folder)
    folder.write_text("in the way")
    with pytest.raises(NativeProfilerError, match=f"failed to {moment}"):
        getattr(recorder, moment)()
    recorder.discard()
    capfd.readouterr()  # MindSpore logs which files it could not open
    assert names(record(lambda: (add(), add()))) == ["Add", "Add"]


def test_a_full_disk_is_a_native_failure_and_the_next_recording_is_whole(
    tmp_path: Path, add: Work, record: Any
) -> None:
    recorder = started(tmp_path / "full")
    for _ in range(20):
        add()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(NativeProfilerError, match="Is the disk full"):
            recorder.stop()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(record(add)) == ["Add"]


def test_an_error_of_the_programs_own_kernels_comes_out_of_settle(tmp_path: Path, add: Work) -> None:
    recorder = started(tmp_path)
    wrong_index()
    with pytest.raises(RuntimeError, match="GatherD"):
        recorder.synchronize()
    add()
    assert names(recorder.stop()) == ["Add"]


def test_an_error_of_the_programs_own_kernels_is_logged_when_discarded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = started(tmp_path)
    wrong_index()
    with caplog.at_level(logging.ERROR, logger="unified_profiler"):
        recorder.discard()
    assert "GatherD" in caplog.text


@pytest.mark.parametrize(
    ("place", "name"),
    [("mindspore.graph.api", "_pynative_executor"), ("mindspore.profiler.profiler_interface", "ProfilerInterface")],
)
def test_a_private_entry_point_that_moved_is_named(
    place: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = made(tmp_path)
    with monkeypatch.context() as patch:
        patch.delattr(f"{place}.{name}")
        with pytest.raises(NativeProfilerError, match=rf"has no {place}\.{name}[.\w]* as 2\.10 has it"):  # noqa: PT012
            recorder.arm()
            recorder.start()
    recorder.discard()


# --- options --------------------------------------------------------------------------------------------------------


def test_an_unknown_option_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'profiler_level'"):
        made(tmp_path, native_options={"profiling_level": "Level1"})


@pytest.mark.parametrize("option", ["schedule", "on_trace_ready", "start_profile"])
def test_options_that_the_facade_owns_are_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"no option '{option}'"):
        made(tmp_path, native_options={option: None})


def test_a_value_that_an_option_cannot_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="one of LevelNone, Level0, Level1, Level2; found 'Level9'"):
        made(tmp_path, native_options={"profiler_level": "Level9"})


def test_options_for_an_accelerator_have_no_effect_on_a_cpu(record: Any, add: Work) -> None:
    options = {"activities": ["NPU"], "l2_cache": True, "profiler_level": "Level1"}
    assert names(record(add, native_options=options)) == ["Add"]


def test_native_options_win(record: Any, add: Work) -> None:
    events = table(record(add, profile_memory=False, native_options={"profile_memory": True}))
    assert "counter" in events.column("kind").to_pylist()


def test_the_note_says_what_the_files_do_not(record: Any, add: Work) -> None:
    capture = record(add)
    note = json.loads(capture.files[-1].read_text())
    assert note["framework_version"] == ms.__version__
    assert note["sizes_bytes"] == {file.name: file.stat().st_size for file in capture.files[:-1]}
