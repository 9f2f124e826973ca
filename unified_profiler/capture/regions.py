"""Spans that the user names: one object per use, cheap enough to stay in a loop that is not recorded."""

from __future__ import annotations

import functools
import inspect
import json
import threading
from collections.abc import Callable
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from unified_profiler.model.text import storable

if TYPE_CHECKING:
    from typing_extensions import Self

NEVER = 1 << 62
"""A moment that does not come: the window's start while nothing is recorded."""

F = TypeVar("F", bound=Callable[..., Any])


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

    Spans begun before the window are cut at its start, spans still open at its end there.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.window_start = NEVER
        self.open: dict[Region, int] = {}
        """Regions that are open, with the identifier of their thread."""
        self._spans: list[Span] = []

    def begin_window(self, now: int) -> None:
        """Collect from now on."""
        self._spans = []
        self.window_start = now

    def end_window(self, now: int) -> list[Span]:
        """Stop collecting and return what was collected."""
        threads = {thread.ident: thread for thread in threading.enumerate()}
        for region, ident in list(self.open.items()):
            self.add(region, now, threads.get(ident, threading.current_thread()))
        self.window_start = NEVER
        return self._spans

    def add(self, region: Region, now: int, thread: threading.Thread) -> None:
        """Note a span that ends now."""
        start = max(region.start_ns, self.window_start)
        attributes = None if region.meta is None else json.dumps({"meta": region.meta}, default=str)
        span = Span(storable(region.name), start, now, thread.native_id or 0, thread.name, attributes)
        self._spans.append(span)


class Region:
    """A named span: use it with `with` or as a decorator; one object may be used again, also recursively."""

    __slots__ = ("_log", "meta", "name", "start_ns")

    def __init__(self, log: RegionLog, name: str, meta: Any = None) -> None:
        self._log = log
        self.name = name
        self.meta = meta

    def __enter__(self) -> Self:
        """Begin the span."""
        log = self._log
        log.open[self] = get_ident()
        self.start_ns = log.clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the span, and note it if a window is open."""
        log = self._log
        log.open.pop(self, None)
        if log.window_start != NEVER:
            log.add(self, log.clock(), threading.current_thread())

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
