"""The API tracer: times calls where the surfaces of the frameworks say that calls can be seen.

A call is recorded if it was made by user code: if no other recorded call is under way on its thread, or if code of no
framework made it, such as a function that was handed to the framework. With `inside` all of them are.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from unified_profiler.model.collection import no_collection
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.recording.api import code_swap
from unified_profiler.recording.api.call_log import BLOCK, ROW, UNRECORDED, Called, CallLog, Open, ThreadCalls
from unified_profiler.recording.api.call_texts import CallTexts
from unified_profiler.recording.api.callers import Callers
from unified_profiler.recording.api.code_swap import Invoke
from unified_profiler.recording.api.module_paths import ModulePaths, leave, log_error
from unified_profiler.recording.api.options import TraceOptions
from unified_profiler.spi import ApiSurface

logger = logging.getLogger("unified_profiler.api")
"""Tells every call as it ends, if it is set to DEBUG when tracing begins."""

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
        """Make a tracer.

        Args:
            options: What is traced.
            clock: Nanoseconds since the Unix epoch.
            on_full: Called when a thread has recorded another block of calls, with whether none is under way on it.
            on_error: Called with what a module's own methods raise while its path is looked up.
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
        """Begin to trace a framework; what is recorded before `clear` does not count."""
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
        """Forget what was recorded so far."""
        self.log.clear()

    def take(self, start_ns: int, end_ns: int) -> EventTable:
        """Return what was recorded since a moment, and forget it."""
        return self.log.take(start_ns, end_ns)

    def stop(self) -> None:
        """Stop tracing; everything is as it was before."""
        surfaces, self.surfaces = self.surfaces, []
        for tracer in reversed(surfaces):
            tracer.uninstall()
        _active.discard(self)


