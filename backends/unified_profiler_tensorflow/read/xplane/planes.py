"""Reading XPlane files (`*.xplane.pb`): bytes in, planes of named lines and columns of their events out.

Knows the layout of the file; knows nothing of the event schema. Needs no TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, read_bytes
from unified_profiler.model.foreign_values import bounded
from unified_profiler.model.nesting import Ints
from unified_profiler_tensorflow.read.protobuf import DAMAGED, message_classes

Stats = dict[str, Any]
"""What TensorFlow says about an event, by its own names."""

_MESSAGES = message_classes(
    "unified_profiler.tensorflow.xplane",
    {  # texts are bytes here, since nothing makes sure that they are UTF-8
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
            "stats": (4, "repeated bytes"),  # decoded once for all events that say the same
            "num_occurrences": (5, "int64"),
        },
        "EventEntry": {"key": (1, "int64"), "value": (2, "XEventMetadata")},
        "XEventMetadata": {"name": (2, "bytes"), "stats": (5, "repeated bytes")},
        "StatEntry": {"key": (1, "int64"), "value": (2, "XStatMetadata")},
        "XStatMetadata": {"name": (2, "bytes")},
        "XStat": {  # one value of several types; declared as repeated, a value of 0 can be told from none
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
_NUMBERS = ("int64_value", "uint64_value", "double_value")
_TASK_PLANE = "Task Environment"
_START = "profile_start_time"
_SNIFF = 512
_FIRST_PLANE = re.compile(
    rb"\x0a[\x80-\xff]*[\x00-\x7f](?:\x08[\x80-\xff]*[\x00-\x7f])?\x12.(/(host|device)|Task Env)", re.DOTALL
)
"""A plane, its number if it has one, and its name."""


@dataclass(frozen=True)
class Line:
    """One line of a plane: a thread, or a stream of a device."""

    id: int
    name: str
    timestamp_ns: int
    """What its events' offsets count from, itself counted from the start of the recording."""
    events: Sequence[Any]


class Plane:
    """One plane: the threads of a host or the streams of a device, and the names that its events refer to."""

    def __init__(self, message: Any) -> None:
        self._message = message
        self._decoded: dict[bytes, tuple[str, Any]] = {}
        self.name = _decode(message.name)

    @property
    def lines(self) -> Iterator[Line]:
        """The lines, in the order of the file."""
        for line in self._message.lines:
            # totals without a moment, which tools add when they work on a file, have no place on a time line
            events = [event for event in line.events if not event.num_occurrences]
            yield Line(line.id, _decode(line.display_name or line.name), line.timestamp_ns, events)

    @cached_property
    def event_names(self) -> dict[int, str]:
        """The names of events, by their numbers."""
        return {entry.key: _decode(entry.value.name) for entry in self._message.event_metadata}

    @cached_property
    def event_stats(self) -> dict[int, Stats]:
        """What holds for all events of a name, by the number of the name."""
        return {
            entry.key: self.decode(entry.value.stats) for entry in self._message.event_metadata if entry.value.stats
        }

    @cached_property
    def stats(self) -> Stats:
        """What TensorFlow says about the plane."""
        return self.decode(self._message.stats)

    def prefixes(self, names: frozenset[str]) -> tuple[bytes, ...]:
        """Return how encoded stats of these names begin, so that they can be skipped without decoding them."""
        return tuple(b"\x08" + _varint(number) for number, name in self._stat_names.items() if name in names)

    def decode(self, stats: Sequence[bytes]) -> Stats:
        """Decode stats."""
        return dict(self._stat(encoded) for encoded in stats)

    @cached_property
    def _stat_names(self) -> dict[int, str]:
        return {entry.key: _decode(entry.value.name) for entry in self._message.stat_metadata}

    def _stat(self, encoded: bytes) -> tuple[str, Any]:
        if encoded not in self._decoded:
            stat = _MESSAGES["XStat"].FromString(encoded)
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
        return _decode(stat.str_value[0]) if stat.str_value else None


@dataclass(frozen=True)
class Space:
    """A whole file."""

    path: Path
    planes: tuple[Plane, ...]
    hosts: tuple[str, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    start_ns: int
    """When the recording began, since the Unix epoch."""

    @cached_property
    def task(self) -> Stats:
        """What TensorFlow says about the recording as a whole."""
        return next((plane.stats for plane in self.planes if plane.name == _TASK_PLANE), {})


def looks_like_xplane(path: Path) -> bool:
    """Say from its first bytes whether this is an XPlane file."""
    return _FIRST_PLANE.match(peek_bytes(path, _SNIFF)) is not None


def open_space(path: Path) -> Space:
    """Read an XPlane file.

    Raises:
        TraceFormatError: It cannot be read, is empty, truncated or no XPlane file.
    """
    message = _parse(path)
    planes = tuple(Plane(plane) for plane in message.planes)
    task: Mapping[str, Any] = next((plane.stats for plane in planes if plane.name == _TASK_PLANE), {})
    if not isinstance(task.get(_START), int):
        msg = (
            f"{path} does not say when its recording began: the plane {_TASK_PLANE!r}, which TensorFlow writes last, "
            f"is missing; found {[plane.name for plane in planes][:10]}. It is truncated, or of an old version. Copy "
            "or record it again."
        )
        raise TraceFormatError(msg)
    texts = {name: tuple(map(_decode, getattr(message, name))) for name in ("hostnames", "errors", "warnings")}
    return Space(path, planes, texts["hostnames"], texts["errors"], texts["warnings"], task[_START])


def columns_of(line: Line) -> tuple[Ints, Ints, Ints]:
    """Return name number, start and end of each event; times in nanoseconds since the start of the recording.

    Both ends are rounded down, so that what is nested in picoseconds stays nested.
    """
    count, base = len(line.events), bounded(line.timestamp_ns, "timestamp")
    number = np.fromiter([event.metadata_id for event in line.events], np.int64, count)
    offset_ps = bounded(np.fromiter([event.offset_ps for event in line.events], np.int64, count), "offset of event")
    lasts_ps = bounded(np.fromiter([event.duration_ps for event in line.events], np.int64, count), "duration of event")
    return number, base + offset_ps // 1000, base + (offset_ps + lasts_ps) // 1000


def _parse(path: Path) -> Any:
    data = read_bytes(path)
    try:
        message = _MESSAGES["XSpace"].FromString(data)
    except DAMAGED as error:
        reason = "truncated or damaged" if _FIRST_PLANE.match(data[:_SNIFF]) else "no XPlane file"
        msg = f"{path} is {reason}: {error}. Expected what TensorFlow's profiler writes; copy or record it again."
        raise TraceFormatError(msg) from error
    if not data:
        msg = f"{path} is empty; expected an XPlane file. Was the profiled program killed while writing it?"
        raise TraceFormatError(msg)
    if not message.planes:
        msg = f"{path} is no XPlane file: it has no planes. Expected what TensorFlow's profiler writes."
        raise TraceFormatError(msg)
    return message


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _varint(number: int) -> bytes:
    rest, found = number & ((1 << 64) - 1), bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])
