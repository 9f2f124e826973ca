"""GPUs through a small NVML of our own: there is none here."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from unified_profiler.recording.hardware.gpus import Gpus, is_nvml_installed, visible_names
from unified_profiler.recording.hardware.sources import machine_sources


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):  # noqa: N801, N818  its name in NVML
    pass


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801, N818
    pass


class NVMLError_DriverNotLoaded(NVMLError):  # noqa: N801, N818
    pass


class Nvml(ModuleType):
    """Three GPUs, each busy with ten times its number."""

    NVMLError_NotSupported = NVMLError_NotSupported
    NVMLError_LibraryNotFound = NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = NVMLError_DriverNotLoaded

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.opened = 0
        self.fails_with: type[NVMLError] | None = None
        self.silent: set[int] = set()

    def nvmlInit(self) -> None:  # noqa: N802
        self.opened += 1
        if self.fails_with is not None:
            raise self.fails_with

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, name: str) -> int:  # noqa: N802
        return {"GPU-aa": 0, "GPU-bb": 1, "GPU-cc": 2}[name]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        if handle in self.silent:
            raise NVMLError_NotSupported
        return SimpleNamespace(gpu=10 * handle, memory=1)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=1000 + handle, total=9000)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    module = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return module


def readings(gpus: Gpus) -> list[tuple[str, str | None, float]]:
    return [(reading.counter.name, reading.device, reading.amount) for reading in gpus.read()]


def test_each_gpu_tells_utilization_and_memory(nvml: Nvml) -> None:
    assert readings(Gpus()) == [
        ("GPU utilization %", "cuda:0", 0),
        ("GPU memory used bytes", "cuda:0", 1000),
        ("GPU utilization %", "cuda:1", 10),
        ("GPU memory used bytes", "cuda:1", 1001),
        ("GPU utilization %", "cuda:2", 20),
        ("GPU memory used bytes", "cuda:2", 1002),
    ]


def test_nvml_is_opened_once(nvml: Nvml) -> None:
    gpus = Gpus()
    assert readings(gpus) == readings(gpus)
    assert nvml.opened == 1


@pytest.mark.parametrize("visible", ["2,0", "GPU-cc,GPU-aa", " 2 , GPU-aa ", "2,0,-1,1", "2,0,7"])
def test_gpus_are_numbered_as_cuda_numbers_them(nvml: Nvml, visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = [(device, amount) for name, device, amount in readings(Gpus()) if name == "GPU memory used bytes"]
    assert found == [("cuda:0", 1002), ("cuda:1", 1000)]


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_gpus_that_are_hidden_tell_nothing(visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_names(3) == []


@pytest.mark.parametrize("reason", [NVMLError_LibraryNotFound, NVMLError_DriverNotLoaded])
def test_a_machine_without_a_driver_has_no_gpus(nvml: Nvml, reason: type[NVMLError]) -> None:
    nvml.fails_with = reason
    gpus = Gpus()
    assert readings(gpus) == readings(gpus) == []
    assert nvml.opened == 1


def test_what_a_gpu_does_not_tell_is_left_out(nvml: Nvml) -> None:
    nvml.silent = {0, 2}
    assert [device for name, device, _ in readings(Gpus()) if name == "GPU utilization %"] == ["cuda:1"]


def test_any_other_failure_is_one(nvml: Nvml) -> None:
    nvml.fails_with = NVMLError
    with pytest.raises(NVMLError):
        readings(Gpus())


def test_without_the_package_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "the GPUs" not in [source.name for source in machine_sources()] or is_nvml_installed()
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    assert "the GPUs" in [source.name for source in machine_sources()]
