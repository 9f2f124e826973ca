"""Spans that the user names: one object per use, cheap enough to stay in a loop that is not recorded."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

from unified_profiler.errors import ArgumentError
from unified_profiler.model.plain import json_text
from unified_profiler.model.text import storable
from unified_profiler.recording.faults import FaultLog

if TYPE_CHECKING:
    from typing_extensions import Self

NEVER = 1 << 62
"""A moment that does not come: the window's start while nothing is recorded."""

F = TypeVar("F", bound=Callable[..., Any])


_Use: TypeAlias = "tuple[int, int, _Use | None]"
"""Start and thread of a use of a region that has not ended, and the use of the same object before it."""


class Span(NamedTuple):
    """A finished span of one thread."""

    name: str
    start_ns: int
    end_ns: int
    tid: int
    thread: str
    attributes: str | None


class RegionLog:
    """Collects the spans of all threads while a window is open.

    Spans begun before the window are cut at its start, spans still open at its end there. Nothing that goes wrong here
    reaches the user's block: the first fault of each window is reported.
    """

    def __init__(self, clock: Callable[[], int], faults: FaultLog) -> None:
        self.clock = clock
        self.window_start = NEVER
        self.open: dict[Region, _Use] = {}
        """Regions in use, in the order in which they were begun."""
        self._spans: list[Span] = []
        self._faults = faults
        self._faulty = False

    def begin_window(self, now: int) -> None:
        """Collect from now on."""
        self._spans, self._faulty = [], False
        self.window_start = now

    def end_window(self, now: int) -> list[Span]:
        """Stop collecting and return what was collected."""
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
        """Note a span; a clock that was set back makes it empty, not negative."""
        attributes = None if region.meta is None else json_text({"meta": region.meta})
        names = storable(region.name), storable(thread.name)
        self._spans.append(Span(names[0], start, max(start, end), thread.native_id or 0, names[1], attributes))

    def report(self, error: Exception) -> None:
        """Keep what went wrong, once in a window: a region may be in an inner loop."""
        if not self._faulty:
            self._faulty = True
            self._faults.report("region", "record", error)


def _uses(last: _Use | None) -> Iterator[tuple[int, int]]:
    """Give start and thread of each use, the last one first."""
    while last is not None:
        yield last[:2]
        last = last[2]


def refuse_name(call: str, name: object) -> NoReturn:
    """Raise an ArgumentError about a name that is no text."""
    found = type(name).__name__
    msg = f'The name of a region must be a str; {call}(...) got one of type {found}. Pass a text, such as "forward".'
    raise ArgumentError(msg)


class Region:
    """A named span: use it with `with` or as a decorator; one object may be used again, also recursively."""

    __slots__ = ("_log", "meta", "name")

    def __init__(self, log: RegionLog, name: str, meta: Any = None) -> None:
        self._log = log
        self.name = name
        self.meta = meta

    def __enter__(self) -> Self:
        """Begin the span."""
        log = self._log
        try:
            uses = log.open
            uses[self] = log.clock(), get_ident(), uses.get(self)
        except Exception as fault:  # noqa: BLE001  the user's block runs in any case
            log.report(fault)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the span, and note it if a window is open."""
        log = self._log
        try:
            use = log.open.pop(self, None)
            if use is not None and use[2] is not None:
                use = self._ended(use)
            since = log.window_start
            if since != NEVER and use is not None:
                log.add(self, max(use[0], since), log.clock(), threading.current_thread())
        except Exception as fault:  # noqa: BLE001  nothing takes the place of what the user's block raised
            log.report(fault)

    def _ended(self, last: _Use) -> _Use:
        """Return which of several uses ends now, the last one of this thread, and keep the others."""
        ident = get_ident()
        uses = list(_uses(last))
        ended = next((use for use in uses if use[1] == ident), uses[0])
        uses.remove(ended)
        rest: _Use | None = None
        for start, thread in reversed(uses):
            rest = start, thread, rest
        if rest is not None:
            self._log.open[self] = rest
        return (*ended, None)

    def __call__(self, function: F) -> F:
        """Put every call of a function into a span of its own."""
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
    """The region of a profiler that is off: every use of it does nothing."""

    __slots__ = ()

    def __init__(self) -> None:
        """Keep no name and no log."""

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing."""

    def __call__(self, function: F) -> F:
        """Return the function itself."""
        return function


NO_REGION = _NoRegion()
