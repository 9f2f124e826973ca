"""Assigns lanes to overlapping events whose threads are unknown, such that the events of a lane nest or are disjoint.

An event is never put inside another one that merely lasted longer on another thread, as it would count as its child.
Only calls, which wait for the events that they run, enclose others.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from unified_profiler.model.nesting import FIRST_LANE, Ints
from unified_profiler.model.tree import Flags

_BASE = FIRST_LANE + (1 << 36)  # above the lanes that readers number from FIRST_LANE on
_LANES_PER_NAME = 1 << 12


def lane_number(name: str, lane: int = 0) -> int:
    """Return the number of a lane of a device or allocator: the same in every run."""
    return _BASE + crc32(name.encode()) * _LANES_PER_NAME + lane


def assign_lanes(start: Ints, end: Ints, is_call: Flags | None = None) -> Ints:
    """Give each event the first lane that is free, or in which an open call lasts until the event's end.

    Without calls this is greedy interval partitioning: as many lanes as events run at once, which is the minimum.
    """
    order = np.lexsort((-end, start))
    spans = list(zip(start[order].tolist(), end[order].tolist(), strict=True))
    lanes: Ints = np.empty(len(order), np.int64)
    if is_call is None or not is_call.any():
        lanes[order] = _without_calls(spans)
    else:
        lanes[order] = _with_calls(spans, is_call[order].tolist())
    return lanes


def _without_calls(spans: Sequence[tuple[int, int]]) -> list[int]:
    """Assign lanes to events, given as start and end in this order, none of which encloses another."""
    free_at: list[int] = []
    lanes = []
    for start, end in spans:
        for lane, free in enumerate(free_at):  # noqa: B007  used after the loop
            if free <= start:
                break
        else:
            lane = len(free_at)
            free_at.append(0)
        lanes.append(lane)
        free_at[lane] = end if end > start else start + 1
    return lanes


def _with_calls(spans: Sequence[tuple[int, int]], is_call: Sequence[bool]) -> list[int]:
    """Assign lanes to events some of which are calls, given in the same way."""
    running: list[list[int]] = []
    lanes = []
    for event in range(len(spans)):
        lane = _first_fit(running, spans, is_call, event)
        running[lane].append(event)
        lanes.append(lane)
    return lanes


def _first_fit(lanes: list[list[int]], spans: Sequence[tuple[int, int]], is_call: Sequence[bool], event: int) -> int:
    """Return the lane of an event, a new one if none fits, and drop the events that have ended from the lanes."""
    start, end = spans[event]
    for number, running in enumerate(lanes):
        while running and max(spans[running[-1]][1], spans[running[-1]][0] + 1) <= start:
            running.pop()
        if not running or (is_call[running[-1]] and end <= spans[running[-1]][1]):
            return number
    lanes.append([])
    return len(lanes) - 1
