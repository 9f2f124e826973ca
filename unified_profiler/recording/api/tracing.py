"""Runs the API tracer in each cycle: selects the frameworks to trace and reports failures."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence

from unified_profiler.config import Settings
from unified_profiler.errors import UsageError
from unified_profiler.model.schema import EventTable
from unified_profiler.recording.api.options import TraceOptions
from unified_profiler.recording.api.tracer import Tracer
from unified_profiler.recording.faults import FaultLog
from unified_profiler.spi import ApiSurface, Backend, is_imported


class ApiTracing:
    """Traces the calls of each cycle of one Profiler.

    Attributes:
        traced: Versions of the frameworks traced in the current cycle, by backend name.
        waits: Whether calls wait for the work that they queue.
    """

    def __init__(
        self, settings: Settings, *, clock: Callable[[], int], faults: FaultLog, on_full: Callable[[bool], None] | None
    ) -> None:
        self.traced: dict[str, str] = {}
        self._options = _trace_options(settings)
        self.waits = self._options is not None and self._options.synchronize
        self._calls_only = not settings.operators
        self._clock = clock
        self._faults = faults
        self._on_full = on_full
        self._tracer: Tracer | None = None

    def check(self, backends: Sequence[Backend]) -> None:
        """Check that there is something to trace, as far as this is known before recording.

        Raises:
            ConfigurationError: A pattern matches nothing in the frameworks that are imported.
            UsageError: Only calls are to be recorded, and there is no framework to trace.
        """
        if self._options is None:
            return
        missing = [backend.module for backend in backends if not is_imported(backend.module)]
        if self._calls_only and (missing or not backends):
            subject, name = (f"{missing[0]} is not", missing[0]) if missing else ("No framework is", "torch")
            msg = f"{subject} imported, so there are no calls to trace. Write `import {name}` before tracing begins."
            raise UsageError(msg)
        if self._options.include or self._options.exclude:
            surfaces = [_api_surface(backend) for backend in backends]
            names = [name for surface in surfaces if surface is not None for name in surface.names()]
            if names:
                self._options.check(names)

    def begin(self, backends: Sequence[Backend], *, cycle: int) -> None:
        """Start tracing; calls before `clear` are dropped."""
        self.traced.clear()
        if self._options is None:
            return
        with self._faults.guard("profiler", "trace API calls", cycle=cycle):
            self.check(backends)  # frameworks may have been imported since the start
        on_error = functools.partial(self._faults.report, "profiler", "find the paths of modules", cycle=cycle)
        self._tracer = Tracer(self._options, clock=self._clock, on_full=self._on_full, on_error=on_error)
        for backend in backends:
            with self._faults.guard(backend.name, "trace API calls", cycle=cycle):
                surface = _api_surface(backend)
                if surface is not None:
                    self._tracer.install(backend.name, surface)
                    self.traced[backend.name] = str(getattr(sys.modules[backend.module], "__version__", ""))

    def clear(self) -> None:
        """Drop all calls recorded so far."""
        if self._tracer is not None:
            self._tracer.clear()

    def end(self) -> None:
        """Stop tracing; recorded calls can still be taken."""
        if self._tracer is not None:
            self._tracer.stop()

    def take(self, start_ns: int, end_ns: int) -> EventTable | None:
        """Return the calls of a window, None if nothing was traced."""
        return None if self._tracer is None else self._tracer.take(start_ns, end_ns)

    def call_count(self) -> int:
        """Return the number of calls recorded and not yet taken."""
        return 0 if self._tracer is None else self._tracer.log.call_count()

    def discard(self) -> None:
        """Stop tracing and drop all calls."""
        self.end()
        self._tracer = None


def _api_surface(backend: Backend) -> ApiSurface | None:
    make_surface = backend.abilities.api_surface
    return make_surface() if make_surface is not None and is_imported(backend.module) else None


def _trace_options(settings: Settings) -> TraceOptions | None:
    if settings.level < 2 or (settings.api is None and not settings.with_modules):
        return None
    details = {} if settings.api is None else settings.api.model_dump()
    return TraceOptions(calls=settings.api is not None, modules=settings.with_modules, **details)
