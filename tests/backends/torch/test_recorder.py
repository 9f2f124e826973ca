from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
import torch.autograd.profiler as autograd_profiler

from unified_profiler.errors import BackendBusyError, NativeProfilerError, UsageError
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_torch.read.normalizer import KinetoNormalizer
from unified_profiler_torch.record.recorder import TorchRecorder


def work() -> None:
    torch.ones(3) + 1


def names(capture: NativeCapture) -> set[str]:
    return set(KinetoNormalizer().normalize(capture).column("name").to_pylist())


def test_a_capture_is_one_trace_in_the_work_directory(record: Any, tmp_path: Path) -> None:
    capture = record(work)
    assert [file.parent for file in capture.files] == [tmp_path]
    assert capture.backend == "torch"
    assert capture.framework_version == torch.__version__
    assert "aten::ones" in names(capture)


def test_what_runs_between_arm_and_start_is_not_recorded(tmp_path: Path) -> None:
    recorder = TorchRecorder(RecordOptions(), tmp_path)
    recorder.arm()
    torch.zeros(3)
    recorder.start()
    torch.ones(3)
    assert names(recorder.stop()) & {"aten::zeros", "aten::ones"} == {"aten::ones"}


def test_an_active_torch_profiler_is_left_alone(tmp_path: Path) -> None:
    with torch.profiler.profile() as other:
        with pytest.raises(BackendBusyError, match="already active"):
            TorchRecorder(RecordOptions(), tmp_path).arm()
        work()
    assert "aten::ones" in {event.name for event in other.events()}


def test_a_torch_profiler_started_after_arming_is_left_alone(tmp_path: Path) -> None:
    recorder = TorchRecorder(RecordOptions(), tmp_path)
    recorder.arm()
    with torch.profiler.profile() as other:
        with pytest.raises(BackendBusyError):
            recorder.start()
        recorder.discard()
        work()
    assert "aten::ones" in {event.name for event in other.events()}


def test_of_two_recorders_the_first_to_start_records(tmp_path: Path) -> None:
    first, second = (TorchRecorder(RecordOptions(), tmp_path) for _ in range(2))
    first.arm()
    second.arm()
    first.start()
    with pytest.raises(BackendBusyError):
        second.start()
    second.discard()
    work()
    assert "aten::ones" in names(first.stop())


@pytest.mark.parametrize("verbs", [[], ["arm"], ["arm", "start"], ["arm", "start", "stop"]])
def test_discard_frees_the_native_profiler_in_any_state(verbs: list[str], tmp_path: Path, record: Any) -> None:
    recorder = TorchRecorder(RecordOptions(), tmp_path)
    for verb in verbs:
        getattr(recorder, verb)()
    recorder.discard()
    recorder.discard()
    assert "aten::ones" in names(record(work))


@pytest.mark.parametrize("last", [0, 1])
def test_torch_has_its_own_functions_back_when_nothing_records(last: int, tmp_path: Path) -> None:
    owners = ((autograd_profiler, "_prepare_profiler"), (autograd_profiler, "_enable_profiler"))
    before = [getattr(owner, name) for owner, name in owners]
    recorders = [TorchRecorder(RecordOptions(), tmp_path) for _ in range(2)]
    for recorder in recorders:
        recorder.arm()
    assert [getattr(owner, name) for owner, name in owners] != before
    recorders[1 - last].discard()
    recorders[last].start()
    recorders[last].stop()
    assert [getattr(owner, name) for owner, name in owners] == before


def test_discard_closes_an_open_step(tmp_path: Path) -> None:
    recorder = TorchRecorder(RecordOptions(keep_native=True), tmp_path)
    recorder.arm()
    recorder.start()
    recorder.mark_step(0)
    recorder.discard()
    assert not torch.autograd._profiler_enabled()


def test_a_native_failure_is_typed_and_chained(tmp_path: Path) -> None:
    recorder = TorchRecorder(RecordOptions(native_options={"no_such_option": 1}), tmp_path)
    with pytest.raises(NativeProfilerError, match="no_such_option") as caught:
        recorder.arm()
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_trace_that_cannot_be_written_is_a_native_failure(tmp_path: Path, record: Any) -> None:
    recorder = TorchRecorder(RecordOptions(), tmp_path / "missing")
    recorder.arm()
    recorder.start()
    with pytest.raises(NativeProfilerError, match="save"):
        recorder.stop()
    recorder.discard()
    assert "aten::ones" in names(record(work))


def test_a_verb_out_of_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="armed"):
        TorchRecorder(RecordOptions(), tmp_path).start()


def _two_steps(recorder: TorchRecorder) -> NativeCapture:
    recorder.arm()
    recorder.start()
    for step in (7, 8):
        recorder.mark_step(step)
        work()
    return recorder.stop()


def test_steps_are_annotated_in_a_trace_that_is_kept(tmp_path: Path) -> None:
    capture = _two_steps(TorchRecorder(RecordOptions(keep_native=True), tmp_path))
    table = KinetoNormalizer().normalize(capture)
    steps = table.filter(pa.compute.equal(table.column("kind"), "step"))
    assert steps.column("step").to_pylist() == [7, 8]
    assert steps.column("name").to_pylist() == ["ProfilerStep#7", "ProfilerStep#8"]


def test_steps_are_not_annotated_otherwise(tmp_path: Path) -> None:
    capture = _two_steps(TorchRecorder(RecordOptions(), tmp_path))
    assert not {name for name in names(capture) if name.startswith("ProfilerStep")}


def test_native_options_reach_torch(events: Callable[..., pa.Table]) -> None:
    table = events(work, native_options={"record_shapes": True})
    assert "[[3],[],[]]" in table.column("input_shapes").to_pylist()


def test_the_users_experimental_config_is_used(record: Any) -> None:
    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    recorder_options = {"experimental_config": config}
    assert "aten::ones" in names(record(work, native_options=recorder_options))
