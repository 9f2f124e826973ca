"""Assigns events to the tracks of a timeline viewer: numbers and names of processes and threads.

Viewers need small positive numbers, one thread per number, and no two slices of a thread that overlap partly.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.columns import Flags, numbered, ranked
from unified_profiler.model.nesting import FIRST_LANE, Ints, find_nesting
from unified_profiler.model.schema import EventTable, Kind

_NAMED_BY_KINETO = re.compile(r"^thread \d+ \((.+)\)$")
_HASH = re.compile(r"/-?\d{6,}$")
"""What TensorFlow adds to the names of its threads."""
_ONLY_NUMBER = re.compile(r"-?\d+")
MAIN_THREAD, WORKER = "main thread", "worker"
_MAIN_OF_PYTHON = "MainThread"
_LARGEST_THREAD_ID = 1 << 22  # of Linux
_LARGEST_NUMBER = 2**31 - 1  # viewers keep process and thread ids in 32 bits


def thread_of(name: str | None, tid: int | None) -> tuple[str, int | None]:
    """Return the readable name of a thread, and its id if the system gave it one."""
    source = TrackSource(None, None, None, tid, None, name)
    return source.thread_name, tid if source.has_system_id else None


@dataclass(frozen=True)
class TrackSource:
    """The thread or stream whose events a track shows, as the event table identifies it."""

    rank: int | None
    host: str | None
    pid: int | None
    tid: int | None
    device: str | None
    """The accelerator, if the track is one of its streams."""
    thread: str | None

    @property
    def process(self) -> tuple[int | None, str | None, int | None, str | None]:
        """The identity of the process or device."""
        return self.rank, self.host, self.pid, self.device

    @property
    def process_name(self) -> str:
        """The readable name of the process."""
        return f"rank {self.rank or 0}: {self.device or f'python {self.pid}'}"

    @property
    def thread_name(self) -> str:
        """The readable name of the thread, without ids that mean nothing outside the process."""
        is_main = self.tid is not None and self.tid == self.pid
        if self.device is None and (is_main or self.thread == _MAIN_OF_PYTHON):
            return MAIN_THREAD
        name = (self.thread or "").strip()
        name = _HASH.sub("", _NAMED_BY_KINETO.sub(r"\1", name))
        if name and not _ONLY_NUMBER.fullmatch(name):
            return name
        if self.tid is not None and self.tid >= FIRST_LANE:
            return f"lane {self.tid - FIRST_LANE}"
        return f"thread {self.tid}" if self.has_system_id else WORKER

    @property
    def has_system_id(self) -> bool:
        """Whether the thread has an id that the system gave it; some profilers record other numbers."""
        return self.tid is not None and 0 < self.tid <= _LARGEST_THREAD_ID

    @property
    def order(self) -> tuple[int, str, bool, int, bool, int]:
        """The sort key: by rank, each with its processes before its devices, the main thread first."""
        rank, pid, tid = (-1 if number is None else number for number in (self.rank, self.pid, self.tid))
        return rank, self.host or "", self.device is not None, pid, tid != pid, tid


@dataclass(frozen=True)
class Track:
    """One track: its source, and the process and thread numbers that identify it in the file.

    Attributes:
        source: The thread or stream.
        pid: The number of its process.
        tid: Its number.
        name: Its readable name, numbered if other lanes of the process have the same: worker, worker 2.
    """

    source: TrackSource
    pid: int
    tid: int
    name: str


@dataclass(frozen=True)
class TrackLayout:
    """All tracks of a file, in display order."""

    tracks: tuple[Track, ...]
    of_row: Ints
    """For each event the index of its track."""
    first_row: Ints
    """For each track the row of its first event."""
    file: Ints
    """For each track the number of its file."""

    def constant(self, values: Ints) -> Flags:
        """Return for each track whether all its events have the same value."""
        differs = values != values[self.first_row][self.of_row]
        same: Flags = np.bincount(self.of_row[differs], minlength=len(self.tracks)) == 0
        return same


def lay_out_tracks(events: EventTable, *, file: Ints | None = None) -> TrackLayout:
    """Assign each event to a track: one per thread, and more where events of a thread overlap partly.

    Args:
        events: The events.
        file: Number of the file of each event if there are several, which share no tracks; their tracks follow one
            another.
    """
    files = np.zeros(len(events), np.int64) if file is None else file
    process = numbered([files, *(codes(events, name) for name in ("rank", "host", "pid"))])
    thread = _without_overlaps(events, process, numbered([process, codes(events, "tid")]))
    of_row = ranked(thread)
    first_row = np.empty(of_row.max(initial=-1) + 1, np.int64)
    first_row[of_row[::-1]] = np.arange(len(of_row))[::-1]  # of several assignments the last one counts
    sources = _sources(events, first_row, of_row)
    file_of_source = files[first_row].tolist()
    order = sorted(range(len(sources)), key=lambda index: (file_of_source[index], sources[index].order))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return TrackLayout(
        tuple(
            track
            for _, indices in itertools.groupby(order, key=file_of_source.__getitem__)
            for track in _numbered([sources[index] for index in indices])
        ),
        position[of_row],
        first_row[order],
        files[first_row[order]],
    )


def codes(events: EventTable, name: str) -> Ints:
    """Return a number for each row, equal for equal values, -1 for no value."""
    column = events.column(name).combine_chunks()
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    indices: Ints = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


def _without_overlaps(events: EventTable, process: Ints, thread: Ints) -> Ints:
    """Move events that overlap partly to tracks of their own. Recorded tables have none, but users may join tables."""
    spans = np.flatnonzero(pc.not_equal(events.column("kind"), Kind.COUNTER.value).to_numpy())
    start, duration = (events.column(name).to_numpy()[spans] for name in ("start_ns", "duration_ns"))
    tracks = thread.copy()
    tracks[spans] = find_nesting(start, duration, process[spans], thread[spans]).tid
    return tracks


def _sources(events: EventTable, first_row: Ints, of_row: Ints) -> list[TrackSource]:
    columns = events.select(["rank", "host", "pid", "tid", "device", "thread"])
    sources = [TrackSource(**row) for row in columns.take(pa.array(first_row)).to_pylist()]
    is_stream = _is_stream(events, of_row, len(sources))
    named = np.flatnonzero(events.column("thread").is_valid().to_numpy())
    tracks, first_named = np.unique(of_row[named], return_index=True)
    names = events.column("thread").take(pa.array(named[first_named])).to_pylist()
    thread = dict(zip(tracks.tolist(), names, strict=True))
    return [
        replace(source, thread=thread.get(index), device=source.device if is_stream[index] else None)
        for index, source in enumerate(sources)
    ]


def _is_stream(events: EventTable, of_row: Ints, track_count: int) -> Flags:
    """Return the tracks on which everything runs on an accelerator; a thread that frees its memory is not one."""
    devices = events.column("device").combine_chunks()
    accelerator = pc.invert(pc.starts_with(devices.dictionary, "cpu")).take(devices.indices).fill_null(False)
    elsewhere = np.bincount(of_row[~accelerator.to_numpy(zero_copy_only=False)], minlength=track_count)
    streams = np.bincount(of_row[events.column("stream").is_valid().to_numpy()], minlength=track_count)
    flags: Flags = (elsewhere == 0) & (streams > 0)
    return flags


def _numbered(sources: list[TrackSource]) -> Iterable[Track]:
    processes = {source.process: source.pid for source in sources}
    pids = dict(zip(processes, _unique_numbers(processes.values()), strict=True))
    tids = _unique_numbers(source.tid for source in sources)
    rows = zip(sources, tids, _numbered_names(sources), strict=True)
    return (Track(source, pids[source.process], tid, name) for source, tid, name in rows)


def _numbered_names(sources: Iterable[TrackSource]) -> Iterator[str]:
    """Yield the names of tracks, with a number where lanes of one process have the same name."""
    seen: Counter[tuple[Any, str]] = Counter()
    for source in sources:
        name = source.thread_name
        if source.tid is None or source.tid >= FIRST_LANE or name in {MAIN_THREAD, WORKER}:  # others have an id
            seen[source.process, name] += 1
            number = seen[source.process, name]
            name = name if number == 1 else f"{name} {number}"
        yield name


def _unique_numbers(wanted: Iterable[int | None]) -> list[int]:
    """Keep each number that viewers accept and that is not taken yet, and replace the others by free ones."""
    taken: set[int] = set()
    kept: list[int | None] = []
    for number in wanted:
        usable = number is not None and 0 < number <= _LARGEST_NUMBER and number not in taken
        kept.append(number if usable else None)
        taken.update([number] if usable and number is not None else [])
    free = (number for number in itertools.count(1) if number not in taken)
    return [next(free) if number is None else number for number in kept]
