"""Times the calls of the frameworks' APIs, at the functions and methods that each `ApiSurface` lists.

A call is recorded if user code made it: if no other recorded call is in progress on its thread, or if its caller is not
code of a framework, such as a user function that the framework calls. With `inside` all calls are recorded.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from unified_profiler.model.collection import no_collection
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.presentation.units import format_time
from unified_profiler.recording.api import code_swap
from unified_profiler.recording.api.call_log import BLOCK, ROW, UNRECORDED, Callee, CallLog, OpenCall, ThreadCalls
from unified_profiler.recording.api.call_texts import CallTexts
from unified_profiler.recording.api.callers import Callers
from unified_profiler.recording.api.code_swap import Interceptor
from unified_profiler.recording.api.module_paths import ModulePaths, leave, log_error
from unified_profiler.recording.api.options import TraceOptions
from unified_profiler.spi import ApiSurface, patching

logger = logging.getLogger("unified_profiler.api")
"""Logs every finished call if its level is DEBUG when tracing begins."""

_FULL = BLOCK * ROW.size


class Tracer:
    """Traces the calls of several frameworks, from `install` to `stop`."""

    def __init__(
        self,
        options: TraceOptions,
        *,
        clock: Callable[[], int],
        on_full: Callable[[bool], None] | None = None,
        on_error: Callable[[Exception], None] = log_error,
    ) -> None:
        """Create a tracer.

        Args:
            options: Selects the calls to record.
            clock: Returns nanoseconds since the Unix epoch.
            on_full: Called when a thread has filled a block of calls, with whether no call is in progress on it.
            on_error: Called with errors of user-defined module methods while the path of a module is looked up.
        """
        self.options = options
        self.log = CallLog()
        self.clock = clock
        self.on_full = on_full
        self.on_error = on_error
        self.surfaces: list[FrameworkTracer] = []
        self.callers = Callers()
        _active.add(self)

    def install(self, framework: str, surface: ApiSurface) -> None:
        """Start tracing a framework; calls before `clear` are dropped."""
        self.callers.add(surface)
        tracer = FrameworkTracer(self, framework, surface)
        self.surfaces.append(tracer)
        try:
            with no_collection():
                surface.install(tracer)
        except BaseException:
            self.surfaces.remove(tracer)
            tracer.uninstall()
            raise

    def clear(self) -> None:
        """Drop all calls recorded so far."""
        self.log.clear()

    def take(self, start_ns: int, end_ns: int) -> EventTable:
        """Return the calls since `start_ns`, and drop them."""
        return self.log.take(start_ns, end_ns)

    def stop(self) -> None:
        """Stop tracing and restore everything."""
        surfaces, self.surfaces = self.surfaces, []
        for tracer in reversed(surfaces):
            tracer.uninstall()
        _active.discard(self)


class FrameworkTracer:
    """The `ApiTracer` that the surface of one framework installs itself with."""

    def __init__(self, tracer: Tracer, framework: str, surface: ApiSurface) -> None:
        options = tracer.options
        self.inside = options.inside
        self.wants_calls = options.calls
        self._options = options
        self._framework = framework
        self._surface = surface
        self._local = tracer.log.local
        self._clock = tracer.clock
        self._on_full = tracer.on_full
        self._log = tracer.log
        self._by_user = tracer.callers.by_user
        self._texts = CallTexts(surface.value_texts()) if options.arguments and options.calls else None
        self._synchronize = surface.synchronize if options.synchronize else None
        self._logs_calls = logger.isEnabledFor(logging.DEBUG)
        self._paths = ModulePaths(surface.submodules, tracer.on_error)
        self._undo: list[Callable[[], None]] = []

    # --- installation -----------------------------------------------------------------------------------------

    def function(self, function: FunctionType, name: str) -> None:
        """Trace a function or method written in Python."""
        if code_swap.can_watch(function):
            self.undo_at_end(code_swap.watch_function(function, lambda original: self.timed(original, name)))

    def method(self, function: FunctionType, name_of: Callable[[Any], str]) -> None:
        """Trace a method written in Python whose calls are named after their object.

        Calls of the parent's method for the same object and under the same name are part of the subclass's call.
        """
        local = self._local

        def watch(original: Callable[..., Any]) -> Interceptor:
            by_class: dict[type, tuple[Interceptor, str]] = {}

            def call(args: tuple[Any, ...], kwargs: Any) -> Any:
                cls, open_methods = type(args[0]), local.calls.methods
                if cls not in by_class:
                    name = name_of(args[0])
                    by_class[cls] = self.timed(original, name, extra_frames=1), name
                intercept, name = by_class[cls]
                key = id(args[0]), name
                if key in open_methods:
                    return original(*args, **kwargs) if kwargs else original(*args)
                open_methods.add(key)
                try:
                    return intercept(args, kwargs)
                finally:
                    open_methods.discard(key)

            return call

        self.undo_at_end(code_swap.watch_function(function, watch))

    def attribute(self, owner: type, attribute: str, name: str) -> None:
        """Trace a method that is not written in Python."""
        self.undo_at_end(code_swap.watch_attribute(owner, attribute, lambda original: self.timed(original, name)))

    def module_call(self, function: FunctionType) -> None:
        """Trace the method by which modules are called."""
        self.undo_at_end(code_swap.watch_function(function, self._timed_module))

    def undo_at_end(self, undo: Callable[[], None]) -> None:
        """Call a function when tracing ends."""
        self._undo.append(undo)

    def uninstall(self) -> None:
        """Undo everything, even if some of it fails."""
        while self._undo:
            undo = self._undo.pop()
            try:
                undo()
            except Exception:
                logger.exception("Part of the tracing of %s could not be undone", self._framework)

    # --- calls ------------------------------------------------------------------------------------------------

    def timed(self, function: Callable[..., Any], name: str, extra_frames: int = 0) -> Interceptor:
        """Return an interceptor that makes and records a call of a function. Its time is the overhead of tracing.

        Args:
            function: The function to call.
            name: Its name in the API.
            extra_frames: Number of frames between the caller and the second frame above the interceptor.
        """
        code = self._code(name)
        local, now, inside, by_user = self._local, self._clock, self.inside, self._by_user
        synchronize, describe = self._synchronize, None if self._texts is None else self._texts.of
        logs_calls, after_call, depth, pack = self._logs_calls, self._after_call, 2 + extra_frames, ROW.pack

        def call(args: tuple[Any, ...], kwargs: Any) -> Any:
            thread = local.calls
            open_calls = thread.open
            if open_calls and not inside and not by_user(depth):
                return function(*args, **kwargs) if kwargs else function(*args)
            text = None if describe is None or code < 0 else describe(args, kwargs)
            start = now()
            open_calls.append((code, start, text))
            try:
                return function(*args, **kwargs) if kwargs else function(*args)
            finally:
                try:
                    if synchronize is not None:
                        synchronize()
                finally:
                    end = now()
                    if code >= 0:
                        block = thread.block
                        block.rows += pack(code, start, end, -1 if text is None else block.texts[text])
                    open_calls.pop()
                    if code >= 0 and (len(block.rows) >= _FULL or logs_calls):
                        after_call(thread, name, end - start)

        return call

    def module_begins(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], extra: int = 0) -> None:
        """Begin the call of a module; `extra` frames are between its caller and the second frame above this one."""
        thread = self._local.calls
        code, text = UNRECORDED, None
        if self.wants_calls:
            name = self._surface.module_name(module)
            if name is not None and (self.inside or not thread.open or self._by_user(2 + extra)):
                code = self._code(name)
                text = None if self._texts is None or code < 0 else self._texts.of(args, kwargs)
        module_code = UNRECORDED
        if self._options.modules:
            module_code = self._module_code(thread, module)
            if self._synchronize is not None:
                self._synchronize()
        thread.open.append(OpenCall(code, self._clock(), text, module_code, module))

    def module_ends(self, module: Any) -> None:
        """End the call of a module."""
        thread = self._local.calls
        open_calls = thread.open
        index = next((i for i in reversed(range(len(open_calls))) if OpenCall(*open_calls[i]).key is module), None)
        if index is None:
            return
        try:
            if self._synchronize is not None:
                self._synchronize()
        finally:
            end, call = self._clock(), OpenCall(*open_calls[index])
            for code, text in ((call.module_code, None), (call.code, call.text)):
                if code >= 0:
                    thread.block.add(code, call.start_ns, end, text)
            del open_calls[index:]
            leave(thread.modules, module)
            if call.code >= 0:
                self._after_call(thread, self._log.callees[call.code].name, end - call.start_ns)

    def _timed_module(self, function: Callable[..., Any]) -> Interceptor:
        def call(args: tuple[Any, ...], kwargs: Any) -> Any:
            self.module_begins(args[0], args[1:], kwargs, 1)
            try:
                return function(*args, **kwargs)
            finally:
                self.module_ends(args[0])

        return call

    def _code(self, name: str) -> int:
        """Return the number of an API; UNRECORDED if it is not to be recorded."""
        if not self.wants_calls or not self._options.wants(name):
            return UNRECORDED
        return self._log.code(Callee(name, Kind.API_CALL, self._framework))

    def _module_code(self, thread: ThreadCalls, module: Any) -> int:
        path = self._paths.enter(thread.modules, module)
        return self._log.code(Callee(type(module).__name__, Kind.MODULE, self._framework, path))

    def _after_call(self, thread: ThreadCalls, name: str, duration_ns: int) -> None:
        if self._logs_calls:
            logger.debug("%s %s", name, format_time(duration_ns))
        if len(thread.block.rows) >= _FULL:
            thread.pack()
            if self._on_full is not None:
                self._on_full(not thread.open)


_active: weakref.WeakSet[Tracer] = weakref.WeakSet()


def _stop_in_child() -> None:
    """Stop tracing in a forked child, whose calls could not be delivered."""
    code_swap.lock, patching.lock = threading.RLock(), threading.RLock()  # another thread may have held them
    for tracer in list(_active):
        tracer.stop()


os.register_at_fork(after_in_child=_stop_in_child)
