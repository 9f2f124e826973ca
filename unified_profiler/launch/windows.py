"""What is recorded of a script: the scheduled window, and an opening window in case that one never comes about.

The opening window records from the first import of a framework until the schedule first arms, or for a limited time.
It is kept only if the script ends before a scheduled step was recorded.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from unified_profiler.launch.interruption import Interruption
from unified_profiler.model.records import Failure
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.profiler import Profiler
from unified_profiler.readers import read
from unified_profiler.schedule import Phase, Schedule

OpeningMaker = Callable[[Path], Profiler]


def record_always(_step: int) -> Phase:
    """Be the plan of the opening window, whatever schedule the settings of the user's project hold."""
    return Phase.RECORD


class OpeningWindow:
    """A profiler of its own, writing to a temporary folder. Start and stop are calls of the main thread."""

    def __init__(self, make: OpeningMaker, *, limit_seconds: float, interruption: Interruption) -> None:
        self._make = make
        self._limit_seconds = limit_seconds
        self._interruption = interruption
        self._profiler: Profiler | None = None
        self._running = False
        self._folder: Path | None = None
        self._run: Run | None = None

    def start(self) -> None:
        """Begin to record, for the limited time at most."""
        if self._limit_seconds <= 0:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="unified-profiler-opening-"))
        self._profiler = self._make(self._folder)
        self._profiler.start()
        self._running = True
        self._interruption.call_later(self._limit_seconds, self.stop)

    def step(self) -> None:
        """Tell the end of a step."""
        if self._running and self._profiler is not None:
            self._profiler.step()

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


class Windows:
    """The scheduled profiler and the opening window, kept apart: only one of them records at a time."""

    def __init__(self, profiler: Profiler, plan: Schedule, opening: OpeningWindow) -> None:
        self._profiler = profiler
        self._plan = plan
        self._opening = opening
        self._begun = False
        self._ended = False
        self._why_ended = ""
        self._opening_ran = False

    def begin(self) -> None:
        """Start both, the first time a framework is there."""
        if self._begun:
            return
        self._begun = True
        self._profiler.start()
        if self._plan.at(0).phase is Phase.IDLE:
            self._opening.start()
            self._tell_phase()

    def step(self) -> None:
        """End a step in whichever window is open."""
        if self._ended:
            return
        self.begin()
        if self._plan.at(self._profiler.current_step + 1).phase is Phase.IDLE:
            self._opening.step()
        else:
            self._opening.stop()
        self._profiler.step()
        self._tell_phase()

    def _tell_phase(self) -> None:
        """Have steps that the opening window records count as warm-up: they are thrown away, but not unrecorded."""
        if self._opening.running != self._opening_ran:
            self._opening_ran = self._opening.running
            self._profiler.mark_phase(Phase.WARMUP if self._opening_ran else self._profiler.phase)

    def end(self, why: str = "") -> None:
        """Stop recording; the script may still go on."""
        self._opening.stop()
        self._why_ended = self._why_ended or why
        if self._begun and not self._ended:
            self._ended = True
            self._profiler.stop()

    def finish(self) -> bool:
        """Stop and write everything; say whether the opening window had to stand in for the scheduled one."""
        try:
            if not self._begun:  # no framework was ever imported: there is nothing that an opening could hold
                self._begun = True
                self._profiler.start()
            self.end()
            stand_in = None if self._recorded_a_step() else self._opening.trace
            if stand_in is not None:
                self._profiler.add_trace(_with_hint(stand_in, self._reason()))
            return stand_in is not None
        finally:
            self._opening.remove()

    def _recorded_a_step(self) -> bool:
        return bool(self._profiler.traces) and self._profiler.current_step > _first_active(self._plan)

    def _reason(self) -> str:
        needed, found = _first_active(self._plan) + 1, self._profiler.current_step
        if self._why_ended:
            return self._why_ended
        if not found:
            return (
                "No end of a step was seen, so this is what was recorded from the import of the framework on. "
                "Call Profiler.step() in the script, or choose a signal with --step-signal."
            )
        return (
            f"The script ended after {found} steps, but the schedule records none before step {needed - 1}; so this is "
            "what was recorded from the import of the framework on. Give a smaller --wait, --warmup or --skip-first."
        )


def _first_active(plan: Schedule) -> int:
    return plan.skip_first + plan.warmup + (0 if plan.skip_first_wait else plan.wait)


def _with_hint(trace: Trace, hint: str) -> Trace:
    return Trace(trace.events, trace.info.model_copy(update={"hints": (*trace.info.hints, hint)}))
