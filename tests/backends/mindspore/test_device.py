"""The way over `mindspore.profiler.profile` and its analysis, which accelerators need; here it runs on a CPU.

What a device itself would add is a made-up sample, see its README.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import pyarrow as pa
import pytest
from mindspore.profiler import AicoreMetrics, ProfilerLevel

from unified_profiler.errors import ConfigurationError, NativeProfilerError, TraceFormatError
from unified_profiler.model.assembly import assemble
from unified_profiler.spi import NativeCapture
from unified_profiler_mindspore.read.normalizer import MindSporeNormalizer
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.device_driver import DeviceDriver
from unified_profiler_mindspore.record.options import check_options, profile_arguments

SAMPLE = Path(__file__).parents[2] / "golden" / "mindspore" / "made_up_ascend_ms"
BASE_NS = 1_794_785_730_000_000_000

Work = Callable[[], ms.Tensor]


def normalized(path: Path) -> pa.Table:
    return MindSporeNormalizer().normalize(NativeCapture(backend="mindspore", files=(path,)))


# --- recording ------------------------------------------------------------------------------------------------------


def test_recording_over_profile_gives_the_same_and_its_analysis(
    tmp_path: Path, add: Work, capfd: pytest.CaptureFixture[str]
) -> None:
    driver = DeviceDriver({}, tmp_path)
    driver.start()
    add()
    capture = driver.stop()
    (folder,) = capture.files
    assert capfd.readouterr().out == ""
    host, analyzed = normalized(folder), normalized(folder / "ASCEND_PROFILER_OUTPUT")
    assert host.column("name").to_pylist()[:1] == ["Add"]
    assert analyzed.column("name").to_pylist() == ["Add"]
    (difference,) = pa.compute.subtract(analyzed.column("start_ns"), host.slice(0, 1).column("start_ns")).to_pylist()
    assert abs(difference) < 1000  # the analysis multiplies nanoseconds by 0.001, as a float
    assert analyzed.column("duration_ns").to_pylist() == host.slice(0, 1).column("duration_ns").to_pylist()


def test_a_recording_over_profile_that_is_given_up_is_not_analyzed(tmp_path: Path, add: Work) -> None:
    driver = DeviceDriver({}, tmp_path)
    driver.start()
    add()
    driver.abandon()
    assert not list(tmp_path.rglob("trace_view.json"))
    assert not native.is_profiler_active()


def test_the_output_directory_is_nobody_elses(tmp_path: Path) -> None:
    driver = DeviceDriver({}, tmp_path / "ours")
    driver.start()
    driver.abandon()
    with native.output_below(str(tmp_path / "theirs")):
        theirs = ms.profiler.profile(activities=[ms.profiler.ProfilerActivity.CPU])
    theirs.stop()
    assert len(list((tmp_path / "ours").iterdir())) == 1
    assert len(list((tmp_path / "theirs").iterdir())) == 1


def test_a_failure_that_mindspore_only_logs_is_raised_and_leaves_the_profiler_free(tmp_path: Path) -> None:
    driver = DeviceDriver({}, tmp_path)
    driver.start()
    driver._profile.action_controller.on_trace_ready = lambda _: 1 / 0
    with pytest.raises(NativeProfilerError, match="failed to stop"):
        driver.stop()
    assert not native.is_profiler_active()


def test_a_directory_that_cannot_be_made_is_a_native_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    driver = DeviceDriver({}, tmp_path / "file" / "below")
    with pytest.raises(NativeProfilerError, match="did not start"):
        driver.start()


@pytest.mark.parametrize(("target", "activity"), [("Ascend", "NPU"), ("GPU", "GPU")])
def test_the_devices_activity_is_asked_for(
    target: str, activity: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ms, "get_context", lambda _: target)
    found = DeviceDriver({}, tmp_path)._arguments["activities"]
    assert [kind.name for kind in found] == ["CPU", activity]


def test_options_of_earlier_versions_become_those_of_today() -> None:
    assert check_options({"hccl": True, "aicore_metrics": 1}) == {
        "profiler_level": ProfilerLevel.Level1,
        "aic_metrics": AicoreMetrics.PipeUtilization,
    }
    assert check_options({"hccl": False, "aicore_metrics": -1}) == {"aic_metrics": AicoreMetrics.AiCoreNone}
    assert check_options({"hccl": True, "profiler_level": "Level2"}) == {"profiler_level": ProfilerLevel.Level2}
    with pytest.raises(ConfigurationError, match="aic_metrics"):
        check_options({"aicore_metrics": 99})


def test_native_options_go_to_profile_or_its_config() -> None:
    options = check_options({"data_process": True, "profiler_level": "Level1", "aic_metrics": "PipeUtilization"})
    arguments = profile_arguments(options)
    assert arguments.keys() == {"data_process", "experimental_config"}
    config: Any = arguments["experimental_config"]
    assert config.profiler_level is ms.profiler.ProfilerLevel.Level1
    assert config.aic_metrics is ms.profiler.AicoreMetrics.PipeUtilization


# --- the sample of a device -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample() -> list[dict[str, Any]]:
    return list(assemble([normalized(SAMPLE)]).to_pylist())


def one(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    (row,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return row


def test_it_is_recognized_as_a_whole_and_by_its_parts() -> None:
    normalizer = MindSporeNormalizer()
    output = SAMPLE / "ASCEND_PROFILER_OUTPUT"
    assert all(normalizer.recognizes(path) for path in (SAMPLE, output, output / "trace_view.json"))
    assert not normalizer.recognizes(SAMPLE / "profiler_info_2.json")


def test_a_timeline_of_torch_on_the_same_device_is_not_recognized(tmp_path: Path) -> None:
    trace = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Python"}}]
    (tmp_path / "trace_view.json").write_text(json.dumps(trace))
    assert not MindSporeNormalizer().recognizes(tmp_path)


def test_a_kernel_has_all_that_the_tables_say(sample: list[dict[str, Any]]) -> None:
    row = one(sample, name="aclnnMatmul_MatMulV3Common_MatMulV2")
    assert (row["layer"], row["kind"], row["device"], row["pid"], row["stream"]) == ("runtime", "kernel", "npu:5", 5, 2)
    assert (row["start_ns"], row["duration_ns"]) == (BASE_NS + 400_000, 40_125)
    assert (row["op"], row["origin"], row["direction"]) == ("MatMul", "Gemm", "backward")
    assert (row["input_shapes"], row["input_types"]) == ("[[16,10],[10,256]]", '["FLOAT","FLOAT"]')
    assert (row["output_shapes"], row["output_types"]) == ("[[16,256]]", '["FLOAT"]')
    attributes = json.loads(row["attributes"])
    assert (attributes["Type"], attributes["Accelerator Core"], attributes["aic_mac_ratio"]) == (
        "MatMulV2",
        "AI_CORE",
        "0.655",
    )


def test_the_launch_of_an_operator_is_the_operator(sample: list[dict[str, Any]]) -> None:
    row = one(sample, kind="op", name="Conv2D")
    assert (row["layer"], row["device"], row["tid"]) == ("framework", "cpu:0", 4711)
    assert (row["module"], row["origin"], row["direction"]) == ("network._backbone.conv", "Conv", "forward")


def test_calls_nest_in_the_operator_that_made_them_and_are_linked_with_what_they_launched(
    sample: list[dict[str, Any]],
) -> None:
    call = one(sample, name="AscendCL@aclnnConvolution")
    operator = one(sample, kind="op", name="Conv2D")
    kernel = one(sample, kind="kernel", module="network._backbone.conv")
    assert call["parent_id"] == operator["id"]
    assert call["correlation_id"] == kernel["correlation_id"] is not None


def test_work_of_a_device_is_in_the_step_of_its_launch(sample: list[dict[str, Any]]) -> None:
    assert one(sample, kind="step")["step"] == 7
    assert {row["step"] for row in sample if row["kind"] == "kernel"} == {7}


def test_copies_collectives_and_counters_are_what_they_are(sample: list[dict[str, Any]]) -> None:
    assert one(sample, name="MEMCPY_ASYNC")["kind"] == "copy"
    assert one(sample, name="hcom_allReduce__428_0_1")["kind"] == "collective"
    assert one(sample, name="AI Core Freq")["value"] == 1650


def with_device_tasks(copy: Path, tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of the sample with more entries on stream 2 of the device, or arrows."""
    path = copy / "trace_view.json"
    defaults = {"ph": "X", "pid": 32, "tid": 2, "dur": "2.000", "cat": "", "args": {}}
    path.write_text(json.dumps([*json.loads(path.read_text()), *(defaults | task for task in tasks)]))
    return list(assemble([normalized(copy)]).to_pylist())


