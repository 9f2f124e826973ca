"""Threads of the profiler itself, whose API calls are not recorded."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

_current = threading.local()


class OwnThread:
    """A thread of the profiler that runs one task and does not keep the process alive.

    It is started by `_thread` and not by `threading`, whose new threads are visible to profilers of Python code through
    `threading.setprofile`.
    """

    def __init__(self, task: Callable[[], None]) -> None:
        self._task = task
        self._running = threading.Lock()
        self._ended = True

    def start(self) -> None:
        """Start the thread."""
        self._running.acquire()
        self._ended = False
        try:
            _thread.start_new_thread(self._run, ())
        except BaseException:
            self._end()
            raise

    def join(self, timeout: float) -> bool:
        """Wait for the thread for a limited time; return whether it has ended.

        The flag decides, since an interruption right after the lock was acquired leaves the lock acquired.
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
    """Return whether the current thread belongs to the profiler."""
    return getattr(_current, "is_own", False)
