"""One name per device: ROCm numbers allocations and kernels differently."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from unified_profiler.spi import NativeCapture
from unified_profiler_torch.read.normalizer import KinetoNormalizer

HIP, CUDA, CPU = 6, 1, 0


def operator(index: int, *, hip: list[int], kernels: list[int], device_type: int = HIP, copies: int = 0) -> list[Any]:
    """Return an operator that allocates on some devices and launches a kernel or copy on each of others."""
    start = 100.0 * index

    def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": ts, "dur": dur, "args": args}

    events = [event("cpu_op", "aten::mm", start, 50.0)]
    for number in hip:
        args = {"Device Type": device_type, "Device Id": number, "Bytes": 4, "Total Allocated": 4}
        events.append({**event("cpu_instant_event", "[memory]", start + 1, 0.0, **args), "ph": "i"})
    for position, number in enumerate(kernels):
        cat, correlation = ("gpu_memcpy" if position < copies else "kernel"), 10 * index + position
        events.append(event("cuda_runtime", "hipLaunchKernel", start + 2 + position, 0.5, correlation=correlation))
        on_device = event(cat, "gemm", start + 20, 5.0, device=number, stream=position, correlation=correlation)
        events.append({**on_device, "pid": number, "tid": position})
    return events


def devices(tmp_path: Path, *operators: list[Any]) -> dict[str, set[str]]:
    """Return the devices of allocations and of work."""
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*chain(*operators)]}), encoding="ascii")
    rows = KinetoNormalizer().normalize(NativeCapture(backend="torch", files=(path,))).to_pylist()
    names: dict[str, set[str]] = {}
    for row in rows:
        names.setdefault(row["kind"], set()).add(row["device"])
    return names


def test_an_operator_that_allocates_and_computes_on_one_device_shows_which_it_is(tmp_path: Path) -> None:
    names = devices(tmp_path, operator(0, hip=[0], kernels=[2]), operator(1, hip=[1], kernels=[3]))
    assert names["memory"] == names["kernel"] == {"cuda:2", "cuda:3"}


def test_memory_has_its_recorded_number_where_no_operator_shows_the_device(tmp_path: Path) -> None:
    names = devices(tmp_path, operator(0, hip=[0], kernels=[]), operator(1, hip=[], kernels=[2]))
    assert (names["memory"], names["kernel"]) == ({"hip:0"}, {"cuda:2"})


@pytest.mark.parametrize(
    "operators",
    [
        [operator(0, hip=[0], kernels=[2]), operator(1, hip=[0], kernels=[3])],
        [operator(0, hip=[0], kernels=[2]), operator(1, hip=[1], kernels=[2])],
        [operator(0, hip=[0], kernels=[2, 3])],
        [operator(0, hip=[0, 1], kernels=[2])],
        [operator(0, hip=[0], kernels=[2], copies=1)],
    ],
)
def test_operators_that_disagree_or_use_several_devices_show_nothing(operators: list[Any], tmp_path: Path) -> None:
    assert devices(tmp_path, *operators)["memory"] <= {"hip:0", "hip:1"}


def test_memory_of_cuda_keeps_its_number(tmp_path: Path) -> None:
    names = devices(tmp_path, operator(0, hip=[1], kernels=[0], device_type=CUDA))
    assert names["memory"] == {"cuda:1"}


def test_memory_of_the_host_stays_there(tmp_path: Path) -> None:
    names = devices(tmp_path, operator(0, hip=[-1], kernels=[2], device_type=CPU))
    assert names["memory"] == {"cpu:0"}
