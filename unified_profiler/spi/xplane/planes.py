"""Opens XPlane files: planes with their lines, the names and stats of their events, and when the recording began."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from struct import unpack
from typing import Any

import numpy as np

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, read_bytes
from unified_profiler.model.foreign_values import bounded
from unified_profiler.model.nesting import Ints
from unified_profiler.spi.wire import BYTES, FIXED64, VARINT, Buffer, Field, Messages, Ranges, WireError, fields_of

Stats = dict[str, Any]
"""Values that the profiler attached to an event, a plane or an event name, by the name of the stat."""

# Field numbers of XSpace, XPlane, XLine, XEvent, the entries of maps, XEventMetadata, XStatMetadata and XStat.
_PLANES, _ERRORS, _WARNINGS, _HOSTS = 1, 2, 3, 4
_PLANE_NAME, _LINES, _EVENT_METADATA, _STAT_METADATA, _PLANE_STATS = 2, 3, 4, 5, 6
_LINE_ID, _LINE_NAME, _TIMESTAMP_NS, _EVENTS, _DISPLAY_NAME = 1, 2, 3, 4, 11
_METADATA_ID, _OFFSET_PS, _DURATION_PS, _EVENT_STATS, _NUM_OCCURRENCES = 1, 2, 3, 4, 5
_KEY, _VALUE = 1, 2
_NAME, _METADATA_STATS = 2, 5
_STAT_ID, _DOUBLE, _UINT64, _INT64, _STRING, _BYTES, _REFERENCE = 1, 2, 3, 4, 5, 6, 7
_INTEGERS = ((_UINT64, VARINT), (_INT64, VARINT))
_TASK_PLANE = "Task Environment"
_START = "profile_start_time"
_EXPECTED = "Expected a file written by the profiler of TensorFlow or JAX"
_SNIFF = 512
_FIRST_PLANE = re.compile(
    rb"\x0a[\x80-\xff]*[\x00-\x7f](?:\x08[\x80-\xff]*[\x00-\x7f])?\x12.(/(host|device)|Task Env)", re.DOTALL
)
"""The first plane of a file: its id if it has one, and its name."""


@dataclass(frozen=True)
class LineEvents:
    """The events of a line as columns."""

    buffer: Buffer
    metadata_id: Ints
    offset_ps: Ints
    duration_ps: Ints
    stats: Ranges
    """The encoded stats; `message` is the index of their event."""

    @cached_property
    def stat_ids(self) -> Ints:
        """The id of the name of each stat, -1 where another field precedes it."""
        return self.buffer.leading_integers(_STAT_ID, self.stats)

    def stats_of(self, event: int) -> list[bytes]:
        """Return the encoded stats of one event."""
        first, last = np.searchsorted(self.stats.message, (event, event + 1))
        return self.buffer.texts(self.stats.at(np.arange(first, last)))


@dataclass(frozen=True)
class Line:
    """One line of a plane: a thread, or a stream of a device."""

    id: int
    name: str
    timestamp_ns: int
    """The origin of its events' offsets, relative to the start of the recording."""
    events: LineEvents


class Plane:
    """One plane: the threads of a host or the streams of a device, with the names that its events refer to."""

    def __init__(self, message: Messages) -> None:
        self._message = message
        self._decoded: dict[bytes, tuple[str, Any]] = {}
        self.name = decode_text(message.texts(_PLANE_NAME)[0])

    @property
    def lines(self) -> Iterator[Line]:
        """The lines, in the order of the file."""
        _, lines = self._message.children(_LINES)
        ids, times = (lines.integers(number).tolist() for number in (_LINE_ID, _TIMESTAMP_NS))
        owner, start, end = lines.ranges(_EVENTS)
        edges = np.searchsorted(owner, np.arange(lines.count + 1)).tolist()
        for index, names in enumerate(zip(lines.texts(_DISPLAY_NAME), lines.texts(_LINE_NAME), strict=True)):
            rows = slice(edges[index], edges[index + 1])
            events = _read_events(lines.buffer, start[rows], end[rows])
            yield Line(ids[index], decode_text(names[0] or names[1]), times[index], events)

    @cached_property
    def event_names(self) -> dict[int, str]:
        """The names of events by metadata id."""
        ids, metadata = self._event_metadata
        return dict(zip(ids, map(decode_text, metadata.texts(_NAME)), strict=True))

    @cached_property
    def event_stats(self) -> dict[int, Stats]:
        """The stats that all events of a name share, by metadata id."""
        ids, metadata = self._event_metadata
        stats = metadata.ranges(_METADATA_STATS)
        encoded: dict[int, list[bytes]] = {}
        for owner, stat in zip(stats.message.tolist(), metadata.buffer.texts(stats), strict=True):
            encoded.setdefault(ids[owner], []).append(stat)
        return {number: self.decode(each) for number, each in encoded.items()}

    @cached_property
    def stats(self) -> Stats:
        """The stats of the plane itself."""
        return self.decode(self._message.buffer.texts(self._message.ranges(_PLANE_STATS)))

    def stat_ids(self, names: frozenset[str]) -> Ints:
        """Return the ids of stats of these names."""
        return np.array([number for number, name in self._stat_names.items() if name in names], np.int64)

    def decode(self, stats: Sequence[bytes]) -> Stats:
        """Decode the stats of an event."""
        return dict(self._stat(encoded) for encoded in stats)

    @cached_property
    def _event_metadata(self) -> tuple[list[int], Messages]:
        return self._entries(_EVENT_METADATA)

    @cached_property
    def _stat_names(self) -> dict[int, str]:
        ids, metadata = self._entries(_STAT_METADATA)
        return dict(zip(ids, map(decode_text, metadata.texts(_NAME)), strict=True))

    def _entries(self, number: int) -> tuple[list[int], Messages]:
        """Return the keys and values of a map."""
        _, entries = self._message.children(number)
        return entries.integers(_KEY).tolist(), entries.child(_VALUE)

    def _stat(self, encoded: bytes) -> tuple[str, Any]:
        if encoded not in self._decoded:
            fields = {field.number: field for field in fields_of(encoded)}
            number = fields.pop(_STAT_ID).signed if _STAT_ID in fields else 0
            values = [self._value(field, encoded) for field in fields.values()]
            self._decoded[encoded] = self._stat_names.get(number, f"stat {number}"), values[-1] if values else None
        return self._decoded[encoded]

    def _value(self, field: Field, encoded: bytes) -> Any:
        """Return the value of a stat, which is in one of several fields."""
        kind = field.number, field.wire_type
        content = encoded[field.start : field.end]
        if kind == (_DOUBLE, FIXED64):
            return unpack("<d", content)[0]
        if kind in _INTEGERS:
            return field.signed if field.number == _INT64 else field.value
        if kind == (_REFERENCE, VARINT):
            return self._stat_names.get(field.value, "")
        if kind == (_BYTES, BYTES):
            return content
        return decode_text(content) if kind == (_STRING, BYTES) else None


