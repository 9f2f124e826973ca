"""What torch's caching allocators hold on each device, asked of the functions beneath `torch.cuda.memory_allocated`.

Those of Python are public API, whose calls may be being traced; and they flatten all statistics to give one. torch
does not tell what it holds in the memory of the host.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_DEVICES = ("cuda", "xpu", "npu")
"""Kinds of devices; of each, a module of torch and functions `_<kind>_memoryStats` and `_<kind>_getDeviceCount`."""


def allocated_bytes() -> dict[str, int]:
    """Return the bytes in tensors by device, of devices that held any at some time."""
    return {device: amount for kind in _DEVICES for device, amount in _of_kind(kind)}


def _of_kind(kind: str) -> Iterator[tuple[str, int]]:
    torch = sys.modules["torch"]
    if not getattr(getattr(torch, kind, None), "_initialized", False):
        return  # asking would initialize it
    functions: Any = sys.modules["torch_npu"]._C if kind == "npu" else torch._C
    statistics = getattr(functions, f"_{kind}_memoryStats")
    for number in range(getattr(functions, f"_{kind}_getDeviceCount")()):
        of_tensors = statistics(number).get("allocated_bytes", {}).get("all", {})
        if of_tensors.get("allocated") or of_tensors.get("current"):
            yield f"{kind}:{number}", of_tensors["current"]
