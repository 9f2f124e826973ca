"""Processes, threads and streams: Kineto's pid and tid, numbers or words, as the numbers of the event schema."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unified_profiler.model.foreign_values import LARGEST, whole
from unified_profiler.model.nesting import FIRST_LANE, Ints
from unified_profiler.model.tree import Flags
from unified_profiler_torch.read.rows import Label, Place

_LARGEST = LARGEST >> 1
"""A larger number is no thread of an operating system, and is treated as a word: the lane beside it has one, too."""


def lane_numbers(places: Sequence[Place]) -> tuple[Ints, Ints]:
    """Return process and thread number of each place; words get the main process and a lane of their own."""
    lanes = [(place.pid, place.tid) for place in places]
    processes = Counter(pid for pid, _ in lanes if isinstance(pid, int) and 0 < pid <= _LARGEST)
    main = processes.most_common(1)[0][0] if processes else 0
    pids = np.array([main if (number := _number(pid)) is None else number for pid, _ in lanes], np.int64)
    tids = [_number(tid) for _, tid in lanes]
    words = {lane: FIRST_LANE + i for i, (lane, tid) in enumerate(zip(lanes, tids, strict=True)) if tid is None}
    return pids, np.array(
        [words[lane] if tid is None else tid for lane, tid in zip(lanes, tids, strict=True)], np.int64
    )


def thread_names(places: Sequence[Place], labels: Iterable[Label]) -> list[str | None]:
    """Return the name of each place's lane, where the trace gives one."""
    lanes = [(place.pid, place.tid) for place in places]
    named = {label.lane: label.args.get("name") for label in labels if label.what == "thread_name"}
    return [named.get(lane) or (lane[1] if isinstance(lane[1], str) and lane[1] else None) for lane in lanes]


def process_names(labels: Iterable[Label]) -> dict[str, dict[str, Any]]:
    """Return what the trace says about each process or device: name and labels."""
    found: dict[str, dict[str, Any]] = {}
    for label in labels:
        if label.what in {"process_name", "process_labels"}:
            found.setdefault(str(label.lane[0]), {}).update(label.args)
    return found


def begun_within(spans: Flags, start: Ints, end: Ints, tid: Ints) -> Flags:
    """Say which events begin while one of the spans runs on their thread, also those that overlap it partly."""
    found = np.zeros(len(start), np.bool_)
    for thread in np.unique(tid[spans]):
        here = np.flatnonzero(tid == thread)
        around = here[spans[here]]
        around = around[np.argsort(start[around], kind="stable")]
        until = np.maximum.accumulate(end[around])
        last = np.searchsorted(start[around], start[here], side="right") - 1
        found[here] = (last >= 0) & (start[here] < until[np.maximum(last, 0)])
    return found


def _number(value: int | str) -> int | None:
    if isinstance(value, int):
        return whole(value, largest=_LARGEST)
    found = re.search(r"(?<!\d)\d{1,18}$", value)  # "stream 7" of older traces
    return int(found.group()) if found else None
