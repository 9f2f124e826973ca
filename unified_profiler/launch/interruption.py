"""Two things that reach the main thread from outside, held back while the profiler itself is at work.

SIGTERM becomes SystemExit, so that a terminated script ends with a result; and a call can be asked for at a later
moment, on the main thread, since native profilers must be stopped on the thread that started them.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, final

TERMINATED = 128 + signal.SIGTERM
_WAKE = signal.SIGURG
"""Raised inside Python only, never sent; the system ignores it by default, and programs hardly ever handle it."""


@final
class Interruption:
    """Active between `with` and its end, on the main thread of the process that made it, not in forked children."""

    def __init__(self) -> None:
        self._depth = 0
        self._due: list[Callable[[], None]] = []
        self._later: Callable[[], None] | None = None
        self._timer: threading.Timer | None = None
        self._terminated = False
        self._previous: dict[signal.Signals, tuple[Any, Any]] = {}

    def __enter__(self) -> Interruption:
        """Take over SIGTERM, unless somebody handles it already."""
        self._install(signal.SIGTERM, self._terminate)
        self._install(_WAKE, self._wake)
        os.register_at_fork(after_in_child=self._restore)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put back the handlers that are still ours."""
        self.cancel()
        self._restore()

    @property
    def at_work(self) -> bool:
        """Whether `held()` is active."""
        return self._depth > 0

    @property
    def terminated(self) -> bool:
        """Whether SIGTERM arrived."""
        return self._terminated

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold both back in a block; what came meanwhile happens at its end."""
        self._depth += 1
        try:
            yield
            while self._depth == 1 and self._due:
                self._due.pop()()
        finally:
            self._depth -= 1
        if self._terminated and not self._depth:
            raise SystemExit(TERMINATED)

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        """Call a function on the main thread after some time, unless cancelled."""
        self._later = function
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Forget the call that was asked for."""
        timer, self._timer, self._later = self._timer, None, None
        self._due.clear()
        if timer is not None:
            timer.cancel()

    def _ring(self) -> None:
        """On the timer's thread: make the main thread run `_wake` as if the signal had come."""
        if signal.getsignal(_WAKE) == self._wake:
            _thread.interrupt_main(_WAKE)

    def _wake(self, _signal: int, _frame: FrameType | None) -> None:
        function, self._later = self._later, None
        if function is None:
            return
        if self._depth:
            self._due.append(function)
            return
        with self.held():
            function()

    def _terminate(self, _signal: int, _frame: FrameType | None) -> None:
        self._terminated = True
        if not self._depth:
            raise SystemExit(TERMINATED)

    def _install(self, which: signal.Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        previous = signal.getsignal(which)
        if previous in {signal.SIG_DFL, None}:
            signal.signal(which, handler)
            self._previous[which] = (handler, previous)

    def _restore(self) -> None:
        for which, (handler, previous) in self._previous.items():
            if signal.getsignal(which) == handler:
                signal.signal(which, previous or signal.SIG_DFL)
        self._previous.clear()
