"""Lanes for kernels: MindSpore does not say on which thread they ran, and one kernel never encloses another."""

from __future__ import annotations

import heapq

import numpy as np

from unified_profiler.model.nesting import FIRST_LANE, Ints

KERNEL_LANE = FIRST_LANE + (1 << 20)
"""The first lane of kernels, well apart from the lanes that other frameworks in the same trace may have."""


def lanes_of(start_ns: Ints, duration_ns: Ints) -> Ints:
    """Return a lane for each kernel such that no two in a lane overlap: one lane, unless kernels ran side by side.

    Args:
        start_ns: When each began, in order.
        duration_ns: How long each took; one that took no time counts as taking a nanosecond.
    """
    end = start_ns + np.maximum(duration_ns, 1)
    if not len(start_ns) or np.all(start_ns[1:] >= end[:-1]):
        return np.full(len(start_ns), KERNEL_LANE, np.int64)
    free: list[tuple[int, int]] = []  # when each lane is free again
    lane = np.empty(len(start_ns), np.int64)
    for row, (begin, finish) in enumerate(zip(start_ns.tolist(), end.tolist(), strict=True)):
        number = heapq.heappop(free)[1] if free and free[0][0] <= begin else len(free)
        lane[row] = KERNEL_LANE + number
        heapq.heappush(free, (finish, number))
    return lane
