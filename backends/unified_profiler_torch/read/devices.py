"""Names the devices of Kineto events: `cpu:0`, `cuda:0`, `xpu:1`.

Work is numbered by the driver, allocations by torch. With CUDA these numbers are the same. With ROCm they differ if the
process saw only some of the devices, and allocations have the device type `hip`, which torch itself calls `cuda`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unified_profiler.model.columns import Index, distinct_pairs
from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags
from unified_profiler_torch.read.args_layouts import MISSING
from unified_profiler_torch.read.categories import DEVICE_TYPES, HIP


@dataclass(frozen=True)
class EventDevices:
    """Columns from which the devices of events follow."""

    number: Ints
    """Number of the device, `MISSING` where none was recorded."""
    device_type: Ints
    """`Device Type` of allocations, `MISSING` for all other events."""
    on_device: Flags
    lane: Ints
    """Process of each event, which is the device's number for events on a device."""
    accelerator: str
    """torch's name of the accelerator."""

    def names(self, same_device: Mapping[int, int]) -> tuple[Ints, list[str]]:
        """Return the device of each event, as codes and texts.

        Args:
            same_device: The result of `same_devices`.
        """
        devices = Index({"cpu:0": 0})
        codes = np.zeros(len(self.number), np.int64)
        for rows in (np.flatnonzero(self.on_device), np.flatnonzero(self.device_type != MISSING)):
            types, numbers, index = distinct_pairs(self.device_type[rows], self._numbers(rows))
            pairs = zip(types.tolist(), numbers.tolist(), strict=True)
            named = [devices[self._name(device_type, number, same_device)] for device_type, number in pairs]
            codes[rows] = np.array(named, np.int64)[index]
        return codes, list(devices)

    @property
    def has_hip(self) -> bool:
        """Whether there are allocations of type `hip`."""
        return bool((self.device_type == HIP).any())

    def same_devices(self, operator: Ints, kernels: tuple[Ints, Ints]) -> dict[int, int]:
        """Return the driver's number of each device that allocations of type `hip` refer to, where the file proves it.

        An operator that allocates on one device only and launches kernels on one device only uses one device. The
        numbers belong together if all such operators agree.

        Args:
            operator: The outermost operator around each event, -1 for none.
            kernels: Rows of kernels, and the outermost operator that launched each.
        """
        rows = np.flatnonzero(self.device_type == HIP)
        allocated = _only_device(operator[rows], self._numbers(rows))
        ran = _only_device(kernels[1], self._numbers(kernels[0]))
        pairs = {(allocated[op], ran[op]) for op in allocated.keys() & ran.keys()}
        sides = list(zip(*pairs, strict=True))
        return dict(pairs) if all(len(set(side)) == len(side) for side in sides) else {}

    def _numbers(self, rows: Ints) -> Ints:
        return np.where(self.number[rows] == MISSING, self.lane[rows], self.number[rows])

    def _name(self, device_type: int, number: int, same_device: Mapping[int, int]) -> str:
        if device_type == HIP and number in same_device:
            return f"{self.accelerator}:{max(same_device[number], 0)}"
        return f"{DEVICE_TYPES.get(device_type, self.accelerator)}:{max(number, 0)}"


def _only_device(operator: Ints, device: Ints) -> dict[int, int]:
    """Return the device of each operator that has exactly one."""
    operators, devices, _ = distinct_pairs(operator, device)
    count = Counter(operators.tolist())
    pairs = zip(operators.tolist(), devices.tolist(), strict=True)
    return {op: number for op, number in pairs if op >= 0 and count[op] == 1}
