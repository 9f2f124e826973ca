"""Reads hardware counters on Linux from files in /proc that stay open while a cycle is recorded.

psutil reads the same files, but opens each one every time and converts all of its content to objects. With the caches
cold, as between two readings of a busy program, this takes five times as long as in a loop: more than sampling may
cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from unified_profiler.recording.hardware import counters
from unified_profiler.recording.hardware.readings import LESS_OFTEN, SELDOM, Reading, Source

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SECTOR_BYTES = 512
"""The unit of /proc/diskstats, regardless of the sector size of a disk."""
_CHUNK = 1 << 14
"""Initial size of a read in bytes."""

Parse = Callable[[bytes], Iterator[Reading]]


class ProcFile:
    """A file that is opened once and then read by a single system call each time.

    Args:
        path: Path of the file.
        parse: Converts the content to readings.
        in_pieces: Whether the file consists of records, of which Linux returns a few per call, regardless of the size.
    """

    def __init__(self, path: str, parse: Parse, *, in_pieces: bool = False) -> None:
        self._path = path
        self._parse = parse
        self._read_text = self._read_pieces if in_pieces else self._read_whole
        self._size = _CHUNK
        self._descriptor: int | None = None

    def is_readable(self) -> bool:
        """Return whether the file can be opened."""
        try:
            os.close(self._open())
        except OSError:
            return False
        return True

    def read(self) -> Iterator[Reading]:
        """Read the file from its beginning."""
        if self._descriptor is None:
            self._descriptor = self._open()
        return self._parse(self._read_text(self._descriptor))

    def _open(self) -> int:
        return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)

    def _read_whole(self, descriptor: int) -> bytes:
        while len(text := os.pread(descriptor, self._size, 0)) == self._size:
            self._size *= 2
        return text

    def _read_pieces(self, descriptor: int) -> bytes:
        text = b""
        while piece := os.pread(descriptor, self._size, len(text)):
            text += piece
        return text

    def close(self) -> None:
        """Close the file; reading opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def statm(text: bytes) -> Iterator[Reading]:
    """Parse the pages of the process: all of them, then the resident ones."""
    yield Reading(counters.PROCESS_MEMORY, int(text.split(None, 2)[1]) * _PAGE_BYTES)


def stat(text: bytes) -> Iterator[Reading]:
    """Parse the ticks of each core: user (guests included), nice, system, idle, iowait, irq, softirq, steal."""
    lines = text[: text.find(b"\nintr")].split(b"\n")
    busy, stolen = [], 0
    for line in lines[1:]:
        name, user, nice, system, _, _, irq, softirq, steal = line.split(None, 9)[:9]
        seconds = sum(map(int, (user, nice, system, irq, softirq, steal))) / _TICKS
        busy.append(seconds)
        stolen += int(steal)
        yield Reading(counters.CORE_CPU, seconds, f"cpu:{int(name[3:])}")
    yield Reading(counters.SYSTEM_CPU, sum(busy) / len(busy))
    yield Reading(counters.SYSTEM_STEAL, stolen / _TICKS / len(busy))


def meminfo(text: bytes) -> Iterator[Reading]:
    """Parse lines such as `MemTotal:   16384 kB`."""
    total, available = (_number_after(text, name) * 1024 for name in (b"MemTotal:", b"MemAvailable:"))
    yield Reading(counters.SYSTEM_MEMORY_USED, total - available)
    yield Reading(counters.SYSTEM_MEMORY_AVAILABLE, available)


def process_io(text: bytes) -> Iterator[Reading]:
    """Parse lines such as `read_bytes: 4096`."""
    yield Reading(counters.PROCESS_DISK_READ, _number_after(text, b"\nread_bytes:"))
    yield Reading(counters.PROCESS_DISK_WRITE, _number_after(text, b"\nwrite_bytes:"))


def _number_after(text: bytes, name: bytes) -> int:
    return int(text.split(name, 1)[1].split(None, 1)[0])


def diskstats(text: bytes) -> Iterator[Reading]:
    """Parse one line per disk or partition; fields 3, 6 and 10 are the name and the sectors read and written."""
    rows = [line.split(None, 10) for line in text.splitlines()]
    disks = [row for row in rows if row[2] in _disks()]
    if disks:
        yield Reading(counters.SYSTEM_DISK_READ, sum(int(row[5]) for row in disks) * _SECTOR_BYTES)
        yield Reading(counters.SYSTEM_DISK_WRITE, sum(int(row[9]) for row in disks) * _SECTOR_BYTES)


@cache
def _disks() -> frozenset[bytes]:
    """Return the names of the disks, without partitions, which would count twice."""
    return frozenset(os.fsencode(disk.name) for disk in Path("/sys/block").glob("*"))


def net_dev(text: bytes) -> Iterator[Reading]:
    """Parse lines `name: numbers` after two of headings; the 1st and 9th number are the bytes received and sent."""
    interfaces = (line.split(b":", 1) for line in text.splitlines()[2:])
    traffic = [numbers.split(None, 9) for name, numbers in interfaces if name.strip() != b"lo"]
    if traffic:
        yield Reading(counters.NETWORK_RECEIVE, sum(int(numbers[0]) for numbers in traffic))
        yield Reading(counters.NETWORK_SEND, sum(int(numbers[8]) for numbers in traffic))


def proc_sources(proc: str = "/proc") -> list[Source]:
    """Return all readable sources of /proc; some containers lack a few of them."""
    files = [
        ("the memory of the process", ProcFile(f"{proc}/self/statm", statm), 1),
        ("the CPU time of the cores", ProcFile(f"{proc}/stat", stat), LESS_OFTEN),
        ("the memory of the machine", ProcFile(f"{proc}/meminfo", meminfo), SELDOM),
        ("the disk traffic of the process", ProcFile(f"{proc}/self/io", process_io), SELDOM),
        ("the disk traffic of the machine", ProcFile(f"{proc}/diskstats", diskstats, in_pieces=True), SELDOM),
        ("the network traffic of the machine", ProcFile(f"{proc}/net/dev", net_dev, in_pieces=True), SELDOM),
    ]
    return [Source(name, file.read, every, file.close) for name, file, every in files if file.is_readable()]
