"""The work of devices as lanes, and how it depends on the host: launches, synchronizing calls, and events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from unified_profiler.analysis.columns import Flags, coded, ints, numbered
from unified_profiler.analysis.critical_path.columns import TraceColumns
from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import Kind

_MOST_OVERLAPS = 16
"""Work that overlaps on one stream is spread over at most this many lanes, and over one lane each beyond that."""


@dataclass(frozen=True)
class Works:
    """The work of all devices, sorted by lane and start."""

    row: Ints
    lane: Ints
    """Number of the lane among those of devices; work that overlaps on one stream is on several lanes."""
    stream: Ints
    """Number of the stream."""
    launch: Ints
    """Row of the call that launched each piece of work, -1 if it is unknown."""

    @classmethod
    def of(cls, columns: TraceColumns) -> Works:
        """Collect the work of a trace."""
        rows = np.flatnonzero(columns.work)
        device, stream, tid = (ints_of[rows] for ints_of in _stream_columns(columns))
        stream = numbered([device, np.where(stream >= 0, stream, tid)]) if len(rows) else rows
        lane = _separate(stream, columns.start[rows], columns.end[rows])
        order = np.lexsort((columns.end[rows], columns.start[rows], lane))
        rows, lane, stream = rows[order], lane[order], stream[order]
        call = look_up(columns.correlation[rows], columns.correlation[columns.calls])
        known = (call >= 0) & (columns.correlation[rows] >= 0)
        launch = np.where(known, columns.calls[call] if len(columns.calls) else -1, -1)
        return cls(rows, lane, stream, launch)


def _stream_columns(columns: TraceColumns) -> tuple[Ints, Ints, Ints]:
    device = coded(columns.events, "device").codes.astype(np.int64)
    return device, ints(columns.events, "stream"), ints(columns.events, "tid")


def _separate(stream: Ints, start: Ints, end: Ints) -> Ints:
    """Return lanes on which nothing overlaps: one per stream, and more for work that overlaps on a stream."""
    lane = np.full(len(stream), -1)
    left, first = np.arange(len(stream)), 0
    for _ in range(_MOST_OVERLAPS):
        if not len(left):
            return lane
        left = left[np.lexsort((end[left], start[left], stream[left]))]
        fits = _free(stream[left], start[left], end[left])
        lane[left[fits]] = stream[left[fits]] + first
        first = int(lane.max()) + 1
        left = left[~fits]
    lane[left] = first + np.arange(len(left))
    return lane


def _free(stream: Ints, start: Ints, end: Ints) -> Flags:
    """Return the pieces of sorted work that start when all earlier work of their stream has ended."""
    base, width = int(start.min()), int(end.max() - start.min()) + 1
    reach = np.maximum.accumulate(stream * width + end - base)
    before = np.concatenate([[-1], reach[:-1]])
    free: Flags = stream * width + start - base >= before
    return free


@dataclass(frozen=True)
class DeviceWaits:
    """Waits of host threads for the work of devices; a call may wait for several pieces of work."""

    call: Ints
    """Row of the call that waits."""
    work: Ints
    """Index of the work that it waits for."""
    resumed: Ints
    """When all work that the call waits for has ended, or the call starts if that is later."""


class DeviceOrder:
    """Which work a synchronization refers to: by the order of launches on each stream."""

    def __init__(self, columns: TraceColumns, works: Works) -> None:
        self.columns, self.works = columns, works
        launched = np.flatnonzero(works.launch >= 0)
        order = launched[np.lexsort((columns.start[works.launch[launched]], works.stream[launched]))]
        streams = works.stream[order]
        self.launches = columns.start[works.launch[order]].tolist()
        self.order = order.tolist()
        device, stream, _ = _stream_columns(columns)
        self.range_of: dict[tuple[int, int], tuple[int, int]] = {}
        for number in np.unique(streams):
            first, last = np.searchsorted(streams, [number, number + 1]).tolist()
            row = works.row[self.order[first]]
            self.range_of[int(device[row]), int(stream[row])] = (first, last)
        self.device, self.stream = device, stream

    def last_before(self, device: int, stream: int, time: int) -> int:
        """Return the last work on a stream that was launched before a time, -1 if there is none."""
        first, last = self.range_of.get((device, stream), (0, 0))
        index = bisect_left(self.launches, time, first, last) - 1
        return self.order[index] if index >= first else -1

    def first_after(self, device: int, stream: int, time: int) -> int:
        """Return the first work on a stream that was launched after a time, -1 if there is none."""
        first, last = self.range_of.get((device, stream), (0, 0))
        index = bisect_right(self.launches, time, first, last)
        return self.order[index] if index < last else -1

    def streams(self, device: int) -> Iterator[int]:
        """Yield the streams of a device."""
        return (stream for owner, stream in self.range_of if owner == device)


@dataclass(frozen=True)
class Synchronizations:
    """All dependencies that synchronization creates, from the records of the device and the calls of the host."""

    columns: TraceColumns
    works: Works

    @cached_property
    def _order(self) -> DeviceOrder:
        return DeviceOrder(self.columns, self.works)

    @cached_property
    def _records(self) -> list[tuple[int, int, dict[str, Any]]]:
        """Row, row of the call, and attributes of each synchronization that the device recorded."""
        columns = self.columns
        rows = np.flatnonzero(columns.on_device & columns.is_kind(Kind.RUNTIME) & (columns.correlation >= 0))
        calls = self._calls(columns.correlation[rows])
        attributes = columns.events.column("attributes").take(rows).to_pylist() if len(rows) else []
        decoded = (msgspec.json.decode(text) if text else {} for text in attributes)
        return list(zip(rows.tolist(), calls.tolist(), decoded, strict=True))

    def _calls(self, correlation: Ints) -> Ints:
        index = look_up(correlation, self.columns.correlation[self.columns.calls])
        return np.where(index >= 0, self.columns.calls[index] if len(self.columns.calls) else -1, -1)

    @property
    def is_recorded(self) -> bool:
        """Whether the trace has any synchronization at all, of the device or of the host."""
        return bool(self._records) or bool(self.columns.is_sync.any())

    @cached_property
    def _call_of_correlation(self) -> dict[int, int]:
        calls = self.columns.calls
        return dict(zip(self.columns.correlation[calls].tolist(), calls.tolist(), strict=True))

    def stream_edges(self) -> list[tuple[int, int]]:
        """Return pairs of work of which the second waits for the first, by an event on another stream."""
        edges = []
        for row, call, attributes in self._records:
            if call >= 0 and _record_kind(self.columns, row, attributes) == "stream wait event":
                device, stream = int(self._order.device[row]), int(self._order.stream[row])
                source = self._recorded_work(device, attributes)
                target = self._order.first_after(device, stream, int(self.columns.start[call]))
                edges.append((source, target))
        return [(source, target) for source, target in edges if source >= 0 and target >= 0 and self._lasts(source)]

    def _lasts(self, work: int) -> bool:
        row = self.works.row[work]
        return bool(self.columns.end[row] > self.columns.start[row])

    def _recorded_work(self, device: int, attributes: dict[str, Any]) -> int:
        """Return the last work before an event was recorded, -1 if it is unknown."""
        record = self._call_of_correlation.get(int(attributes.get("wait_on_cuda_event_record_corr_id", -1)), -1)
        if record < 0:
            return -1
        stream = int(attributes.get("wait_on_stream", -1))
        return self._order.last_before(device, stream, int(self.columns.start[record]))

    def waits(self) -> DeviceWaits:
        """Return what host threads wait for. Work of no duration is left out, as it needs no waiting."""
        pairs = np.array(
            [*self._recorded_waits(), *self._blocking_copies(), *self._unrecorded_waits()], np.int64
        ).reshape(-1, 2)
        row, end = self.works.row[pairs[:, 1]], self.columns.end
        possible = (end[row] <= end[pairs[:, 0]]) & (self.columns.start[row] < end[row])
        call, work = pairs[possible].T
        calls, index = np.unique(call, return_inverse=True)
        resumed = self.columns.start[calls]
        np.maximum.at(resumed, index, end[self.works.row[work]])
        return DeviceWaits(call, work, resumed[index])

    def _recorded_waits(self) -> Iterator[tuple[int, int]]:
        for row, call, attributes in self._records:
            if call < 0:
                continue
            kind, device = _record_kind(self.columns, row, attributes), int(self._order.device[row])
            launched_before = int(self.columns.start[call])
            if kind == "event sync":
                candidates = [self._recorded_work(device, attributes)]
            elif kind == "stream sync":
                candidates = [self._order.last_before(device, int(self._order.stream[row]), launched_before)]
            elif kind == "context sync":
                streams = self._order.streams(device)
                candidates = [self._order.last_before(device, stream, launched_before) for stream in streams]
            else:
                continue
            yield from ((call, work) for work in candidates if work >= 0)

    def _blocking_copies(self) -> Iterator[tuple[int, int]]:
        """Yield the copies that ended before the call that launched them."""
        columns, works = self.columns, self.works
        copies = np.flatnonzero((works.launch >= 0) & columns.is_kind(Kind.COPY)[works.row])
        calls = works.launch[copies]
        blocked = columns.end[works.row[copies]] <= columns.end[calls]
        return zip(calls[blocked].tolist(), copies[blocked].tolist(), strict=True)

    def _unrecorded_waits(self) -> Iterator[tuple[int, int]]:
        """Yield the last work that ended during a synchronizing call, where the device recorded no synchronization."""
        columns, works = self.columns, self.works
        recorded = [call for _, call, _ in self._records]
        calls = np.setdiff1d(np.flatnonzero(columns.is_sync), recorded)
        launched = np.flatnonzero(works.launch >= 0)
        by_end = launched[np.argsort(columns.end[works.row[launched]], kind="stable")]
        index = np.searchsorted(columns.end[works.row[by_end]], columns.end[calls], side="right") - 1
        for call, last in zip(calls.tolist(), index.tolist(), strict=True):
            if last >= 0 and columns.start[works.launch[by_end[last]]] < columns.start[call]:
                yield call, int(by_end[last])


def _record_kind(columns: TraceColumns, row: int, attributes: dict[str, Any]) -> str:
    """Return the kind of a synchronization record in lower case."""
    return str(attributes.get("cuda_sync_kind") or columns.name.values[columns.name.codes[row]]).lower()
