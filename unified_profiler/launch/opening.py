"""The opening window: a recording of the beginning of a script, before its steps are known.

It records operators only, without shapes, stacks and the like, from the first import of a framework to the end of the
first step or for a limited time, which is extended until an operator has run. It is kept only if the script ends before
a scheduled step was recorded.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from unified_profiler.launch.interruption import Interruption
from unified_profiler.launch.launched_profiler import LaunchedProfiler
from unified_profiler.launch.step_contents import has_events
from unified_profiler.model.records import Failure
from unified_profiler.model.run import Run
from unified_profiler.model.schema import Layer
from unified_profiler.model.trace import Trace
from unified_profiler.readers import read
from unified_profiler.schedule import Phase

OpeningMaker = Callable[[Path], LaunchedProfiler]

LEAN: Mapping[str, bool] = dict.fromkeys(
    ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "api", "keep_native"), False
)
"""Options of the opening window, which must be cheap, since it is usually discarded."""
_TICK_SECONDS = 0.5
_MAX_IMPORT_SECONDS = 120.0
"""Imports do not count toward the time limit, up to this much: a module may do all its work in its import."""
_MAX_EMPTY_WINDOWS = 60
"""Maximum number of extensions: a service may wait for its first request for days."""


def record_always(_step: int) -> Phase:
    """Schedule of the opening window, which overrides that of the project's settings."""
    return Phase.RECORD


class OpeningWindow:
    """A separate profiler that writes to a temporary directory. It is started and stopped on the main thread.

    Attributes:
        limited: Whether the time limit was reached before a step ended.
        limit_seconds: Time limit of the recording, without imports.
        running: Whether it records.
    """

    def __init__(
        self,
        make: OpeningMaker,
        *,
        limit_seconds: float,
        interruption: Interruption,
        signaled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create a window.

        Args:
            make: Creates a profiler that writes to a directory.
            limit_seconds: Time limit of the recording, without imports; 0 to record nothing.
            interruption: Calls back after some time.
            signaled: Returns whether a model or an optimizer has sent a signal, so that operators must have run.
        """
        self.limited = False
        self.limit_seconds = limit_seconds
        self._make = make
        self._signaled = signaled
        self._empty_windows = 0
        self._remaining_seconds = 0.0
        self._import_seconds = 0.0
        self._interruption = interruption
        self._profiler: LaunchedProfiler | None = None
        self.running = False
        self._directory: Path | None = None
        self._run: Run | None = None

    def start(self) -> None:
        """Start recording, up to the time limit."""
        if self.limit_seconds <= 0:
            return
        self._directory = Path(tempfile.mkdtemp(prefix="unified-profiler-opening-"))
        self._profiler = self._make(self._directory)
        self._profiler.start()
        self.running = True
        self._remaining_seconds = self.limit_seconds
        self._schedule_tick()

    def begin_first_step(self, start_ns: int) -> None:
        """Let the first step begin at this time, if it is being recorded."""
        if self.running and self._profiler is not None:
            self._profiler.begin_first_step(start_ns)

    def end_step(self) -> None:
        """Stop recording at the end of a step."""
        if self.running and self._profiler is not None:
            self._profiler.step()
        self.stop()

    def stop(self) -> None:
        """Stop recording, if it is running."""
        self._interruption.cancel()
        if self.running and self._profiler is not None:
            self.running = False
            self._profiler.stop(finish=False)

    @property
    def trace(self) -> Trace | None:
        """The recording; it is converted at the first access, since it is usually not needed."""
        if self._profiler is None:
            return None
        run = self._profiler.run
        if self._run is None and self._profiler.settings.deliver == "deferred" and run.path is not None:
            self._run = read(run.path)
        traces = (self._run or run).traces
        return traces[0] if traces else None

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Failures of the opening window."""
        if self._run is not None:
            return tuple(failure for manifest in self._run.manifests.values() for failure in manifest.failures)
        return self._profiler.failures if self._profiler is not None else ()

    def remove(self) -> None:
        """Remove the files of the window."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _schedule_tick(self) -> None:
        self._interruption.call_later(min(_TICK_SECONDS, self._remaining_seconds), self._tick)

    def _tick(self) -> None:
        """Count down, except in an import: imports run few operators, and some take longer than the limit."""
        if _is_importing(sys._getframe()) and self._import_seconds < _MAX_IMPORT_SECONDS:
            self._import_seconds += _TICK_SECONDS
        else:
            self._remaining_seconds -= _TICK_SECONDS
        if self._remaining_seconds > 0:
            self._schedule_tick()
        else:
            self._reach_limit()

    def _reach_limit(self) -> None:
        self.stop()
        self.limited = self._empty_windows >= _MAX_EMPTY_WINDOWS or self._signaled() or self._has_result()
        if not self.limited:
            self._empty_windows += 1
            self.remove()
            self._run = None
            self.start()

    def _has_result(self) -> bool:
        """Return whether any operator was recorded, or recording failed, after which it is not tried again."""
        trace = self.trace
        return bool(self.failures) or (trace is not None and has_events(trace, Layer.FRAMEWORK.value))


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame runs in an import, directly or indirectly."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
