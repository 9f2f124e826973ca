"""The files of a FRAMEWORK directory as plain columns: kernels by launch, their shapes, memory over time.

    cpu_op_execute_timestamp_0.txt   Default/Conv2D-op0;HostCpuOps;1794785728841556946,10.4067,0 1794785728888267087,...
    cpu_framework_0.txt              Conv2D;Conv2D-op0;3669962135;input_1:[16, 1, 8, 8];input_2:NoShape;
    cpu_ms_memory_record_0.txt       1794785779189730936,11776,1073741824,11776

Not taken over: the thread, which always is 0, and the third field of cpu_framework, which is the same in all rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.nesting import Ints

NS_PER_MS = 1_000_000

_MEMORY_HEADER = "Timestamp(ns),Total Allocated(Byte),Total Reserved(Byte),Total Active(Byte)"
_INPUT = re.compile(r"input_\d+:(.*)", re.DOTALL)
_SHAPE = re.compile(r"\[[\d, -]*\]")


@dataclass(frozen=True)
class Launches:
    """All kernels in the order in which they ran."""

    nodes: list[str]
    """The distinct names."""
    sides: list[str]
    """Where each of them runs: HostCpuOps."""
    node: Ints
    """The name of each kernel, as a number."""
    start_ns: Ints
    duration_ns: Ints


@dataclass(frozen=True)
class MemoryRecord:
    """What MindSpore's allocator said, by time."""

    names: tuple[str, ...]
    time_ns: Ints
    values: Ints
    """One row per name."""

    def between(self, start_ns: int, stop_ns: int) -> MemoryRecord:
        """Leave out what earlier recordings of the process left in the file."""
        inside = (self.time_ns >= start_ns) & (self.time_ns <= stop_ns)
        return MemoryRecord(self.names, self.time_ns[inside], self.values[:, inside])


def read_launches(path: Path) -> Launches:
    """Read the times of all kernels.

    Raises:
        TraceFormatError: The file is damaged or of another kind.
    """
    nodes, sides, parts = [], [], []
    for number, line in _lines(path):
        try:
            name, side, times = line.rsplit(";", 2)
            parts.append(_times(times))
        except ValueError as error:
            raise _damaged(path, number, "`name;side;start,duration,thread ...`", line) from error
        nodes.append(name)
        sides.append(side)
    node = np.repeat(np.arange(len(parts)), [len(start) for start, _ in parts])
    start = _joined([start for start, _ in parts])
    duration = _joined([duration for _, duration in parts])
    order = np.argsort(start, kind="stable")
    return Launches(nodes, sides, node[order], start[order], duration[order])


def _times(text: str) -> tuple[Ints, Ints]:
    """Return starts and durations of one kernel; durations are written in milliseconds with six digits.

    There are none for a kernel that failed, which MindSpore lists from then on.
    """
    fields = text.replace(",", " ").split()
    starts, durations, threads = fields[0::3], fields[1::3], fields[2::3]
    if not len(starts) == len(durations) == len(threads):
        msg = "not three numbers for each launch"
        raise ValueError(msg)
    milliseconds = np.fromiter(map(float, durations), np.float64, len(durations))
    if not np.all(np.isfinite(milliseconds) & (milliseconds >= 0)):
        msg = "a duration that is none"
        raise ValueError(msg)
    return np.fromiter(map(int, starts), np.int64, len(starts)), np.rint(milliseconds * NS_PER_MS).astype(np.int64)


def read_shapes(path: Path) -> list[tuple[str, str | None]]:
    """Read operator and input shapes, as JSON, of each launch; blank where MindSpore tells none.

    Raises:
        TraceFormatError: The file is damaged or of another kind.
    """
    known: dict[str, tuple[str, str | None]] = {}
    rows = []
    for number, line in _lines(path):
        if line not in known:
            fields = line.split(";")
            if len(fields) < 4 or fields[-1]:
                raise _damaged(path, number, "`type;name;id;input_1:shape;...`", line)
            known[line] = fields[1], _shapes(path, number, fields[3:-1])
        rows.append(known[line])
    return rows


def _shapes(path: Path, number: int, inputs: Sequence[str]) -> str | None:
    values = []
    for text in inputs:
        found = _INPUT.fullmatch(text)
        if not found:
            raise _damaged(path, number, "`input_1:shape`", text)
        values.append(_shape(found[1]))
    return json.dumps(values, separators=(",", ":")) if values else None


def _shape(text: str) -> object:
    """Return a shape as a list; null for what has none, and MindSpore's words for what is a tuple of them."""
    if _SHAPE.fullmatch(text):
        return json.loads(text)
    return None if text == "NoShape" else text


def read_memory(path: Path) -> MemoryRecord:
    """Read what the allocator said.

    Raises:
        TraceFormatError: The file is damaged or of another kind.
    """
    lines = list(_lines(path))
    if not lines or lines[0][1] != _MEMORY_HEADER:
        raise _damaged(path, 1, f"`{_MEMORY_HEADER}`", lines[0][1] if lines else "nothing")
    names = tuple(_MEMORY_HEADER.split(",")[1:])
    try:
        rows = np.array([[int(field) for field in line.split(",")] for _, line in lines[1:]], np.int64)
        columns = rows.reshape(-1, 1 + len(names)).T
        if len(rows) != columns.shape[1]:
            msg = "rows of another length"
            raise ValueError(msg)
    except (ValueError, OverflowError) as error:
        msg = f"{path} is damaged: its rows should be {1 + len(names)} whole numbers each ({error}). Record again."
        raise TraceFormatError(msg) from error
    return MemoryRecord(names, columns[0], columns[1:])


def read_pid(path: Path) -> int | None:
    """Return the process id from cpu_op_detail_info, the only file that has it."""
    try:
        last = path.read_text(encoding="utf-8").splitlines()[-1]
        return int(last.rsplit(",", 1)[1])
    except (OSError, UnicodeDecodeError, IndexError, ValueError):
        return None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise TraceFormatError(msg) from error
    if text and not text.endswith("\n"):
        msg = f"{path} ends in the middle of a line: it was cut off while it was written or copied. Record again."
        raise TraceFormatError(msg)
    return enumerate(text.splitlines(), start=1)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _damaged(path: Path, number: int, expected: str, found: str) -> TraceFormatError:
    return TraceFormatError(
        f"{path}, line {number}: expected {expected}, found {found[:80]!r}. The file is damaged or of another kind."
    )
