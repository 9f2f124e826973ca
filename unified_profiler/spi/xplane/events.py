"""Reads the events of an XPlane file into columns and collects their distinct descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.columns import Index, encode
from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import bounded
from unified_profiler.model.nesting import Ints
from unified_profiler.spi.xplane.ends import Flows
from unified_profiler.spi.xplane.lanes import LaneAssigner, XPlaneLane
from unified_profiler.spi.xplane.planes import Plane, Space, Stats, event_columns

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
        self._ids = list(plane.event_names)
        self._ignored = {number: ignored_stats(name) for number, name in plane.event_names.items()}
        prefixes = {names: plane.prefixes(names) for names in set(self._ignored.values())}
        self._ignored_prefixes = {number: prefixes[names] for number, names in self._ignored.items()}
        self._keys = Index()

    def read(self, lanes: LaneAssigner) -> Iterator[_LineEvents]:
        positions = {number: position for position, number in enumerate(self._ids)}
        lines = list(self._plane.lines)
        for line, lane in zip(lines, lanes.assign(self._plane, lines), strict=True):
            metadata_id, start_ns, end_ns = event_columns(line)
            try:
                name = np.fromiter(map(positions.__getitem__, metadata_id.tolist()), np.int64, len(metadata_id))
            except KeyError as error:
                msg = f"{self._path} is damaged: an event of {line.name!r} refers to name {error}, which is missing."
                raise TraceFormatError(msg) from error
            key = self._keys.codes(self._encoded_stats(line.events))
            keys = list(self._keys)
            description, distinct = encode(name * (len(keys) + 1) + key)
            pairs = [divmod(pair, len(keys) + 1) for pair in distinct.tolist()]
            descriptions = [self._description(self._ids[name], keys[key], lane) for name, key in pairs]
            yield _LineEvents(lane, descriptions, description, start_ns, end_ns, self._flows.of(line.events))

    def _encoded_stats(self, events: Sequence[Any]) -> list[tuple[bytes, ...]]:
        """Return the encoded stats of each event without the ignored ones."""
        ignored = self._ignored_prefixes
        return [
            tuple([stat for stat in stats if not stat.startswith(ignored[event.metadata_id])])
            if (stats := event.stats)
            else ()
            for event in events
        ]

    def _description(self, metadata_id: int, key: tuple[bytes, ...], lane: XPlaneLane) -> EventDescription:
        stats = {**self._plane.event_stats.get(metadata_id, {}), **self._plane.decode(key)}
        ignored = self._ignored[metadata_id]
        stats = {name: value for name, value in stats.items() if name not in ignored}
        return EventDescription(self._plane.event_names[metadata_id], stats, lane)


def _timestamps(space: Space, parts: Sequence[Ints]) -> Ints:
    return bounded(space.start_ns, "start") + bounded(_concatenate(parts), "timestamp")


def _concatenate(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
