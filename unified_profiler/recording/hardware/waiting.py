"""Reads from Linux how long the runnable threads of this process waited for a core."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from unified_profiler.recording.hardware.counters import PROCESS_CPU_WAIT
from unified_profiler.recording.hardware.readings import SELDOM, Reading, Source

_SECOND_NS = 1e9
_MAX_BYTES = 128
"""Maximum size of a file with three numbers."""


class ThreadWaits:
    """Sums the wait times of all threads, including those that have ended.

    The sampling thread itself is excluded: it waits only because of the sampling.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._directory = f"{proc}/self/task"
        self._waited: dict[str, int] | None = None
        self._total_ns = 0

    def is_available(self) -> bool:
        """Return whether the system reports wait times."""
        return bool(self._read_threads())

    def read(self) -> Iterator[Reading]:
        """Read the files of all threads."""
        now = self._read_threads()
        now.pop(str(threading.get_native_id()), None)
        before = now if self._waited is None else self._waited
        self._total_ns += sum(max(waited - before.get(thread, 0), 0) for thread, waited in now.items())
        self._waited = now
        yield Reading(PROCESS_CPU_WAIT, self._total_ns / _SECOND_NS)

    def forget(self) -> None:
        """Drop the last reading, since wait times between recordings do not count."""
        self._waited = None

    def _read_threads(self) -> dict[str, int]:
        try:
            threads = os.listdir(self._directory)  # noqa: PTH208  paths of a hundred threads cost more than reading them
        except OSError:
            return {}
        return {thread: waited for thread in threads if (waited := self._waited_ns(thread)) is not None}

    def _waited_ns(self, thread: str) -> int | None:
        """Return the second of three numbers: time on a core, time waiting for one, number of turns."""
        try:
            file = os.open(f"{self._directory}/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # the thread has ended, or the system reports no wait times
            return None
        try:
            return int(os.read(file, _MAX_BYTES).split()[1])
        except (OSError, ValueError, IndexError):
            return None
        finally:
            os.close(file)


def waiting_sources(proc: str = "/proc") -> list[Source]:
    """Return the source of wait times, if the system reports them."""
    waits = ThreadWaits(proc)
    return [Source("the waiting for cores", waits.read, SELDOM, waits.forget)] if waits.is_available() else []
