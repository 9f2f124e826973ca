"""Reads the files of a FRAMEWORK directory as plain columns: kernel launches, their shapes, and memory over time.

    cpu_op_execute_timestamp_0.txt   Default/Conv2D-op0;HostCpuOps;1794785728841556946,10.4067,0 1794785728888267087,...
    cpu_framework_0.txt              Conv2D;Conv2D-op0;3669962135;input_1:[16, 1, 8, 8];input_2:NoShape;
    cpu_ms_memory_record_0.txt       1794785779189730936,11776,1073741824,11776

Not read: the thread, which is always 0, and the third field of cpu_framework, which is the same in all rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unified_profiler.model.foreign import read_bytes, reading
from unified_profiler.model.foreign_values import LARGEST, bounded, int_or_none
from unified_profiler.model.nesting import Ints

NS_PER_MS = 1_000_000

_MEMORY_HEADER = "Timestamp(ns),Total Allocated(Byte),Total Reserved(Byte),Total Active(Byte)"
_INPUT = re.compile(r"input_\d+:(.*)", re.DOTALL)
_SHAPE = re.compile(r"\[[\d, -]*\]")


@dataclass(frozen=True)
class Launches:
    """All kernel launches in the order in which they ran."""

    names: list[str]
    """The distinct kernel names."""
    sides: list[str]
    """The side on which each of these kernels runs: HostCpuOps."""
    kernel: Ints
    """Index of the kernel of each launch."""
    start_ns: Ints
    duration_ns: Ints


@dataclass(frozen=True)
class MemoryRecord:
    """Samples of MindSpore's allocator, by time."""

    names: tuple[str, ...]
    time_ns: Ints
    values: Ints
    """One row per name."""

    def between(self, start_ns: int, stop_ns: int) -> MemoryRecord:
        """Return the samples of a time window; the file also contains those of earlier recordings of the process."""
        in_window = (self.time_ns >= start_ns) & (self.time_ns <= stop_ns)
        return MemoryRecord(self.names, self.time_ns[in_window], self.values[:, in_window])


def read_launches(path: Path) -> Launches:
    """Read the times of all kernel launches.

    Raises:
        TraceFormatError: The file is damaged or of another kind.
    """
    names, sides, times = [], [], []
    for number, line in _lines(path):
        with _reading_line(path, number, line, "`name;side;start,duration,thread ...`"):
            name, side, text = line.rsplit(";", 2)
            times.append(_times(text))
        names.append(name)
        sides.append(side)
    kernel = np.repeat(np.arange(len(times)), [starts.size for starts, _ in times])
    start, duration = np.hstack([np.empty((2, 0), np.int64), *times])
    order = np.argsort(start, kind="stable")
    return Launches(names, sides, kernel[order], start[order], duration[order])


def _times(text: str) -> tuple[Ints, Ints]:
    """Return starts and durations of one kernel; durations are in milliseconds with six digits.

    A kernel that failed has none, and MindSpore lists it in all later recordings, too.
    """
    fields = text.replace(",", " ").split()
    starts, durations, threads = fields[0::3], fields[1::3], fields[2::3]
    if not len(starts) == len(durations) == len(threads):
        msg = "a launch does not have three numbers"
        raise ValueError(msg)
    milliseconds = np.fromiter(map(float, durations), np.float64, len(durations))
    if not np.all((milliseconds >= 0) & (milliseconds <= LARGEST / NS_PER_MS)):
        msg = "a duration is negative, too large or not a number"
        raise ValueError(msg)
    return np.fromiter(map(int, starts), np.int64, len(starts)), np.rint(milliseconds * NS_PER_MS).astype(np.int64)


def read_shapes(path: Path) -> list[tuple[str, str | None]]:
    """Read operator and input shapes, as JSON, of each launch; None where MindSpore records no shapes.

    Raises:
        TraceFormatError: The file is damaged or of another kind.
    """
    parsed: dict[str, tuple[str, str | None]] = {}
    rows = []
    for number, line in _lines(path):
        if line not in parsed:
            with _reading_line(path, number, line, "`type;name;id;input_1:shape;...`"):
                _, name, _, *inputs = line.removesuffix(";").split(";")
                shapes = [_shape(text) for text in inputs]
                parsed[line] = name, json.dumps(shapes, separators=(",", ":")) if shapes else None
        rows.append(parsed[line])
    return rows


def _shape(text: str) -> object:
    """Return a shape as a list; None for an input without one, and MindSpore's text for a tuple of shapes."""
    match = _INPUT.fullmatch(text)
    if not match:
        msg = f"expected `input_1:shape`, found {text!r:.100}"
        raise ValueError(msg)
    if _SHAPE.fullmatch(match[1]):
        return json.loads(match[1])
    return None if match[1] == "NoShape" else match[1]


def read_memory(path: Path) -> MemoryRecord:
    """Read the samples of the allocator.

    Raises:
        TraceFormatError: The file is damaged or of another kind.
    """
    names = tuple(_MEMORY_HEADER.split(",")[1:])
    with reading(path, expected=f"`{_MEMORY_HEADER}`, then {1 + len(names)} whole numbers in each line"):
        header, *lines = _text(path).splitlines() or [""]
        rows = np.array([[int(field) for field in line.split(",")] for line in lines], np.int64)
        if header != _MEMORY_HEADER or (lines and rows.shape[1] != 1 + len(names)):
            msg = f"found the header {header!r:.100}, followed by {lines[:1]!r:.100}"
            raise ValueError(msg)
        columns = bounded(rows, "number").reshape(-1, 1 + len(names)).T
    return MemoryRecord(names, columns[0], columns[1:])


def read_pid(path: Path) -> int | None:
    """Return the process id from cpu_op_detail_info, the only file that contains it."""
    try:
        last = read_bytes(path).decode().splitlines()[-1]
        return int_or_none(int(last.rsplit(",", 1)[1]))
    except (LookupError, ValueError):
        return None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with reading(path, expected="a text file of MindSpore's profiler"):
        return enumerate(_text(path).splitlines(), start=1)


def _text(path: Path) -> str:
    text = read_bytes(path).decode()
    if text and not text.endswith("\n"):
        msg = "the last line is incomplete: the file was cut off while it was written or copied"
        raise ValueError(msg)
    return text


def _reading_line(path: Path, number: int, line: str, expected: str) -> AbstractContextManager[None]:
    return reading(f"{path}, line {number}", expected=f"{expected}, found {line!r:.100}")
