"""Lanes for nodes whose threads are not known: RunMetadata has thread 0 for all, although they overlap.

In a lane nodes follow each other. None is put inside another that merely lasted longer, on another thread: it would
count as its child. Only calls of functions, which wait for the nodes of the function, enclose others.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from unified_profiler.model.nesting import FIRST_LANE

CALLS = frozenset(
    {
        *("PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "SymbolicGradient", "BatchFunction"),
        *("While", "StatelessWhile", "_While", "If", "StatelessIf", "_If", "Case", "StatelessCase", "For"),
    }
)
"""Types of nodes that run other nodes and end after them."""

_BASE = FIRST_LANE + (1 << 36)  # above the lanes that others number from FIRST_LANE on
_LANES_PER_NAME = 1 << 12


def lane_number(name: str, lane: int = 0) -> int:
    """Return the number of a lane: the same in every run for the same device or allocator."""
    return _BASE + crc32(name.encode()) * _LANES_PER_NAME + lane


def lay_out(start: Sequence[int], end: Sequence[int], is_call: Sequence[bool]) -> list[int]:
    """Give each node the first lane that is free, or in which a call is open that lasts until its end.

    Where no node is a call these are as few lanes as there can be: as many as nodes run at once.
    """
    lanes: list[list[int]] = []
    chosen = [0] * len(start)
    for node in sorted(range(len(start)), key=lambda i: (start[i], -end[i], i)):
        chosen[node] = _first_fit(lanes, start, end, is_call, node)
        lanes[chosen[node]].append(node)
    return chosen


def _first_fit(
    lanes: list[list[int]], start: Sequence[int], end: Sequence[int], is_call: Sequence[bool], node: int
) -> int:
    """Return the lane of a node, a new one if need be; in each lane, only the nodes that are still running are kept."""
    for number, running in enumerate(lanes):
        while running and max(end[running[-1]], start[running[-1]] + 1) <= start[node]:
            running.pop()
        if not running or (is_call[running[-1]] and end[node] <= end[running[-1]]):
            return number
    lanes.append([])
    return len(lanes) - 1
