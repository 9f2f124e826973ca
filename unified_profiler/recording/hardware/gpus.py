"""Reads NVIDIA GPUs through NVML, if the optional package `nvidia-ml-py` and a driver are installed."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from unified_profiler.recording.hardware.counters import GPU_MEMORY, GPU_UTILIZATION
from unified_profiler.recording.hardware.readings import Reading

VISIBLE = "CUDA_VISIBLE_DEVICES"


def is_nvml_installed() -> bool:
    """Return whether the package is installed, without importing it."""
    return "pynvml" in sys.modules or importlib.util.find_spec("pynvml") is not None


class Gpus:
    """The GPUs that are visible to this process, in the order of CUDA.

    NVML is opened at the first reading, since that is slow, and stays open until the process ends. It counts by itself
    how often it was opened.
    """

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] | None = None

    def read(self) -> Iterator[Reading]:
        """Read all GPUs, without the values that a device does not support, such as those of a part of a GPU."""
        if self._handles is None:
            self._handles = list(self._open())
        for number, handle in enumerate(self._handles):
            device = f"cuda:{number}"
            utilization = self._query("nvmlDeviceGetUtilizationRates", handle)
            memory = self._query("nvmlDeviceGetMemoryInfo", handle)
            if utilization is not None:
                yield Reading(GPU_UTILIZATION, utilization.gpu, device)
            if memory is not None:
                yield Reading(GPU_MEMORY, memory.used, device)

    def _query(self, function: str, handle: Any) -> Any:
        try:
            return getattr(self._nvml, function)(handle)
        except self._nvml.NVMLError_NotSupported:
            return None

    def _open(self) -> Iterator[Any]:
        import pynvml

        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
        except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
            return  # no NVIDIA GPU
        count = pynvml.nvmlDeviceGetCount()
        for name in visible_names(count):
            by_index = name.isdecimal()
            yield pynvml.nvmlDeviceGetHandleByIndex(int(name)) if by_index else pynvml.nvmlDeviceGetHandleByUUID(name)


def visible_names(count: int) -> list[str]:
    """Return indices or UUIDs of the GPUs that CUDA shows to this process: all up to the first invalid one."""
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return [str(number) for number in range(count)]

    def is_valid(name: str) -> bool:
        return (name.isdecimal() and int(name) < count) or name.startswith(("GPU-", "MIG-"))

    return list(takewhile(is_valid, map(str.strip, visible.split(","))))
