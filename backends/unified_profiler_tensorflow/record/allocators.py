"""Reads the bytes in use on each GPU from TensorFlow's eager context.

`tf.config.experimental.get_memory_info` returns the same numbers, but it is public API, whose calls may be traced, and
it creates the context if there is none. TensorFlow reports no host memory (or always zero), and none for v1 sessions,
which have their own devices.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from unified_profiler.spi.xplane.lanes import device_name


def allocated_bytes() -> dict[str, int]:
    """Return the bytes in use by device; empty until the program has initialized TensorFlow's devices."""
    context: Any = sys.modules["tensorflow.python.eager.context"].context_safe()
    if context is None or not context._initialized:
        return {}
    allocated = {}
    for index, device in enumerate(context.list_logical_devices("GPU")):
        with suppress(ValueError):  # some allocators keep no statistics
            allocated[device_name("GPU", index)] = context.get_memory_info(device.name)["current"]
    return allocated
