"""Threads that the profiler itself runs: what they do is none of the program's work and is not recorded."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

_current = threading.local()


class OwnThread:
    """A thread of the profiler's that does one thing and does not keep the process alive.

    It is started beneath the module `threading`, which would tell profilers of Python code of it: those see new threads
    through `threading.setprofile`.
    """

    def __init__(self, task: Callable[[], None]) -> None:
        self._task = task
        self._running = threading.Lock()
        self._ended = True

    def start(self) -> None:
        """Start it."""
        self._running.acquire()
        self._ended = False
        try:
            _thread.start_new_thread(self._run, ())
        except BaseException:
            self._end()
            raise

    def join(self, timeout: float) -> bool:
        """Wait for its end, but not for ever; says whether it has ended.

        The flag decides: an interruption right after the lock was acquired keeps the lock from being released.
        """
        if not self._ended and self._running.acquire(timeout=timeout):
            self._running.release()
        return self._ended

    def _run(self) -> None:
        _current.is_own = True
        try:
            self._task()
        finally:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._running.release()


def on_own_thread() -> bool:
    """Say whether the current thread is one of the profiler's."""
    return getattr(_current, "is_own", False)