@pytest.mark.parametrize(
    ("name", "task_type", "kind"),
    [
        ("EVENT_WAIT", "EVENT_WAIT", "runtime"),
        ("NOTIFY_WAIT", "NOTIFY_WAIT", "runtime"),
        ("EVENT_RECORD", "EVENT_RECORD", "runtime"),
        ("hcom_allGather__428_1_1", "AI_CPU", "collective"),
        ("aclnnInplaceCopy", "MEMCPY_ASYNC", "copy"),
        ("WaitAndAdd", "AI_CORE", "kernel"),
    ],
)
def test_the_tasks_of_a_stream_are_work_or_synchronization(name: str, task_type: str, kind: str, copy: Path) -> None:
    task = {"name": name, "ts": "1794785730000460.000", "args": {"Task Type": task_type}}
    row = one(with_device_tasks(copy, [task]), name=name)
    assert (row["kind"], row["layer"], row["device"], row["stream"]) == (kind, "runtime", "npu:5", 2)


def test_all_kernels_that_a_call_launched_are_linked_with_it(copy: Path) -> None:
    second = {"name": "TransData", "ts": "1794785730000385.000"}
    arrow = {"name": "HostToDevice8", "id": "34359738368", "cat": "HostToDevice", "bp": "e"}
    begin = arrow | {"ph": "s", "pid": 31, "tid": 4711, "ts": "1794785730000130.000"}
    rows = with_device_tasks(copy, [second, begin, arrow | {"ph": "f", "ts": second["ts"]}])
    call = one(rows, name="AscendCL@aclnnConvolution")["correlation_id"]
    assert {row["name"].rpartition("/")[2] for row in rows if row["correlation_id"] == call} == {
        "AscendCL@aclnnConvolution",
        "Conv2D-op0",
        "TransData",
    }


