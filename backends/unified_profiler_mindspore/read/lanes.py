"""Assigns kernels to lanes, because MindSpore does not record on which thread they ran; kernels never nest."""

from __future__ import annotations

import heapq

import numpy as np

from unified_profiler.model.nesting import FIRST_LANE, Ints

KERNEL_LANE = FIRST_LANE + (1 << 20)
"""The first lane of kernels, far above the lanes that other frameworks in the same trace may use."""

OPERATORS = "mindspore operators"
"""Name of the lanes of operators on the host.

MindSpore does not record which thread ran their kernels, only that it is not the program's.
"""


def lanes_of(start_ns: Ints, duration_ns: Ints) -> Ints:
    """Return a lane for each kernel so that no two in a lane overlap: one lane, unless kernels ran concurrently.

    Args:
        start_ns: Start of each kernel, in ascending order.
        duration_ns: Duration of each kernel; zero counts as one nanosecond.
    """
    end = start_ns + np.maximum(duration_ns, 1)
    if not len(start_ns) or np.all(start_ns[1:] >= end[:-1]):
        return np.full(len(start_ns), KERNEL_LANE, np.int64)
    free: list[tuple[int, int]] = []  # (end of the last kernel, lane)
    lane = np.empty(len(start_ns), np.int64)
    for row, (begin, finish) in enumerate(zip(start_ns.tolist(), end.tolist(), strict=True)):
        number = heapq.heappop(free)[1] if free and free[0][0] <= begin else len(free)
        lane[row] = KERNEL_LANE + number
        heapq.heappush(free, (finish, number))
    return lane
