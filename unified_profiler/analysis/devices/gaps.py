"""Finds the gaps in which a device or stream was idle, and the cause of each.

A gap lies between two pieces of work and ends with the start of the second, whose launch explains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unified_profiler.analysis.columns import Flags, coded, ints_at, numbered
from unified_profiler.analysis.conventions import matches_convention
from unified_profiler.analysis.devices.work import DeviceWork, groups_of
from unified_profiler.analysis.intervals import IntervalSet
from unified_profiler.model.arrow_arrays import number_array
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.spi import EventConventions

CAUSES = ("host_late", "synchronization", "queue_empty", "other_stream", "device_overhead", "unknown")
"""Why a device was idle.

* `host_late`: the host launched the next work only after the device had become idle.
* `synchronization`: so it did, and it was waiting for the device when the device became idle.
* `queue_empty`: the launch had begun but not returned when the device became idle.
* `other_stream`: the work had been launched; it began when work of another stream ended.
* `device_overhead`: the work had been launched, and began after less than `OVERHEAD_NS`.
* `unknown`: none of these, or the launch was not recorded.
"""

OVERHEAD_NS = 30_000
"""A shorter gap before work that had been launched is what the device needs between two pieces of work."""

COLUMNS = ("name", "framework", "pid", "tid")
"""The event columns needed beyond those of device work."""


@dataclass(frozen=True)
class Gaps:
    """Idle times in order of lanes and start.

    Attributes:
        start: When the device became idle.
        end: When the next work began.
        work: The next work, an index into the device work.
        cause: An index into `CAUSES`.
    """

    start: Ints
    end: Ints
    work: Ints
    cause: Ints


def find_gaps(
    events: EventTable, work: DeviceWork, conventions: Mapping[str, EventConventions], *, by_stream: bool
) -> Gaps:
    """Return the gaps of each device, or of each stream."""
    starts, nexts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for lane in work.lanes(by_stream=by_stream):
        reached = np.maximum.accumulate(work.end[lane])[:-1]
        idle = np.flatnonzero(work.start[lane][1:] > reached)
        starts.append(reached[idle])
        nexts.append(lane[idle + 1])
    start, following = np.concatenate(starts), np.concatenate(nexts)
    return Gaps(start, work.start[following], following, _causes(events, work, start, following, conventions))


def _causes(
    events: EventTable, work: DeviceWork, start: Ints, following: Ints, conventions: Mapping[str, EventConventions]
) -> Ints:
    end, launched = work.start[following], work.launch[following] >= 0
    late = launched & (work.launch_start[following] > start)
    conditions = (
        ("unknown", ~launched),
        ("synchronization", late & _host_waited(events, work, start, following, conventions)),
        ("host_late", late),
        ("queue_empty", work.launch_end[following] > start),
        ("other_stream", _other_stream_ended(work, start, following)),
        ("device_overhead", end - start < OVERHEAD_NS),
    )
    codes = [np.int64(CAUSES.index(name)) for name, _ in conditions]
    return np.select([flags for _, flags in conditions], codes, np.int64(CAUSES.index("unknown")))


def _host_waited(
    events: EventTable, work: DeviceWork, start: Ints, following: Ints, conventions: Mapping[str, EventConventions]
) -> Flags:
    """Flag gaps at whose start the launching thread was in a call that waits for a device."""
    flags = np.zeros(len(start), np.bool_)
    calls = np.flatnonzero(coded(events, "kind").where(Kind.RUNTIME.value.__eq__))
    named = events.select(["name", "framework"]).take(number_array(calls))
    calls = calls[matches_convention(named, conventions, "synchronizing_calls")]
    gaps = np.flatnonzero(work.launch[following] >= 0)
    if not len(calls) or not len(gaps):
        return flags
    rows = np.concatenate([calls, work.launch[following[gaps]]])
    thread = numbered([ints_at(events, name, rows) for name in ("pid", "tid")])
    begin = ints_at(events, "start_ns", calls)
    finish = begin + ints_at(events, "duration_ns", calls)
    for group in groups_of(thread[: len(calls)]):
        own = gaps[thread[len(calls) :] == thread[group[0]]]
        flags[own] = IntervalSet.of(begin[group], finish[group] + 1).contains(start[own])
    return flags


def _other_stream_ended(work: DeviceWork, start: Ints, following: Ints) -> Flags:
    """Flag gaps that end within `OVERHEAD_NS` after the end of work on another stream that ran during the gap."""
    by_end = np.argsort(work.end, kind="stable")
    ends = work.end[by_end]
    last = np.searchsorted(ends, work.start[following], side="right") - 1
    candidate = by_end[np.maximum(last, 0)]
    recent = work.start[following] - work.end[candidate] < OVERHEAD_NS
    flags: Flags = (last >= 0) & (work.end[candidate] > start) & recent
    return flags
