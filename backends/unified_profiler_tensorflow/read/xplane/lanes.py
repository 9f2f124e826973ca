"""Lines of XPlane files as lanes of the event schema: process, thread, device and stream, and what has to stand beside.

Events of one lane nest. Two sorts of events of a thread overlap partly with others by the way they are recorded: Python
frames in which an annotation begins or ends, and the pieces of an executor's work in a loop, each of which ends within
the next. Such events, and those only, go to a lane beside their thread.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from unified_profiler.model.nesting import FIRST_LANE
from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.read.xplane.planes import Line, Plane

BESIDE = FIRST_LANE >> 1
"""Added to the number of a lane: the lane beside it."""

_DEVICE = re.compile(r"/device:(?P<kind>\w+):(?P<number>\d+)")
_STREAM = re.compile(r"Stream #(\d+)")
_DEVICE_NAMES = {"GPU": "cuda"}
"""TensorFlow's names of devices in the words of the event schema. ROCm's are called cuda here, as torch does."""
_PYTHON = "python"
_INPUT = "tf_data"


class LaneSort(Enum):
    """What runs on a lane."""

    THREAD = auto()
    INPUT_THREAD = auto()
    """A thread of `tf.data`."""
    STREAM = auto()
    DERIVED = auto()
    """No stream of a device: the work of its streams once more, in other words."""


@dataclass(frozen=True)
class Lane:
    """Where the events of a line are."""

    pid: int
    tid: int
    thread: str
    device: str = "cpu:0"
    stream: int | None = None
    sort: LaneSort = LaneSort.THREAD


class Lanes:
    """Gives each line of a file its lane.

    The lines have numbers, but none of an operating system. Those of Python threads are known to the recorder; the
    others are numbered in the order of the file.
    """

    def __init__(self, capture: NativeCapture, *, file_number: int) -> None:
        details = capture.details
        recorded_here = capture.start_ns is not None
        self._pid = details.get("pid", os.getpid() if recorded_here else file_number)
        self._threads = {line: (int(tid), str(name)) for line, tid, name in details.get("threads", ())}
        self._starter: int | None = details.get("thread")
        self._count = 0

    def of(self, plane: Plane, lines: Sequence[Line]) -> list[Lane]:
        """Return the lanes of the lines of a plane."""
        device = _DEVICE.match(plane.name)
        if device is None:
            alone = Counter(line.name for line in lines)[_PYTHON] == 1
            return [self._thread(line, is_starter=alone and line.name == _PYTHON) for line in lines]
        number = int(device["number"])
        name = device_name(device["kind"], number)
        return [self._stream(line, name, number) for line in lines]

    def _thread(self, line: Line, *, is_starter: bool) -> Lane:
        if line.id in self._threads:
            tid, name = self._threads[line.id]
            return Lane(self._pid, tid, name)
        if is_starter and self._starter is not None and not self._threads:
            return Lane(self._pid, self._starter, line.name)
        sort = LaneSort.INPUT_THREAD if line.name.startswith(_INPUT) else LaneSort.THREAD
        return Lane(self._pid, self._next(), line.name, sort=sort)

    def _stream(self, line: Line, device: str, number: int) -> Lane:
        stream = _STREAM.match(line.name)
        if stream is None:
            return Lane(number, self._next(), line.name, device, sort=LaneSort.DERIVED)
        return Lane(number, int(stream[1]), line.name, device, int(stream[1]), LaneSort.STREAM)

    def _next(self) -> int:
        self._count += 1
        return FIRST_LANE + self._count - 1


def device_name(kind: str, number: int) -> str:
    """Return the name of a device in the event schema: `cuda:0` for `GPU` 0."""
    return f"{_DEVICE_NAMES.get(kind, kind.lower())}:{number}"
