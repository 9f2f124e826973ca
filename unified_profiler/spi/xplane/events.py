"""Reads the events of an XPlane file into columns and collects their distinct descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.columns import Index, encode, look_up
from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import bounded
from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags
from unified_profiler.spi.groups import group_codes
from unified_profiler.spi.xplane.ends import Flows
from unified_profiler.spi.xplane.lanes import LaneAssigner, XPlaneLane
from unified_profiler.spi.xplane.planes import LineEvents, Plane, Space, Stats, event_columns

IgnoredStats = Callable[[str], frozenset[str]]
"""Returns the names of the stats to leave out of events of a given name: ids that differ in almost every event."""


class EventDescription(NamedTuple):
    """A distinct combination of event name, stats and lane."""

    name: str
    stats: Stats
    lane: XPlaneLane


@dataclass(frozen=True)
class XPlaneEvents:
    """The events of a file as columns. `description` and `lane` are indices into `descriptions` and `lanes`.

    `flow` links the instructions of XLA programs to their end marks.
    """

    descriptions: list[EventDescription]
    lanes: list[XPlaneLane]
    description: Ints
    lane: Ints
    start_ns: Ints
    end_ns: Ints
    flow: Ints


def read_events(space: Space, lanes: LaneAssigner, ignored_stats: IgnoredStats) -> XPlaneEvents:
    """Read all events of a file.

    Raises:
        TraceFormatError: Events refer to names that are missing, or have impossible times.
    """
    parts: list[_LineEvents] = []
    flows = Index()
    for plane in space.planes:
        with reading(f"{space.path}, plane {plane.name!r:.100}", expected="an XPlane file"):
            parts += _PlaneReader(plane, space.path, flows, ignored_stats).read(lanes)
    counts = [len(part.description) for part in parts]
    first = np.cumsum([0, *(len(part.descriptions) for part in parts)])
    return XPlaneEvents(
        [description for part in parts for description in part.descriptions],
        [part.lane for part in parts],
        _concatenate([part.description + offset for part, offset in zip(parts, first, strict=False)]),
        np.repeat(np.arange(len(parts)), counts),
        _timestamps(space, [part.start_ns for part in parts]),
        _timestamps(space, [part.end_ns for part in parts]),
        _concatenate([part.flow for part in parts]),
    )


class _LineEvents(NamedTuple):
    lane: XPlaneLane
    descriptions: list[EventDescription]
    description: Ints
    start_ns: Ints
    end_ns: Ints
    flow: Ints


class _PlaneReader:
    def __init__(self, plane: Plane, path: Path, flows: Index, ignored_stats: IgnoredStats) -> None:
        self._plane, self._path = plane, path
        self._flows = Flows(plane, flows)
        self._ids = np.array(list(plane.event_names), np.int64)
        ignored = Index()
        self._ignored_of = ignored.codes(map(ignored_stats, plane.event_names.values()))
        self._ignored = list(ignored)
        self._ignored_ids = [plane.stat_ids(names) for names in ignored]
        self._stats, self._keys = Index(), Index()

    def read(self, lanes: LaneAssigner) -> Iterator[_LineEvents]:
        lines = list(self._plane.lines)
        for line, lane in zip(lines, lanes.assign(self._plane, lines), strict=True):
            metadata_id, start_ns, end_ns = event_columns(line)
            name = look_up(metadata_id, self._ids)
            if len(missing := metadata_id[name < 0]):
                msg = (
                    f"{self._path} is damaged: an event of {line.name!r} refers to name {missing[0]}, which is missing."
                )
                raise TraceFormatError(msg)
            key = self._stat_keys(line.events, self._ignored_of[name])
            description, distinct = encode(name * len(self._keys) + key)
            descriptions = self._descriptions(*np.divmod(distinct, len(self._keys)), lane)
            yield _LineEvents(lane, descriptions, description, start_ns, end_ns, self._flows.of(line.events))

    def _stat_keys(self, events: LineEvents, ignored: Ints) -> Ints:
        """Number the distinct combinations of encoded stats without the ignored ones; return that of each event."""
        stats = events.stats.at(~self._is_ignored(events, ignored))
        stat = self._stats.codes(events.buffer.texts(stats))
        return group_codes(stats.message, stat, len(events.metadata_id), self._keys)

    def _is_ignored(self, events: LineEvents, ignored: Ints) -> Flags:
        group = ignored[events.stats.message]
        flags = np.zeros(len(group), np.bool_)
        for number, ids in enumerate(self._ignored_ids):
            flags |= (group == number) & np.isin(events.stat_ids, ids)
        return flags

    def _descriptions(self, names: Ints, keys: Ints, lane: XPlaneLane) -> list[EventDescription]:
        known, stats = list(self._keys), list(self._stats)
        keys_of = [[stats[number] for number in known[key]] for key in keys.tolist()]
        pairs = zip(names.tolist(), keys_of, strict=True)
        return [self._description(name, key, lane) for name, key in pairs]

    def _description(self, name: int, key: list[bytes], lane: XPlaneLane) -> EventDescription:
        metadata_id, ignored = int(self._ids[name]), self._ignored[self._ignored_of[name]]
        stats = {**self._plane.event_stats.get(metadata_id, {}), **self._plane.decode(key)}
        stats = {name: value for name, value in stats.items() if name not in ignored}
        return EventDescription(self._plane.event_names[metadata_id], stats, lane)


def _timestamps(space: Space, parts: Sequence[Ints]) -> Ints:
    return bounded(space.start_ns, "start") + bounded(_concatenate(parts), "timestamp")


def _concatenate(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
