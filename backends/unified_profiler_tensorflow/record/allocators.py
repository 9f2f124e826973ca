"""What TensorFlow's allocators hold on each GPU, asked of the eager context.

`tf.config.experimental.get_memory_info` asks the same, but is public API, whose calls may be being traced, and makes
the context if there is none. Of the memory of the host TensorFlow tells nothing, or always zero; of that of v1
sessions, which have devices of their own, nothing.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from unified_profiler.spi.xplane.lanes import device_name


def allocated_bytes() -> dict[str, int]:
    """Return the bytes in use by device; nothing before the program has made TensorFlow set up its devices."""
    context: Any = sys.modules["tensorflow.python.eager.context"].context_safe()
    if context is None or not context._initialized:
        return {}
    found = {}
    for number, device in enumerate(context.list_logical_devices("GPU")):
        with suppress(ValueError):  # some allocators keep no account
            found[device_name("GPU", number)] = context.get_memory_info(device.name)["current"]
    return found
