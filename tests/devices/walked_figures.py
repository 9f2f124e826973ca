"""Figures of a walked Kineto file by their definitions: busy and idle time, overlap, gaps, queues and launches.

Plain Python in integer nanoseconds, independent of the implementation, as kineto_walk.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.devices.kineto_walk import COMMUNICATION, COMPUTE, COPY, WORK, DeviceSpan

Interval = tuple[int, int]


@dataclass(frozen=True)
class Breakdown:
    """What a device did between the first start and the last end of its work."""

    span: int
    busy: int
    compute: int
    communication: int
    copy: int
    exposed_communication: int
    """Communication during which nothing was computed."""
    exposed_copy: int
    """Copies during which nothing was computed or communicated."""
    overlap: int
    """Communication during which something was computed."""

    @property
    def idle(self) -> int:
        return self.span - self.busy


@dataclass(frozen=True)
class Gap:
    """The time between two successive pieces of work of a stream."""

    device: int
    stream: int
    previous_end: int
    start: int
    launch_start: int | None
    """When the host launched the work after the gap."""


def breakdown(work: Sequence[DeviceSpan]) -> Breakdown:
    """Sum up the work of one device, or of one step on it."""
    intervals = {name: union(span for span in work if span.work_class == name) for name in WORK}
    busy = merged([interval for group in intervals.values() for interval in group])
    both = merged([*intervals[COMPUTE], *intervals[COMMUNICATION]])
    return Breakdown(
        span=busy[-1][1] - busy[0][0] if busy else 0,
        busy=length(busy),
        compute=length(intervals[COMPUTE]),
        communication=length(intervals[COMMUNICATION]),
        copy=length(intervals[COPY]),
        exposed_communication=length(both) - length(intervals[COMPUTE]),
        exposed_copy=length(busy) - length(both),
        overlap=length(intervals[COMPUTE]) + length(intervals[COMMUNICATION]) - length(both),
    )


def union(spans: Iterable[DeviceSpan]) -> list[Interval]:
    """Return the times at which at least one of the spans ran, as disjoint intervals in order."""
    return merged([(span.start, span.end) for span in spans])


def merged(intervals: list[Interval]) -> list[Interval]:
    """Unite intervals that overlap or touch."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def length(intervals: Iterable[Interval]) -> int:
    """Return the total length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


def by_class(spans: Iterable[DeviceSpan]) -> dict[frozenset[str], int]:
    """Return for how long exactly these classes of work ran at the same time."""
    changes: list[tuple[int, int, str]] = []
    for name, group in _grouped(spans, "work_class").items():
        for start, end in union(group):
            changes += [(start, 1, name), (end, -1, name)]
    times: dict[frozenset[str], int] = defaultdict(int)
    running: dict[str, int] = defaultdict(int)
    before = 0
    for time, change, name in sorted(changes):
        times[frozenset(key for key, count in running.items() if count)] += time - before
        running[name] += change
        before = time
    times.pop(frozenset(), None)
    return {key: value for key, value in times.items() if value}


def gaps(spans: Iterable[DeviceSpan]) -> list[Gap]:
    """Return the gaps of every stream, zero where work follows without one; a stream's first work has none."""
    result = []
    for (device, stream), group in _streams(spans).items():
        end = None
        for span in sorted(group, key=lambda span: (span.start, span.end)):
            if end is not None:
                launch = None if span.launch is None else span.launch.start
                result.append(Gap(device, stream, min(end, span.start), span.start, launch))
            end = span.end if end is None else max(end, span.end)
    return result


def queue_lengths(spans: Iterable[DeviceSpan], *, launches_first: bool = True) -> dict[tuple[int, int], list[int]]:
    """Return the length of every stream's queue after each change: one more at a launch, one less when work starts.

    Args:
        spans: The work; what has no launch never was in the queue.
        launches_first: Whether a launch counts before the start of other work at the same time.
    """
    result = {}
    for stream, group in _streams(span for span in spans if span.launch is not None).items():
        starts = [(span.start, -1) for span in group]
        launches = [(span.launch.start, 1) for span in group if span.launch is not None]
        order = -1 if launches_first else 1
        lengths, now = [], 0
        for _, change in sorted(starts + launches, key=lambda change: (change[0], order * change[1])):
            now += change
            lengths.append(now)
        result[stream] = lengths
    return result


def launch_delay(span: DeviceSpan) -> int | None:
    """Return the time from the end of the launch to the start of the work, 0 if it started before that end."""
    return None if span.launch is None else max(0, span.start - span.launch.end)


def description(values: Sequence[float]) -> dict[str, float | None]:
    """Return count, mean, standard deviation of a sample, extremes and quartiles (linear interpolation)."""
    ordered = sorted(values)
    return {
        "count": float(len(ordered)),
        "mean": statistics.fmean(ordered),
        "std": statistics.stdev(ordered) if len(ordered) > 1 else None,
        "min": ordered[0],
        "25%": _quantile(ordered, 0.25),
        "50%": _quantile(ordered, 0.5),
        "75%": _quantile(ordered, 0.75),
        "max": ordered[-1],
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _grouped(spans: Iterable[DeviceSpan], attribute: str) -> dict[str, list[DeviceSpan]]:
    groups: dict[str, list[DeviceSpan]] = defaultdict(list)
    for span in spans:
        groups[getattr(span, attribute)].append(span)
    return groups


def _streams(spans: Iterable[DeviceSpan]) -> dict[tuple[int, int], list[DeviceSpan]]:
    streams: dict[tuple[int, int], list[DeviceSpan]] = defaultdict(list)
    for span in spans:
        streams[span.device, span.stream].append(span)
    return streams
