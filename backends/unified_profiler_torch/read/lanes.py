"""Converts Kineto's process and thread identifiers, integers or strings, to the integers of the event schema."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unified_profiler.model.foreign_values import LARGEST, int_or_none
from unified_profiler.model.nesting import FIRST_LANE, Ints
from unified_profiler.model.tree import Flags
from unified_profiler_torch.read.labels import EventGroup, MetadataEvent

_LARGEST = LARGEST >> 1
"""A larger number is not a thread id of an operating system and is treated as a string; `FRAME_LANE` must still fit."""


def lane_numbers(groups: Sequence[EventGroup]) -> tuple[Ints, Ints]:
    """Return the process and thread number of each group.

    A process without a number gets that of the main process, which has most groups; devices, whose numbers are small,
    are not taken for it. A thread without a number gets a lane of its own.
    """
    processes = Counter(group.pid for group in groups if isinstance(group.pid, int) and 0 < group.pid <= _LARGEST)
    main = max(processes, key=lambda pid: (processes[pid], pid), default=0)
    pids = [main if (number := _number(group.pid)) is None else number for group in groups]
    tids = [_number(group.tid) for group in groups]
    unnumbered = {group[2:] for group, tid in zip(groups, tids, strict=True) if tid is None}
    lanes = {lane: FIRST_LANE + number for number, lane in enumerate(sorted(unnumbered, key=repr))}
    numbered = [lanes[group[2:]] if tid is None else tid for group, tid in zip(groups, tids, strict=True)]
    return np.array(pids, np.int64), np.array(numbered, np.int64)


def thread_names(groups: Sequence[EventGroup], metadata: Iterable[MetadataEvent]) -> list[str | None]:
    """Return the name of each group's thread, None where the trace has none."""
    names = {(event.pid, event.tid): event.args.get("name") for event in metadata if event.name == "thread_name"}
    return [names.get((pid, tid)) or (tid if isinstance(tid, str) and tid else None) for _, _, pid, tid in groups]


def process_names(metadata: Iterable[MetadataEvent]) -> dict[str, dict[str, Any]]:
    """Return the name and labels that the trace has for each process or device."""
    processes: dict[str, dict[str, Any]] = {}
    for event in metadata:
        if event.name in {"process_name", "process_labels"}:
            processes.setdefault(str(event.pid), {}).update(event.args)
    return processes


def begun_within(spans: Flags, start: Ints, end: Ints, tid: Ints) -> Flags:
    """Flag events that begin while one of the spans runs on their thread, including those that overlap it partly."""
    flags = np.zeros(len(start), np.bool_)
    for thread in np.unique(tid[spans]):
        rows = np.flatnonzero(tid == thread)
        span_rows = rows[spans[rows]]
        span_rows = span_rows[np.argsort(start[span_rows], kind="stable")]
        latest_end = np.maximum.accumulate(end[span_rows])
        last = np.searchsorted(start[span_rows], start[rows], side="right") - 1
        flags[rows] = (last >= 0) & (start[rows] < latest_end[np.maximum(last, 0)])
    return flags


def _number(value: int | str) -> int | None:
    if isinstance(value, int):
        return int_or_none(value, largest=_LARGEST)
    match = re.search(r"(?<!\d)\d{1,18}$", value)  # "stream 7" of older traces
    return int(match.group()) if match else None