class FrameworkTracer:
    """What the surface of one framework talks to."""

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
        self._watching = logger.isEnabledFor(logging.DEBUG)
        self._paths = ModulePaths(surface.submodules, tracer.on_error)
        self._undo: list[Callable[[], None]] = []

    # --- where calls are seen ---------------------------------------------------------------------------------

    def function(self, function: FunctionType, name: str) -> None:
        """Trace a function or method written in Python."""
        if code_swap.can_watch(function):
            self.undo_at_end(code_swap.watch_function(function, lambda original: self.timed(original, name)))

    def method(self, function: FunctionType, name_of: Callable[[Any], str]) -> None:
        """Trace a method written in Python whose calls are named after their object.

        What a subclass calls of its parent's method, for the same object and under the same name, is part of the call.
        """
        local = self._local

        def watch(original: Callable[..., Any]) -> Invoke:
            invokes: dict[type, tuple[Invoke, str]] = {}

            def call(args: tuple[Any, ...], kwargs: Any) -> Any:
                kind, under_way = type(args[0]), local.calls.methods
                if kind not in invokes:
                    name = name_of(args[0])
                    invokes[kind] = self.timed(original, name, further=1), name
                invoke, name = invokes[kind]
                key = id(args[0]), name
                if key in under_way:
                    return original(*args, **kwargs) if kwargs else original(*args)
                under_way.add(key)
                try:
                    return invoke(args, kwargs)
                finally:
                    under_way.discard(key)

            return call

        self.undo_at_end(code_swap.watch_function(function, watch))

    def attribute(self, owner: type, attribute: str, name: str) -> None:
        """Trace a method that is not written in Python."""
        self.undo_at_end(code_swap.watch_attribute(owner, attribute, lambda original: self.timed(original, name)))

    def module_call(self, function: FunctionType) -> None:
        """Trace the method by which modules are called."""
        self.undo_at_end(code_swap.watch_function(function, self._module_timed))

    def undo_at_end(self, undo: Callable[[], None]) -> None:
        """Have something undone when tracing ends."""
        self._undo.append(undo)

    def uninstall(self) -> None:
        """Undo everything, whatever fails on the way."""
        while self._undo:
            undo = self._undo.pop()
            try:
                undo()
            except Exception:
                logger.exception("Something of the tracing of %s could not be undone", self._framework)

    # --- calls ------------------------------------------------------------------------------------------------

    def timed(self, function: Callable[..., Any], name: str, further: int = 0) -> Invoke:
        """Return what records a call of a function and makes it. This is what tracing costs.

        Args:
            function: What to call.
            name: What it is called.
            further: How many frames the caller is above the second one over this.
        """
        code = self._code(name)
        local, now, inside, by_user = self._local, self._clock, self.inside, self._by_user
        synchronize, say = self._synchronize, None if self._texts is None else self._texts.of
        watching, finished, above, pack = self._watching, self._finished, 2 + further, ROW.pack

        def call(args: tuple[Any, ...], kwargs: Any) -> Any:
            thread = local.calls
            under_way = thread.open
            if under_way and not inside and not by_user(above):
                return function(*args, **kwargs) if kwargs else function(*args)
            text = None if say is None or code < 0 else say(args, kwargs)
            start = now()
            under_way.append((code, start, text))
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
                    under_way.pop()
                    if code >= 0 and (len(block.rows) >= _FULL or watching):
                        finished(thread, name, end - start)

        return call

    def module_begins(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], further: int = 0) -> None:
        """Begin the call of a module; its caller's frame is the second above this one, or so many further up."""
        thread = self._local.calls
        code, text = UNRECORDED, None
        if self.wants_calls:
            name = self._surface.module_name(module)
            if name is not None and (self.inside or not thread.open or self._by_user(2 + further)):
                code = self._code(name)
                text = None if self._texts is None or code < 0 else self._texts.of(args, kwargs)
        module_code = UNRECORDED
        if self._options.modules:
            module_code = self._module_code(thread, module)
            if self._synchronize is not None:
                self._synchronize()
        thread.open.append(Open(code, self._clock(), text, module_code, module))

    def module_ends(self, module: Any) -> None:
        """End the call of a module."""
        thread = self._local.calls
        under_way = thread.open
        place = next((i for i in range(len(under_way) - 1, -1, -1) if Open(*under_way[i]).key is module), None)
        if place is None:
            return
        try:
            if self._synchronize is not None:
                self._synchronize()
        finally:
            end, call = self._clock(), Open(*under_way[place])
            for code, text in ((call.module_code, None), (call.code, call.text)):
                if code >= 0:
                    thread.block.add(code, call.start_ns, end, text)
            del under_way[place:]
            leave(thread.modules, module)
            if call.code >= 0:
                self._finished(thread, self._log.called[call.code].name, end - call.start_ns)

    def _module_timed(self, function: Callable[..., Any]) -> Invoke:
        def call(args: tuple[Any, ...], kwargs: Any) -> Any:
            self.module_begins(args[0], args[1:], kwargs, 1)
            try:
                return function(*args, **kwargs)
            finally:
                self.module_ends(args[0])

        return call

    def _code(self, name: str) -> int:
        """Return the number of an API; that of something not wanted is negative."""
        if not self.wants_calls or not self._options.wants(name):
            return UNRECORDED
        return self._log.code(Called(name, Kind.API_CALL, self._framework))

    def _module_code(self, thread: ThreadCalls, module: Any) -> int:
        path = self._paths.enter(thread.modules, module)
        return self._log.code(Called(type(module).__name__, Kind.MODULE, self._framework, path))

    def _finished(self, thread: ThreadCalls, name: str, duration_ns: int) -> None:
        if self._watching:
            logger.debug("%s %.1f us", name, duration_ns / 1000)
        if len(thread.block.rows) >= _FULL:
            thread.pack()
            if self._on_full is not None:
                self._on_full(not thread.open)


_active: weakref.WeakSet[Tracer] = weakref.WeakSet()


def _stop_in_child() -> None:
    """A child of a fork traces nothing: what it would record could reach nobody."""
    code_swap.lock = type(code_swap.lock)()
    for tracer in list(_active):
        tracer.stop()


os.register_at_fork(after_in_child=_stop_in_child)
