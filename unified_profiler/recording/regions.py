"""Records the regions that users name in their code; outside recording they are cheap enough to stay in any loop."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

from unified_profiler.errors import ArgumentError
from unified_profiler.model.plain import json_text
from unified_profiler.model.text import storable
from unified_profiler.recording.faults import FaultLog

if TYPE_CHECKING:
    from typing_extensions import Self

NEVER = 1 << 62
"""The window start while nothing is recorded: a time in the far future."""

F = TypeVar("F", bound=Callable[..., Any])

_Use: TypeAlias = "tuple[int, int, _Use | None]"
"""Start and thread of an open use of a region, and the previous open use of the same object."""


class NamedSpan(NamedTuple):
    """A finished region or step on one thread."""

    name: str
    start_ns: int
    end_ns: int
    tid: int
    thread: str
    attributes: str | None


class RegionLog:
    """Collects the regions of all threads while a window is open.

    Regions that begin before the window or are open at its end are cut at its borders. No error in here reaches the
    user's block: the first one of each window is reported.
    """

    def __init__(self, clock: Callable[[], int], faults: FaultLog) -> None:
        self.clock = clock
        self.window_start = NEVER
        self.open: dict[Region, _Use] = {}
        """Open regions, in the order in which they began."""
        self._spans: list[NamedSpan] = []
        self._faults = faults
        self._faulty = False

    def begin_window(self, now: int) -> None:
        """Start collecting."""
        self._spans, self._faulty = [], False
        self.window_start = now

    def end_window(self, now: int) -> list[NamedSpan]:
        """Stop collecting and return the collected regions."""
        threads = {thread.ident: thread for thread in threading.enumerate()}
        since, self.window_start = self.window_start, NEVER
        for region in list(self.open):
            for start, ident in _uses(self.open.get(region)):
                thread = threads.get(ident, threading.current_thread())
                try:
                    self.add(region, max(start, since), now, thread)
                except Exception as error:  # noqa: BLE001  the other regions, and the trace, are kept
                    self.report(error)
        return self._spans

    def add(self, region: Region, start: int, end: int, thread: threading.Thread) -> None:
        """Record a finished region; if the clock was set back, its duration is 0 and not negative."""
        attributes = None if region.meta is None else json_text({"meta": region.meta})
        name, thread_name = storable(region.name), storable(thread.name)
        self._spans.append(NamedSpan(name, start, max(start, end), thread.native_id or 0, thread_name, attributes))

    def report(self, error: Exception) -> None:
        """Report an error, once per window: a region may be in an inner loop."""
        if not self._faulty:
            self._faulty = True
            self._faults.report("region", "record", error)


def _uses(last: _Use | None) -> Iterator[tuple[int, int]]:
    """Yield start and thread of each open use, the last one first."""
    while last is not None:
        yield last[:2]
        last = last[2]


def refuse_name(call: str, name: object) -> NoReturn:
    """Raise an ArgumentError for a region name that is not a string."""
    actual = type(name).__name__
    msg = f'The name of a region must be a str; {call}(...) got {actual}. Pass a string such as "forward".'
    raise ArgumentError(msg)


class Region:
    """A named section of user code, as a context manager or a decorator; reusable, also recursively."""

    __slots__ = ("_log", "meta", "name")

    def __init__(self, log: RegionLog, name: str, meta: Any = None) -> None:
        self._log = log
        self.name = name
        self.meta = meta

    def __enter__(self) -> Self:
        log = self._log
        try:
            uses = log.open
            uses[self] = log.clock(), get_ident(), uses.get(self)
        except Exception as fault:  # noqa: BLE001  the user's block runs in any case
            log.report(fault)
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        log = self._log
        try:
            use = log.open.pop(self, None)
            if use is not None and use[2] is not None:
                use = self._end_one_use(use)
            since = log.window_start
            if since != NEVER and use is not None:
                log.add(self, max(use[0], since), log.clock(), threading.current_thread())
        except Exception as fault:  # noqa: BLE001  must not replace an exception of the user's block
            log.report(fault)

    def _end_one_use(self, last: _Use) -> _Use:
        """Return the last use of this thread, which ends now, and keep the other open uses."""
        ident = get_ident()
        uses = list(_uses(last))
        ended = next((use for use in uses if use[1] == ident), uses[0])
        uses.remove(ended)
        remaining: _Use | None = None
        for start, thread in reversed(uses):
            remaining = start, thread, remaining
        if remaining is not None:
            self._log.open[self] = remaining
        return (*ended, None)

    def __call__(self, function: F) -> F:
        """Record every call of a function as a region of its own."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                with Region(self._log, self.name, self.meta):
                    return await function(*args, **kwargs)

            return cast("F", call_async)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with Region(self._log, self.name, self.meta):
                return function(*args, **kwargs)

        return cast("F", call)


class _NoRegion(Region):
    """The region of a disabled profiler: using it does nothing."""

    __slots__ = ()

    def __init__(self) -> None:
        """Keep no name and no log."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: object, exc: object, traceback: object) -> None:
        """Do nothing."""

    def __call__(self, function: F) -> F:
        return function


NO_REGION = _NoRegion()
