"""The opening window: what is recorded of a script until it is clear what ends its steps.

It records operators only, without shapes, stacks and the like, from the first import of a framework until the first
step ends or for a limited time, which begins anew as long as no operator has run. It is kept only if the script ends
before a scheduled step was recorded.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from unified_profiler.launch.interruption import Interruption
from unified_profiler.launch.step_contents import has_operators
from unified_profiler.model.records import Failure
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.profiler import Profiler
from unified_profiler.readers import read
from unified_profiler.schedule import Phase

OpeningMaker = Callable[[Path], Profiler]

LEAN: Mapping[str, bool] = {
    "record_shapes": False,
    "profile_memory": False,
    "with_stack": False,
    "with_flops": False,
    "with_modules": False,
    "api": False,
    "keep_native": False,
}
"""Options of the opening window: mostly its result is thrown away, so it must cost little."""
_TICK_SECONDS = 0.5
_MOST_IMPORT_SECONDS = 120.0
"""Imports take no time from the window up to this much; a module that does all its work in its import is recorded."""
_MOST_EMPTY_WINDOWS = 60
"""How often the window begins anew at most: a service may wait for its first request for days."""


def record_always(_step: int) -> Phase:
    """Be the plan of the opening window, whatever schedule the settings of the user's project hold."""
    return Phase.RECORD


class OpeningWindow:
    """A profiler of its own, writing to a temporary folder. Start and stop are calls of the main thread.

    Attributes:
        limited: Whether its time was over before a step ended.
        limit_seconds: How long it records at most, imports not counted.
    """

    def __init__(
        self,
        make: OpeningMaker,
        *,
        limit_seconds: float,
        interruption: Interruption,
        signaled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make a window.

        Args:
            make: Makes a profiler that writes to a folder.
            limit_seconds: How long it records at most, imports not counted; 0 for not at all.
            interruption: Calls back when time has passed.
            signaled: Returns whether a model or an optimizer was seen at work, so that operators must have run.
        """
        self.limited = False
        self.limit_seconds = limit_seconds
        self._make = make
        self._signaled = signaled
        self._empty_windows = 0
        self._left_seconds = 0.0
        self._import_seconds = 0.0
        self._interruption = interruption
        self._profiler: Profiler | None = None
        self._running = False
        self._folder: Path | None = None
        self._run: Run | None = None

    def start(self) -> None:
        """Begin to record, for the limited time at most."""
        if self.limit_seconds <= 0:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="unified-profiler-opening-"))
        self._profiler = self._make(self._folder)
        self._profiler.start()
        self._running = True
        self._left_seconds = self.limit_seconds
        self._wait()

    def end_step(self) -> None:
        """End recording with the end of a step."""
        if self._running and self._profiler is not None:
            self._profiler.step()
        self.stop()

    def stop(self) -> None:
        """End recording, if it goes on."""
        self._interruption.cancel()
        if self._running and self._profiler is not None:
            self._running = False
            self._profiler.stop(finish=False)

    @property
    def running(self) -> bool:
        """Whether it records."""
        return self._running

    @property
    def trace(self) -> Trace | None:
        """What was recorded; the first look finishes what was set aside, since mostly nobody asks for it."""
        if self._profiler is None:
            return None
        run = self._profiler.run
        if self._run is None and self._profiler.settings.deliver == "deferred" and run.path is not None:
            self._run = read(run.path)
        traces = (self._run or run).traces
        return traces[0] if traces else None

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What went wrong in it."""
        if self._run is not None:
            return tuple(failure for manifest in self._run.manifests.values() for failure in manifest.failures)
        return self._profiler.failures if self._profiler is not None else ()

    def remove(self) -> None:
        """Remove its files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        self._interruption.call_later(min(_TICK_SECONDS, self._left_seconds), self._tick)

    def _tick(self) -> None:
        """Count down, but not in an import: imports run hardly any operator, and some take longer than the limit."""
        if _imports(sys._getframe()) and self._import_seconds < _MOST_IMPORT_SECONDS:
            self._import_seconds += _TICK_SECONDS
        else:
            self._left_seconds -= _TICK_SECONDS
        if self._left_seconds > 0:
            self._wait()
        else:
            self._time_is_over()

    def _time_is_over(self) -> None:
        self.stop()
        self.limited = self._empty_windows >= _MOST_EMPTY_WINDOWS or self._signaled() or self._holds_operators()
        if not self.limited:
            self._empty_windows += 1
            self.remove()
            self._run = None
            self.start()

    def _holds_operators(self) -> bool:
        """Return whether any operator was recorded; a window that failed is not tried again."""
        trace = self.trace
        return bool(self.failures) or (trace is not None and has_operators(trace))


def _imports(frame: FrameType | None) -> bool:
    """Say whether a frame runs, directly or not, for an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
