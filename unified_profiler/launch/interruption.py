"""Interrupts the main thread for SIGTERM and for timed calls, but never while the profiler itself is working.

SIGTERM becomes SystemExit, so that a terminated script still produces a result. Timed calls run on the main thread,
since native profilers must be stopped on the thread that started them.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, final

TERMINATED = 128 + signal.SIGTERM
_WAKE = signal.SIGURG
"""Raised inside Python only, never sent; the system ignores it by default, and programs rarely handle it."""


@final
class Interruption:
    """A context manager for the main thread of one process; it is inactive in forked children."""

    def __init__(self) -> None:
        self._depth = 0
        self._deferred: list[Callable[[], None]] = []
        self._timed_call: Callable[[], None] | None = None
        self._timer: threading.Timer | None = None
        self.terminated = False
        """Whether SIGTERM arrived."""
        self._previous: dict[signal.Signals, tuple[Any, Any]] = {}

    def __enter__(self) -> Interruption:
        """Handle SIGTERM, unless the program already does."""
        self._install(signal.SIGTERM, self._terminate)
        self._install(_WAKE, self._wake)
        os.register_at_fork(after_in_child=self._restore)
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        self.cancel()
        self._restore()

    @property
    def is_held(self) -> bool:
        """Whether `held()` is active."""
        return self._depth > 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer interruptions during the block to its end."""
        self._depth += 1
        try:
            yield
            while self._depth == 1 and self._deferred:
                self._deferred.pop()()
        finally:
            self._depth -= 1
        if self.terminated and not self._depth:
            raise SystemExit(TERMINATED)

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        """Call a function on the main thread after some time, unless canceled."""
        self._timed_call = function
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Cancel the timed call."""
        timer, self._timer, self._timed_call = self._timer, None, None
        self._deferred.clear()
        if timer is not None:
            timer.cancel()

    def _ring(self) -> None:
        """Make the main thread run `_wake` as if the signal had arrived; runs on the timer's thread."""
        if signal.getsignal(_WAKE) == self._wake:
            _thread.interrupt_main(_WAKE)

    def _wake(self, _signal: int, _frame: FrameType | None) -> None:
        function, self._timed_call = self._timed_call, None
        if function is None:
            return
        if self._depth:
            self._deferred.append(function)
            return
        with self.held():
            function()

    def _terminate(self, _signal: int, _frame: FrameType | None) -> None:
        self.terminated = True
        if not self._depth:
            raise SystemExit(TERMINATED)

    def _install(self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        previous = signal.getsignal(number)
        if previous in {signal.SIG_DFL, None}:
            signal.signal(number, handler)
            self._previous[number] = (handler, previous)

    def _restore(self) -> None:
        for number, (handler, previous) in self._previous.items():
            if signal.getsignal(number) == handler:
                signal.signal(number, previous or signal.SIG_DFL)
        self._previous.clear()
