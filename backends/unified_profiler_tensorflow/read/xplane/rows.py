"""From the planes of an XPlane file to plain columns, one entry per event, and the distinct things that events say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.columns import Index, encode
from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import bounded
from unified_profiler.model.nesting import Ints
from unified_profiler_tensorflow.read.xplane.ends import Flows
from unified_profiler_tensorflow.read.xplane.lanes import Lane, Lanes, LaneSort
from unified_profiler_tensorflow.read.xplane.left_out import left_out
from unified_profiler_tensorflow.read.xplane.planes import Plane, Space, Stats, columns_of


class EventDescription(NamedTuple):
    """A name, what is said with it, and the sort of lane that it is said on."""

    name: str
    stats: Stats
    sort: LaneSort


@dataclass(frozen=True)
class Rows:
    """The events of a file. `description` and `lane` are indices into `descriptions` and `lanes`.

    `flow` links the instructions of XLA's programs to the marks at their ends.
    """

    descriptions: list[EventDescription]
    lanes: list[Lane]
    description: Ints
    lane: Ints
    start_ns: Ints
    end_ns: Ints
    flow: Ints


def read_rows(space: Space, lanes: Lanes) -> Rows:
    """Read all events of a file.

    Raises:
        TraceFormatError: Events refer to names that are not there.
    """
    parts: list[_Part] = []
    flows = Index()
    for plane in space.planes:
        with reading(f"{space.path}, plane {plane.name!r:.100}", expected="an XPlane file"):
            parts += _PlaneReader(plane, space.path, flows).parts(lanes)
    descriptions: list[EventDescription] = []
    description = []
    for part in parts:
        description.append(part.description + len(descriptions))
        descriptions += part.descriptions
    counts = [len(part.description) for part in parts]
    return Rows(
        descriptions,
        [part.lane for part in parts],
        _join(description),
        np.repeat(np.arange(len(parts)), counts),
        _moments(space, [part.start_ns for part in parts]),
        _moments(space, [part.end_ns for part in parts]),
        _join([part.flow for part in parts]),
    )


class _Part(NamedTuple):
    """The events of one line."""

    lane: Lane
    descriptions: list[EventDescription]
    description: Ints
    start_ns: Ints
    end_ns: Ints
    flow: Ints


class _PlaneReader:
    def __init__(self, plane: Plane, path: Path, flows: Index) -> None:
        self._plane, self._path = plane, path
        self._flows = Flows(plane, flows)
        self._places = {number: place for place, number in enumerate(plane.event_names)}
        self._left_out = {number: left_out(name) for number, name in plane.event_names.items()}
        prefixes = {names: plane.prefixes(names) for names in set(self._left_out.values())}
        self._skipped = {number: prefixes[names] for number, names in self._left_out.items()}
        self._keys = Index()

    def parts(self, lanes: Lanes) -> Iterator[_Part]:
        lines = list(self._plane.lines)
        for line, lane in zip(lines, lanes.of(self._plane, lines), strict=True):
            number, start_ns, end_ns = columns_of(line)
            try:
                place = np.fromiter(map(self._places.__getitem__, number.tolist()), np.int64, len(number))
            except KeyError as error:
                msg = f"{self._path} is damaged: an event of {line.name!r} refers to name {error}, which is not there."
                raise TraceFormatError(msg) from error
            said = self._keys.codes(self._kept(line.events))
            names, keys = list(self._places), list(self._keys)
            description, distinct = encode(place * (len(keys) + 1) + said)
            pairs = [divmod(pair, len(keys) + 1) for pair in distinct.tolist()]
            descriptions = [self._description(names[name], keys[key], lane) for name, key in pairs]
            yield _Part(lane, descriptions, description, start_ns, end_ns, self._flows.of(line.events))

    def _kept(self, events: Sequence[Any]) -> list[tuple[bytes, ...]]:
        """Return the encoded stats of each event, less those that are left out."""
        skipped = self._skipped
        return [
            tuple([stat for stat in stats if not stat.startswith(skipped[event.metadata_id])])
            if (stats := event.stats)
            else ()
            for event in events
        ]

    def _description(self, number: int, key: tuple[bytes, ...], lane: Lane) -> EventDescription:
        stats = {**self._plane.event_stats.get(number, {}), **self._plane.decode(key)}
        unwanted = self._left_out[number]
        stats = {name: value for name, value in stats.items() if name not in unwanted}
        return EventDescription(self._plane.event_names[number], stats, lane.sort)


def _moments(space: Space, parts: Sequence[Ints]) -> Ints:
    return bounded(space.start_ns, "start") + bounded(_join(parts), "moment")


def _join(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
