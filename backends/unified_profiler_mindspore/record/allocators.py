"""What MindSpore's memory pool holds on the device, asked of the function beneath `mindspore.runtime.memory_allocated`.

That of Python is public API, whose calls may be being traced. For the memory of the host MindSpore always tells zero.
"""

from __future__ import annotations

import sys
from typing import Any

_DEVICES = {"Ascend": "npu", "GPU": "cuda"}
"""MindSpore's names of devices, and those of the event schema."""


def allocated_bytes() -> dict[str, int]:
    """Return the bytes in tensors by device; nothing before the program has made MindSpore set the device up."""
    native: Any = sys.modules["mindspore._c_expression"]
    devices = native.DeviceContextManager.get_instance()
    found = {}
    for target, name in _DEVICES.items():
        device = devices.get_device_context(target)
        if device is not None and device.initialized():
            number = native.MSContext.get_instance().get_param(native.ms_ctx_param.device_id)
            found[f"{name}:{number}"] = native._memory_stats(target)["total_allocated_memory"]
    return found
