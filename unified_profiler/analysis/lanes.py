"""Which track of a viewer each event goes to: numbers and names of processes and threads.

Viewers want small positive numbers, one thread per number, and no two slices of a thread that overlap partly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.nesting import FIRST_LANE, Ints, find_nesting
from unified_profiler.model.schema import EventTable, Kind

Flags = npt.NDArray[np.bool_]

_LARGEST_NUMBER = 2**31 - 1  # viewers keep process and thread ids in 32 bits


@dataclass(frozen=True)
class Place:
    """Where the events of a lane happened, in the table's own terms."""

    rank: int | None
    host: str | None
    pid: int | None
    tid: int | None
    device: str | None
    """The accelerator, if the lane is one of its streams."""
    thread: str | None

    @property
    def process(self) -> tuple[int | None, str | None, int | None, str | None]:
        """What the lanes of one process have in common."""
        return self.rank, self.host, self.pid, self.device

    @property
    def process_name(self) -> str:
        """The name of the process for people."""
        return f"rank {self.rank or 0}: {self.device or f'python {self.pid}'}"

    @property
    def thread_name(self) -> str:
        """The name of the thread for people."""
        if self.thread and self.thread.strip():
            return self.thread.strip()
        return f"thread {self.tid}" if self.tid is None or self.tid < FIRST_LANE else f"lane {self.tid - FIRST_LANE}"

    @property
    def order(self) -> tuple[int, str, bool, int, bool, int]:
        """By rank, each with its processes before its devices, the main thread first."""
        rank, pid, tid = (-1 if number is None else number for number in (self.rank, self.pid, self.tid))
        return rank, self.host or "", self.device is not None, pid, tid != pid, tid


@dataclass(frozen=True)
class Lane:
    """One track: its place, and the numbers by which the file calls it."""

    place: Place
    pid: int
    tid: int


@dataclass(frozen=True)
class Lanes:
    """All tracks of a file, sorted as they should be shown."""

    lanes: tuple[Lane, ...]
    of_row: Ints
    """For each event the index of its lane."""
    first_row: Ints
    """For each lane one of its events."""

    def constant(self, values: Ints) -> Flags:
        """Say for each lane whether all its events have the same value."""
        differs = values != values[self.first_row][self.of_row]
        same: Flags = np.bincount(self.of_row[differs], minlength=len(self.lanes)) == 0
        return same


def find_lanes(events: EventTable) -> Lanes:
    """Lay the events out: one lane per thread, and more where events of a thread overlap partly."""
    process = reduce(_combine, (codes(events, name) for name in ("rank", "host", "pid")))
    thread = _without_overlaps(events, process, _combine(process, codes(events, "tid")))
    _, first_row, of_row = np.unique(thread, return_index=True, return_inverse=True)
    places = _places(events, first_row, of_row)
    order = sorted(range(len(places)), key=lambda lane: places[lane].order)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return Lanes(tuple(_number([places[lane] for lane in order])), position[of_row], first_row[order])


def codes(events: EventTable, name: str) -> Ints:
    """Return a number for each row, equal for equal values, -1 for no value."""
    column = events.column(name).combine_chunks()
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    indices: Ints = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


def _combine(key: Ints, other: Ints) -> Ints:
    """Return a number for each row, equal where both keys are equal."""
    pairs = key * (int(other.max(initial=0)) + 2) + other + 1
    combined: Ints = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    return combined


def _without_overlaps(events: EventTable, process: Ints, thread: Ints) -> Ints:
    """Move what overlaps partly to lanes of its own. Tables are made without overlaps, but users may join some."""
    spans = np.flatnonzero(pc.not_equal(events.column("kind"), Kind.COUNTER.value).to_numpy())
    start, duration = (events.column(name).to_numpy()[spans] for name in ("start_ns", "duration_ns"))
    lanes = thread.copy()
    lanes[spans] = find_nesting(start, duration, process[spans], thread[spans]).tid
    return lanes


def _places(events: EventTable, first_row: Ints, of_row: Ints) -> list[Place]:
    columns = events.select(["rank", "host", "pid", "tid", "device", "thread"])
    places = [Place(**row) for row in columns.take(pa.array(first_row)).to_pylist()]
    on_device = _is_device_lane(events, of_row, len(places))
    named = np.flatnonzero(events.column("thread").is_valid().to_numpy())
    lanes, first_named = np.unique(of_row[named], return_index=True)
    names = events.column("thread").take(pa.array(named[first_named])).to_pylist()
    thread = dict(zip(lanes.tolist(), names, strict=True))
    return [
        replace(place, thread=thread.get(lane), device=place.device if on_device[lane] else None)
        for lane, place in enumerate(places)
    ]


def _is_device_lane(events: EventTable, of_row: Ints, lanes: int) -> Flags:
    """Streams are lanes on which everything happens on an accelerator; a thread that frees its memory is none."""
    devices = events.column("device").combine_chunks()
    accelerator = pc.invert(pc.starts_with(devices.dictionary, "cpu")).take(devices.indices).fill_null(False)
    elsewhere = np.bincount(of_row[~accelerator.to_numpy(zero_copy_only=False)], minlength=lanes)
    streams = np.bincount(of_row[events.column("stream").is_valid().to_numpy()], minlength=lanes)
    flags: Flags = (elsewhere == 0) & (streams > 0)
    return flags


def _number(places: list[Place]) -> Iterable[Lane]:
    processes = {place.process: place.pid for place in places}
    pids = dict(zip(processes, _numbers(processes.values()), strict=True))
    tids = _numbers(place.tid for place in places)
    return (Lane(place, pids[place.process], tid) for place, tid in zip(places, tids, strict=True))


def _numbers(wanted: Iterable[int | None]) -> list[int]:
    """Give each its own number where that is usable and not taken, else a free one."""
    taken: set[int] = set()
    kept: list[int | None] = []
    for number in wanted:
        usable = number is not None and 0 < number <= _LARGEST_NUMBER and number not in taken
        kept.append(number if usable else None)
        taken.update([number] if usable and number is not None else [])
    free = (number for number in itertools.count(1) if number not in taken)
    return [next(free) if number is None else number for number in kept]
