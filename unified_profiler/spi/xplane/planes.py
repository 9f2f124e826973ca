"""Opens XPlane files: planes with their lines, the names and stats of their events, and when the recording began."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, read_bytes
from unified_profiler.model.foreign_values import bounded
from unified_profiler.model.nesting import Ints
from unified_profiler.spi.protobuf import DAMAGED, message_classes

Stats = dict[str, Any]
"""Values that the profiler attached to an event, a plane or an event name, by the name of the stat."""

MESSAGES = message_classes(
    "unified_profiler.xplane",
    {  # strings are declared as bytes, since they are not always valid UTF-8
        "XSpace": {
            "planes": (1, "repeated XPlane"),
            "errors": (2, "repeated bytes"),
            "warnings": (3, "repeated bytes"),
            "hostnames": (4, "repeated bytes"),
        },
        "XPlane": {
            "name": (2, "bytes"),
            "lines": (3, "repeated XLine"),
            "event_metadata": (4, "repeated EventEntry"),
            "stat_metadata": (5, "repeated StatEntry"),
            "stats": (6, "repeated bytes"),
        },
        "XLine": {
            "id": (1, "int64"),
            "name": (2, "bytes"),
            "timestamp_ns": (3, "int64"),
            "events": (4, "repeated XEvent"),
            "display_name": (11, "bytes"),
        },
        "XEvent": {
            "metadata_id": (1, "int64"),
            "offset_ps": (2, "int64"),
            "duration_ps": (3, "int64"),
            # encoded, so that equal stats of many events are decoded once
            "stats": (4, "repeated bytes"),
            "num_occurrences": (5, "int64"),
        },
        "EventEntry": {"key": (1, "int64"), "value": (2, "XEventMetadata")},
        "XEventMetadata": {"name": (2, "bytes"), "stats": (5, "repeated bytes")},
        "StatEntry": {"key": (1, "int64"), "value": (2, "XStatMetadata")},
        "XStatMetadata": {"name": (2, "bytes")},
        # A oneof; its fields are declared as repeated to distinguish a value of 0 from a missing one.
        "XStat": {
            "metadata_id": (1, "int64"),
            "double_value": (2, "repeated double"),
            "uint64_value": (3, "repeated uint64"),
            "int64_value": (4, "repeated int64"),
            "str_value": (5, "repeated bytes"),
            "bytes_value": (6, "repeated bytes"),
            "ref_value": (7, "repeated uint64"),
        },
    },
)
_NAMES_ONLY = message_classes(
    "unified_profiler.xplane.names",
    {
        "XSpace": {"planes": (1, "repeated XPlane")},
        "XPlane": {"event_metadata": (4, "repeated Entry")},
        "Entry": {"value": (2, "XEventMetadata")},
        "XEventMetadata": {"name": (2, "bytes")},
    },
)["XSpace"]
_NUMBERS = ("int64_value", "uint64_value", "double_value")
_TASK_PLANE = "Task Environment"
_START = "profile_start_time"
_EXPECTED = "Expected a file written by the profiler of TensorFlow or JAX"
_SNIFF = 512
_FIRST_PLANE = re.compile(
    rb"\x0a[\x80-\xff]*[\x00-\x7f](?:\x08[\x80-\xff]*[\x00-\x7f])?\x12.(/(host|device)|Task Env)", re.DOTALL
)
"""The first plane of a file: its id if it has one, and its name."""


@dataclass(frozen=True)
class Line:
    """One line of a plane: a thread, or a stream of a device."""

    id: int
    name: str
    timestamp_ns: int
    """The origin of its events' offsets, relative to the start of the recording."""
    events: Sequence[Any]