def test_kernels_of_the_host_are_operators(sample: list[dict[str, Any]]) -> None:
    row = one(sample, name="Cast", kind="op")
    assert (row["device"], row["thread"], row["direction"]) == ("cpu:0", "mindspore operators", "forward")


def test_what_is_derived_from_the_rest_is_left_out(sample: list[dict[str, Any]]) -> None:
    assert not {"network-WithLossCell", "Computing"} & {row["name"] for row in sample}


def test_allocations_and_releases_are_memory(sample: list[dict[str, Any]]) -> None:
    rows = [row for row in sample if row["kind"] == "memory"]
    assert sorted((row["name"], row["start_ns"] - BASE_NS, row["bytes"], row["value"]) for row in rows) == [
        ("Conv2D", 118_000, 12_800, 3.5 * 2**20),
        ("Conv2D", 380_000, -12_800, 3.25 * 2**20),
        ("MatMul", 198_000, 4_096, 3.75 * 2**20),
    ]
    assert {row["device"] for row in rows} == {"npu:5"}


def test_memory_over_time_is_a_counter(sample: list[dict[str, Any]]) -> None:
    rows = [row for row in sample if row["name"] == "MindSpore Total Allocated(MB)"]
    assert [(row["start_ns"] - BASE_NS, row["value"]) for row in rows] == [(118_000, 3.5), (198_000, 3.75)]


def test_versions_rank_and_step_times_are_known(sample: list[dict[str, Any]]) -> None:
    native_said = json.loads(normalized(SAMPLE).schema.metadata[b"native"])
    assert (native_said["framework_version"], native_said["cann_version"]) == ("2.10.0", "8.1.RC1")
    assert native_said["step_trace_time"][0]["Computing"] == "120.875"
    assert {row["rank"] for row in sample} == {2}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "copy")) / "ASCEND_PROFILER_OUTPUT"


@pytest.mark.parametrize("name", ["trace_view.json", "kernel_details.csv", "operator_memory.csv", "memory_record.csv"])
def test_a_file_that_was_cut_off_is_refused(name: str, copy: Path) -> None:
    (copy / name).write_bytes((copy / name).read_bytes()[:-25])
    with pytest.raises(TraceFormatError, match=name):
        normalized(copy)


def test_tables_that_are_missing_cost_only_what_they_say(copy: Path) -> None:
    for file in copy.glob("*.csv"):
        file.unlink()
    rows = normalized(copy).to_pylist()
    assert one(rows, name="aclnnMatmul_MatMulV3Common_MatMulV2")["direction"] == "backward"
