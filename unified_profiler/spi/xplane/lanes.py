"""Assigns the lines of XPlane files to lanes of the event schema: process, thread, device and stream."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count

from unified_profiler.model.foreign_values import int_or_none
from unified_profiler.model.nesting import FIRST_LANE
from unified_profiler.spi.protocols import NativeCapture
from unified_profiler.spi.xplane.planes import Line, Plane

SIDE_LANE = FIRST_LANE >> 1
"""Added to the number of a lane for events that partly overlap others of their thread, as events of one lane nest."""

_DEVICE = re.compile(r"/device:(?P<kind>\w+):(?P<number>\d+)")
_STREAM = re.compile(r"Stream #(\d+)")
_CORE_LINES = frozenset({"XLA Ops", "Async XLA Ops", "Sparse Core Ops"})
"""Lines of a TPU with its work. On the plane of a device with streams, lines of these names repeat their work."""
_DEVICE_NAMES = {"GPU": "cuda"}
"""Native device types whose name in the event schema differs. ROCm devices are called cuda, too, as in PyTorch."""
_PYTHON = "python"


class LaneKind(Enum):
    """Source of the events of a lane."""

    THREAD = auto()
    STREAM = auto()
    CORE = auto()
    """The instructions of a core of a device that has no streams, such as a TPU."""
    DERIVED = auto()
    """A summary line of a device that repeats the work of its streams."""


@dataclass(frozen=True)
class XPlaneLane:
    """The lane of the events of one line."""

    pid: int
    tid: int
    thread: str
    device: str = "cpu:0"
    stream: int | None = None
    kind: LaneKind = LaneKind.THREAD


class LaneAssigner:
    """Assigns a lane to each line of a file.

    Line ids are not thread ids of the operating system. The recorder reports the lines of Python threads in the
    details of the capture: `pid`, `threads` (line id, thread id and name of each), `thread` (id of the thread that
    started the recording). Other lines are numbered in file order.
    """

    def __init__(self, capture: NativeCapture, *, file_number: int) -> None:
        details = capture.details
        is_own_process = capture.start_ns is not None
        self._pid = details.get("pid", os.getpid() if is_own_process else file_number)
        self._threads = {line: (int(tid), str(name)) for line, tid, name in details.get("threads", ())}
        self._starter: int | None = details.get("thread")
        self._numbers = count(FIRST_LANE)

    def assign(self, plane: Plane, lines: Sequence[Line]) -> list[XPlaneLane]:
        """Return the lanes of the lines of a plane."""
        device = _DEVICE.match(plane.name)
        if device is None:
            is_single = Counter(line.name for line in lines)[_PYTHON] == 1
            return [self._thread(line, is_starter=is_single and line.name == _PYTHON) for line in lines]
        number = int(device["number"])
        name = device_name(device["kind"], number)
        if any(_STREAM.match(line.name) for line in lines):
            return [self._stream(line, name, number) for line in lines]
        return [self._core(line, name, number) for line in lines]

    def _thread(self, line: Line, *, is_starter: bool) -> XPlaneLane:
        if line.id in self._threads:
            return XPlaneLane(self._pid, *self._threads[line.id])
        if is_starter and self._starter is not None and not self._threads:
            return XPlaneLane(self._pid, self._starter, line.name)
        return XPlaneLane(self._pid, next(self._numbers), line.name)

    def _stream(self, line: Line, device: str, number: int) -> XPlaneLane:
        stream = _STREAM.match(line.name)
        if stream is None:
            return XPlaneLane(number, next(self._numbers), line.name, device, kind=LaneKind.DERIVED)
        return XPlaneLane(number, int(stream[1]), line.name, device, int(stream[1]), LaneKind.STREAM)

    def _core(self, line: Line, device: str, number: int) -> XPlaneLane:
        if line.name not in _CORE_LINES:
            return self._stream(line, device, number)
        stream = int_or_none(line.id)
        return XPlaneLane(number, next(self._numbers), line.name, device, stream, LaneKind.CORE)


def device_name(kind: str, number: int) -> str:
    """Return the name of a device in the event schema: `cuda:0` for `GPU` 0."""
    return f"{_DEVICE_NAMES.get(kind, kind.lower())}:{number}"