class Plane:
    """One plane: the threads of a host or the streams of a device, with the names that its events refer to."""

    def __init__(self, message: Any) -> None:
        self._message = message
        self._decoded: dict[bytes, tuple[str, Any]] = {}
        self.name = decode_text(message.name)

    @property
    def lines(self) -> Iterator[Line]:
        """The lines, in the order of the file."""
        for line in self._message.lines:
            # events with a number of occurrences are totals without a timestamp, added by tools that process the file
            events = [event for event in line.events if not event.num_occurrences]
            yield Line(line.id, decode_text(line.display_name or line.name), line.timestamp_ns, events)

    @cached_property
    def event_names(self) -> dict[int, str]:
        """The names of events by metadata id."""
        return {entry.key: decode_text(entry.value.name) for entry in self._message.event_metadata}

    @cached_property
    def event_stats(self) -> dict[int, Stats]:
        """The stats that all events of a name share, by metadata id."""
        return {
            entry.key: self.decode(entry.value.stats) for entry in self._message.event_metadata if entry.value.stats
        }

    @cached_property
    def stats(self) -> Stats:
        """The stats of the plane itself."""
        return self.decode(self._message.stats)

    def prefixes(self, names: frozenset[str]) -> tuple[bytes, ...]:
        """Return the first bytes of encoded stats of these names, to recognize them without decoding."""
        ids = [number for number, name in self._stat_names.items() if number and name in names]
        return tuple(MESSAGES["XStat"](metadata_id=number).SerializeToString() for number in ids)

    def decode(self, stats: Sequence[bytes]) -> Stats:
        """Decode the stats of an event."""
        return dict(self._stat(encoded) for encoded in stats)

    @cached_property
    def _stat_names(self) -> dict[int, str]:
        return {entry.key: decode_text(entry.value.name) for entry in self._message.stat_metadata}

    def _stat(self, encoded: bytes) -> tuple[str, Any]:
        if encoded not in self._decoded:
            stat = MESSAGES["XStat"].FromString(encoded)
            name = self._stat_names.get(stat.metadata_id, f"stat {stat.metadata_id}")
            self._decoded[encoded] = name, self._value(stat)
        return self._decoded[encoded]

    def _value(self, stat: Any) -> Any:
        for name in _NUMBERS:
            if values := getattr(stat, name):
                return values[0]
        if stat.ref_value:
            return self._stat_names.get(stat.ref_value[0], "")
        if stat.bytes_value:
            return stat.bytes_value[0]
        return decode_text(stat.str_value[0]) if stat.str_value else None


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
    message = _parse(path)
    texts = [tuple(map(decode_text, field)) for field in (message.hostnames, message.errors, message.warnings)]
    space = Space(path, tuple(map(Plane, message.planes)), *texts)
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
        planes = _NAMES_ONLY.FromString(path.read_bytes()).planes
    except DAMAGED:
        return set()
    return {decode_text(entry.value.name) for plane in planes for entry in plane.event_metadata}


def event_columns(line: Line) -> tuple[Ints, Ints, Ints]:
    """Return metadata id, start and end of each event, in nanoseconds since the start of the recording.

    Both ends are rounded down, so that events that nest in picoseconds stay nested.
    """
    count, base = len(line.events), bounded(line.timestamp_ns, "timestamp")
    metadata_id = np.fromiter([event.metadata_id for event in line.events], np.int64, count)
    offset_ps = bounded(np.fromiter([event.offset_ps for event in line.events], np.int64, count), "offset of event")
    duration_ps = np.fromiter([event.duration_ps for event in line.events], np.int64, count)
    end_ps = offset_ps + bounded(duration_ps, "duration of event")
    return metadata_id, base + offset_ps // 1000, base + end_ps // 1000


def _parse(path: Path) -> Any:
    data = read_bytes(path)
    try:
        message = MESSAGES["XSpace"].FromString(data)
    except DAMAGED as error:
        reason = "truncated or damaged" if _FIRST_PLANE.match(data[:_SNIFF]) else "not an XPlane file"
        msg = f"{path} is {reason}: {error}. {_EXPECTED}; copy or record it again."
        raise TraceFormatError(msg) from error
    if not data:
        msg = f"{path} is empty; expected an XPlane file. Was the profiled program killed while writing it?"
        raise TraceFormatError(msg)
    if not message.planes:
        msg = f"{path} is not an XPlane file: it has no planes. {_EXPECTED}."
        raise TraceFormatError(msg)
    return message


def decode_text(text: bytes) -> str:
    """Decode a text of a file, which need not be valid UTF-8."""
    return text.decode("utf-8", "replace")