@dataclass(frozen=True)
class Space:
    """The content of a file."""

    path: Path
    planes: tuple[Plane, ...]
    hosts: tuple[str, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]

    @cached_property
    def task(self) -> Stats:
        """The stats of the recording as a whole."""
        return next((plane.stats for plane in self.planes if plane.name == _TASK_PLANE), {})

    @property
    def start_ns(self) -> int:
        """Start of the recording, in nanoseconds since the Unix epoch."""
        return int(self.task[_START])


def looks_like_xplane(path: Path) -> bool:
    """Return whether the first bytes are those of an XPlane file."""
    return _FIRST_PLANE.match(peek_bytes(path, _SNIFF)) is not None


def open_space(path: Path) -> Space:
    """Read an XPlane file.

    Raises:
        TraceFormatError: The file cannot be read, is empty, truncated or not an XPlane file.
    """
    space = _parse(path)
    if not isinstance(space.task.get(_START), int):
        names = [plane.name for plane in space.planes][:10]
        msg = (
            f"{path} does not contain the start time of its recording: the plane {_TASK_PLANE!r}, which the profiler "
            f"writes last, is missing; found {names}. The file is truncated, or of an old version. Copy or record it "
            "again."
        )
        raise TraceFormatError(msg)
    return space


def read_event_names(path: Path) -> set[str]:
    """Return the names of all events without decoding the events, which are most of a file; none of a damaged file."""
    try:
        planes = _planes(Buffer(path.read_bytes()).messages())
        return {name for plane in planes for name in plane.event_names.values()}
    except WireError:
        return set()


def event_columns(line: Line) -> tuple[Ints, Ints, Ints]:
    """Return metadata id, start and end of each event, in nanoseconds since the start of the recording.

    Both ends are rounded down, so that events that nest in picoseconds stay nested.
    """
    events, base = line.events, bounded(line.timestamp_ns, "timestamp")
    offset_ps = bounded(events.offset_ps, "offset of event")
    end_ps = offset_ps + bounded(events.duration_ps, "duration of event")
    return events.metadata_id, base + offset_ps // 1000, base + end_ps // 1000


def decode_text(text: bytes) -> str:
    """Decode a text of a file, which need not be valid UTF-8."""
    return text.decode("utf-8", "replace")


def _parse(path: Path) -> Space:
    data = read_bytes(path)
    if not data:
        msg = f"{path} is empty; expected an XPlane file. Was the profiled program killed while writing it?"
        raise TraceFormatError(msg)
    try:
        message = Buffer(data).messages()
        planes = _planes(message)
    except WireError as error:
        reason = "truncated or damaged" if _FIRST_PLANE.match(data[:_SNIFF]) else "not an XPlane file"
        msg = f"{path} is {reason}: {error}. {_EXPECTED}; copy or record it again."
        raise TraceFormatError(msg) from error
    if not planes:
        msg = f"{path} is not an XPlane file: it has no planes. {_EXPECTED}."
        raise TraceFormatError(msg)
    texts = (message.buffer.texts(message.ranges(number)) for number in (_HOSTS, _ERRORS, _WARNINGS))
    return Space(path, planes, *(tuple(map(decode_text, each)) for each in texts))


def _planes(space: Messages) -> tuple[Plane, ...]:
    _, start, end = space.ranges(_PLANES)
    bounds = zip(start.tolist(), end.tolist(), strict=True)
    return tuple(Plane(space.buffer.messages([first], [last])) for first, last in bounds)


def _read_events(buffer: Buffer, start: Ints, end: Ints) -> LineEvents:
    """Decode the events of a line.

    Events with a number of occurrences are totals without a timestamp, added by tools that process the file.
    """
    events = buffer.messages(start, end)
    is_total = events.integers(_NUM_OCCURRENCES) != 0
    if is_total.any():
        events = buffer.messages(start[~is_total], end[~is_total])
    metadata_id, offset_ps, duration_ps = map(events.integers, (_METADATA_ID, _OFFSET_PS, _DURATION_PS))
    return LineEvents(buffer, metadata_id, offset_ps, duration_ps, events.ranges(_EVENT_STATS))
