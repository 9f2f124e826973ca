"""`unified-profiler devices` on a trace whose device times are known by construction."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from unified_profiler.model.storage import write_parquet
from unified_profiler.presentation.kernel_names import short_kernel_names
from unified_profiler.testing.builders import TraceBuilder

Invoke = Callable[..., Result]
KINETO = Path(__file__).parents[2] / "golden" / "kineto"
CPU_ONLY = KINETO / "cpu_only_rank34.json.gz"
NCCL_RANK = KINETO / "nccl_rank.json.gz"
ON_HOST = {"layer": "runtime", "kind": "runtime", "device": "cpu:0"}
ON_DEVICE = {"layer": "runtime", "device": "cuda:0", "tid": 2}


@pytest.fixture
def gpu_trace(tmp_path: Path) -> Path:
    """A device that works from 30 to 130 and from 320 to 500 ns, where 420 to 500 is communication alone."""
    builder = TraceBuilder(first_step=0, last_step=0).step(0, 0, 600)
    for number, (operator, start) in enumerate([("aten::mm", 10), ("aten::relu", 300), ("c10d::allreduce_", 330)], 1):
        builder.op(operator, start - 2, 14, device="cpu:0")
        builder.op("cudaLaunchKernel", start, 10, correlation_id=number, **ON_HOST)
    kernel = {**ON_DEVICE, "kind": "kernel", "stream": 7, "step": 0}
    builder.op("gemm", 30, 100, correlation_id=1, **kernel)
    builder.op("relu", 320, 100, correlation_id=2, **kernel)
    collective = {**ON_DEVICE, "kind": "collective", "stream": 20, "step": 0, "tid": 3}
    builder.op("allreduce", 400, 100, correlation_id=3, **collective)
    path = tmp_path / "gpu.parquet"
    write_parquet(builder.build(), path)
    return path


def rows(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.stderr
    return [re.split(r"  +", line.strip()) for line in result.stdout.splitlines() if re.match(r" *\d+ +cuda:0 ", line)]


def test_each_device_has_a_row_and_the_verdict_follows(invoke: Invoke, gpu_trace: Path) -> None:
    result = invoke("devices", gpu_trace)
    assert rows(result)[0][:6] == ["0", "cuda:0", "0.470 us", "0.280 us", "0.190 us", "40.43%"]
    assert "cuda:0 was idle 40.4% of 0.470 us." in result.stdout
    assert "The host was too late in 40.4% of the time" in result.stdout


def test_the_last_line_is_the_command_for_what_takes_most_time(invoke: Invoke, gpu_trace: Path) -> None:
    last = invoke("devices", gpu_trace).stdout.splitlines()[-1]
    assert last == f"Kernels with the most time: unified-profiler devices {gpu_trace} --show kernels"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--show", "steps"], ["0", "cuda:0", "0", "0.470 us"]),
        (["--show", "streams"], ["0", "cuda:0", "7", "0.390 us"]),
        (["--show", "gaps"], ["0", "cuda:0", "0", "0.190 us", "host_late"]),
        (["--show", "gaps", "--by", "stream"], ["0", "cuda:0", "7", "0", "0.190 us", "host_late"]),
        (["--show", "launches", "--by", "stream"], ["0", "cuda:0", "7", "2", "0.020 us", "0.200 us"]),
        (["--show", "queues"], ["0", "cuda:0", "7", "4"]),
    ],
)
def test_the_other_tables_are_shown_on_request(
    invoke: Invoke, gpu_trace: Path, options: list[str], expected: list[str]
) -> None:
    assert rows(invoke("devices", gpu_trace, *options))[0][: len(expected)] == expected


def test_kernels_are_listed_without_collectives(invoke: Invoke, gpu_trace: Path) -> None:
    found = json.loads(invoke("devices", gpu_trace, "--show", "kernels", "--json").stdout)
    assert [(row["name"], row["duration_ns"]) for row in found] == [("gemm", 100), ("relu", 100)]


@pytest.mark.parametrize(("view", "column"), [("kernels", "name"), ("sequences", "sequence")])
def test_names_of_kernels_are_short_in_tables_and_whole_in_json(invoke: Invoke, view: str, column: str) -> None:
    table = invoke("devices", NCCL_RANK, "--show", view, "--row-limit", "1").stdout
    whole = json.loads(invoke("devices", NCCL_RANK, "--show", view, "--row-limit", "1", "--json").stdout)
    assert "void " not in table
    assert whole[0][column].startswith("void ")
    assert short_kernel_names(whole[0][column])[:12] in table


def test_streams_have_no_verdict_of_devices(invoke: Invoke, gpu_trace: Path) -> None:
    output = invoke("devices", gpu_trace, "--show", "streams").stdout
    assert "idle" not in output.splitlines()[-1]
    assert "devices were idle" not in output


def test_json_holds_verdict_devices_classes_and_steps(invoke: Invoke, gpu_trace: Path) -> None:
    found = json.loads(invoke("devices", gpu_trace, "--json").stdout)
    assert [statement["code"] for statement in found["verdict"]] == ["idle", "cause_host_late", "communication"]
    (device,), (step,) = found["devices"], found["steps"]
    assert (device["busy_ns"], device["idle_ns"], device["exposed_communication_ns"]) == (280, 190, 80)
    assert (step["step"], step["overlap_ns"]) == (0, 20)
    assert {row["classes"]: row["duration_ns"] for row in found["classes"]} == {
        "compute": 180,
        "communication": 80,
        "compute + communication": 20,
    }


def test_rows_beyond_the_limit_are_counted(invoke: Invoke, gpu_trace: Path) -> None:
    lines = invoke("devices", gpu_trace, "--show", "launches", "--row-limit", "1").stdout.splitlines()
    assert "Shown: 1 of 3 rows." in lines
    found = json.loads(invoke("devices", gpu_trace, "--show", "launches", "--row-limit", "1", "--json").stdout)
    assert len(found) == 1
    every = json.loads(invoke("devices", gpu_trace, "--show", "launches", "--row-limit", "0", "--json").stdout)
    assert len(every) == 3


def test_it_speaks_chinese(invoke: Invoke, gpu_trace: Path) -> None:
    output = invoke("devices", gpu_trace, "--language", "zh").stdout
    assert "cuda:0 在 0.470 us 中有 40.4% 处于空闲。" in output
    assert "用时最多的 kernel" in output


@pytest.mark.parametrize("options", [[], ["--show", "gaps"], ["--show", "steps"], ["--language", "zh"]])
def test_a_trace_of_the_cpu_says_that_there_is_no_device(invoke: Invoke, options: list[str]) -> None:
    result = invoke("devices", CPU_ONLY, *options)
    assert result.exit_code == 0, result.stderr
    sentence = "没有记录到设备的任务" if "zh" in options else "No work of a device was recorded"
    assert result.stdout.startswith(sentence)
    assert len(result.stdout.splitlines()) == 1


def test_a_device_without_copies_is_not_said_to_be_missing(invoke: Invoke, gpu_trace: Path) -> None:
    assert invoke("devices", gpu_trace, "--show", "copies").stdout == "The devices copied nothing.\n"


def test_a_grouping_that_a_table_does_not_have_is_refused(invoke: Invoke, gpu_trace: Path) -> None:
    result = invoke("devices", gpu_trace, "--show", "kernels", "--by", "stream")
    assert result.exit_code == 2
    assert "--by has no effect on kernels" in result.stderr
    unknown = invoke("devices", gpu_trace, "--show", "launches", "--by", "strem")
    assert unknown.exit_code == 2
    assert "stream" in unknown.stderr
