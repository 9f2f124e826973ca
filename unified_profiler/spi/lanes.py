"""Assigns lanes to overlapping events whose threads are unknown, such that the events of a lane nest or are disjoint.

An event is never put inside another one that merely lasted longer on another thread, as it would count as its child.
Only calls, which wait for the events that they run, enclose others.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import neg
from zlib import crc32

from unified_profiler.model.nesting import FIRST_LANE

_BASE = FIRST_LANE + (1 << 36)  # above the lanes that readers number from FIRST_LANE on
_LANES_PER_NAME = 1 << 12


def lane_number(name: str, lane: int = 0) -> int:
    """Return the number of a lane of a device or allocator: the same in every run."""
    return _BASE + crc32(name.encode()) * _LANES_PER_NAME + lane


def assign_lanes(start: Sequence[int], end: Sequence[int], is_call: Sequence[bool]) -> list[int]:
    """Give each event the first lane that is free, or in which an open call lasts until the event's end.

    Without calls this is greedy interval partitioning: as many lanes as events run at once, which is the minimum.
    """
    lanes: list[list[int]] = []
    assigned = [0] * len(start)
    order = sorted(zip(start, map(neg, end), range(len(start)), strict=True))
    if not any(is_call):
        return _without_calls(order, assigned)
    for _, _, event in order:
        assigned[event] = _first_fit(lanes, start, end, is_call, event)
        lanes[assigned[event]].append(event)
    return assigned


def _without_calls(order: Sequence[tuple[int, int, int]], assigned: list[int]) -> list[int]:
    """Assign lanes to events, given as start, negative end and index, none of which encloses another."""
    free_at: list[int] = []
    for start, negative_end, event in order:
        lane = 0
        while lane < len(free_at) and free_at[lane] > start:
            lane += 1
        assigned[event] = lane
        free_at[lane : lane + 1] = [max(-negative_end, start + 1)]
    return assigned


def _first_fit(
    lanes: list[list[int]], start: Sequence[int], end: Sequence[int], is_call: Sequence[bool], event: int
) -> int:
    """Return the lane of an event, a new one if none fits, and drop the events that have ended from the lanes."""
    for number, running in enumerate(lanes):
        while running and max(end[running[-1]], start[running[-1]] + 1) <= start[event]:
            running.pop()
        if not running or (is_call[running[-1]] and end[event] <= end[running[-1]]):
            return number
    lanes.append([])
    return len(lanes) - 1
