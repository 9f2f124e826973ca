"""Numbers the points of all lanes, host threads first, and the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from unified_profiler.analysis.columns import Flags
from unified_profiler.analysis.critical_path.columns import TraceColumns, kind_code
from unified_profiler.analysis.critical_path.device import Works
from unified_profiler.analysis.critical_path.host import LaneClock, Segments
from unified_profiler.model.nesting import Ints


@dataclass(frozen=True)
class Layout:
    """The points of a trace: borders on host threads, and start and end of each piece of device work."""

    clock: LaneClock
    keys: Ints
    """The keys of the points on host threads, which are numbered first."""
    time: Ints
    lane: Ints
    row: Ints
    """The event of the segment that ends at each point, -1 if there is none."""
    begin: Ints
    """The point at which each piece of device work starts."""
    ready: Ints
    """The point at which all ranks have entered a piece of work that is a collective, -1 if it did not wait."""
    finish: Ints

    @classmethod
    def of(cls, columns: TraceColumns, segments: Segments, keys: Ints, works: Works, ready_ns: Ints) -> Layout:
        """Lay out the points.

        Args:
            columns: The events.
            segments: The segments of host threads.
            keys: The keys of all points on host threads.
            works: The work of devices.
            ready_ns: When all ranks had entered each piece of work that waited for them, -1 for others.
        """
        host_time, host_lane = segments.clock.time(keys), segments.clock.lane(keys)
        segment = segments.at(host_lane, host_time)
        waited = ready_ns >= 0
        size = 2 + waited
        begin = len(keys) + np.cumsum(size) - size
        finish = begin + size - 1
        time, row = np.zeros(int(size.sum()), np.int64), np.full(int(size.sum()), -1)
        time[begin - len(keys)], time[finish - len(keys)] = columns.start[works.row], columns.end[works.row]
        time[begin[waited] + 1 - len(keys)] = ready_ns[waited]
        row[finish - len(keys)] = works.row
        lane = np.repeat(works.lane + int(host_lane.max(initial=0)) + 1, size)
        return cls(
            clock=segments.clock,
            keys=keys,
            time=np.concatenate([host_time, time]),
            lane=np.concatenate([host_lane, lane]),
            row=np.concatenate([np.where(segment >= 0, segments.row[segment], -1), row]),
            begin=begin,
            ready=np.where(waited, begin + 1, -1),
            finish=finish,
        )

    @property
    def host_count(self) -> int:
        """The number of points on host threads."""
        return len(self.keys)

    def points(self, lane: Ints, time: Ints) -> Ints:
        """Return the last point of host lanes up to each time; the first of a lane for earlier times."""
        index = np.searchsorted(self.keys, self.clock.keys(lane, time), side="right") - 1
        outside = (index < 0) | (self.lane[np.maximum(index, 0)] != lane)
        points: Ints = np.minimum(index + outside, self.host_count - 1)
        return points


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Edges:
    """Edges between lanes, and what they stand for."""

    source: Ints = field(default_factory=_none)
    target: Ints = field(default_factory=_none)
    lag: Ints = field(default_factory=_none)
    row: Ints = field(default_factory=_none)
    """The event whose start the edge leads to, -1 if there is none."""
    kind: Ints = field(default_factory=_none)
    """The kind of segment that the lag is."""
    arrival: Ints = field(default_factory=_none)
    """The number of the collective that another rank enters, -1 for edges within the trace."""

    @classmethod
    def of(cls, source: Ints, target: Ints, *, kind: str, row: Ints | None = None) -> Edges:
        """Return edges of one kind without lags."""
        count = len(source)
        none = np.full(count, -1)
        zero = np.zeros(count, np.int64)
        return cls(source, target, zero, none if row is None else row, np.full(count, kind_code(kind)), none)

    @classmethod
    def concatenated(cls, parts: Sequence[Edges]) -> Edges:
        """Return all edges."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    def filtered(self, kept: Flags) -> Edges:
        """Return some of the edges."""
        return Edges(*(getattr(self, each.name)[kept] for each in fields(self)))
