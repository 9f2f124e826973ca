"""Reads the bytes that MindSpore's memory pool has allocated on each device.

Calls the function beneath `mindspore.runtime.memory_allocated`, which is public API whose calls may be traced. For the
memory of the host MindSpore always returns zero.
"""

from __future__ import annotations

import sys
from typing import Any

_DEVICES = {"Ascend": "npu", "GPU": "cuda"}
"""MindSpore's device names, and those of the event schema."""


def allocated_bytes() -> dict[str, int]:
    """Return the bytes in tensors by device; empty before the program has made MindSpore initialize the device."""
    native: Any = sys.modules["mindspore._c_expression"]
    devices = native.DeviceContextManager.get_instance()
    allocated = {}
    for target, name in _DEVICES.items():
        device = devices.get_device_context(target)
        if device is not None and device.initialized():
            number = native.MSContext.get_instance().get_param(native.ms_ctx_param.device_id)
            allocated[f"{name}:{number}"] = native._memory_stats(target)["total_allocated_memory"]
    return allocated
