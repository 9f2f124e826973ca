"""What NVML tells of NVIDIA's GPUs, if the optional package `nvidia-ml-py` and a driver are there."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any

from unified_profiler.recording.hardware.counters import GPU_MEMORY, GPU_UTILIZATION
from unified_profiler.recording.hardware.readings import Reading

VISIBLE = "CUDA_VISIBLE_DEVICES"


def nvml_is_there() -> bool:
    """Say whether the package is installed, without loading it."""
    return "pynvml" in sys.modules or importlib.util.find_spec("pynvml") is not None


class Gpus:
    """The GPUs that this process can see, in the order in which CUDA counts them.

    NVML is asked for the first time at the first reading and stays open, since that takes a while; it counts by itself
    how often it was opened and ends with the process.
    """

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] | None = None

    def read(self) -> Iterator[Reading]:
        """Read all GPUs; what one of them does not tell, as parts of a GPU do not, is left out."""
        if self._handles is None:
            self._handles = list(self._open())
        for number, handle in enumerate(self._handles):
            device = f"cuda:{number}"
            busy = self._ask("nvmlDeviceGetUtilizationRates", handle)
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
            if busy is not None:
                yield Reading(GPU_UTILIZATION, busy.gpu, device)
            if memory is not None:
                yield Reading(GPU_MEMORY, memory.used, device)

    def _ask(self, function: str, handle: Any) -> Any:
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
            return  # no GPU of NVIDIA's here
        count = pynvml.nvmlDeviceGetCount()
        for name in visible_names(count):
            if name.isdecimal():
                yield pynvml.nvmlDeviceGetHandleByIndex(int(name))
            else:
                yield pynvml.nvmlDeviceGetHandleByUUID(name)


def visible_names(count: int) -> list[str]:
    """Return numbers or UUIDs of the GPUs that CUDA shows to this process: all up to the first that is none."""
    given = os.environ.get(VISIBLE)
    if given is None:
        return [str(number) for number in range(count)]
    names: list[str] = []
    for name in (item.strip() for item in given.split(",")):
        if (name.isdecimal() and int(name) < count) or name.startswith(("GPU-", "MIG-")):
            names.append(name)
        else:
            break
    return names
