"""Reads the bytes that torch's caching allocators have given out on each device.

Calls the native functions beneath `torch.cuda.memory_allocated`: the Python functions are public API, whose calls may
be traced, and flatten all statistics to return one. torch does not report its host memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_DEVICE_TYPES = ("cuda", "xpu", "npu")
"""Device types; each has a torch module and functions `_<type>_memoryStats` and `_<type>_getDeviceCount`."""


def allocated_bytes() -> dict[str, int]:
    """Return the bytes in tensors by device, for devices that have held any."""
    return {device: size for device_type in _DEVICE_TYPES for device, size in _allocated_on(device_type)}


def _allocated_on(device_type: str) -> Iterator[tuple[str, int]]:
    torch = sys.modules["torch"]
    if not getattr(getattr(torch, device_type, None), "_initialized", False):
        return  # the calls below would initialize it
    functions: Any = sys.modules["torch_npu"]._C if device_type == "npu" else torch._C
    statistics = getattr(functions, f"_{device_type}_memoryStats")
    for number in range(getattr(functions, f"_{device_type}_getDeviceCount")()):
        tensor_bytes = statistics(number).get("allocated_bytes", {}).get("all", {})
        if tensor_bytes.get("allocated") or tensor_bytes.get("current"):
            yield f"{device_type}:{number}", tensor_bytes["current"]
