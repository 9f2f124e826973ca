"""StepDriver: what every trainer callback shares. It starts, steps and stops a Profiler as the trainer goes along.

It knows no framework. A callback translates its trainer's calls into `begin`, `step` and `end` of a phase ("train",
"test", ...), and the driver sees to it that profiling never gets in the trainer's way.
"""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from unified_profiler.errors import ConfigurationError, UnifiedProfilerError, UsageError
from unified_profiler.masking import mask_message
from unified_profiler.model.plain import text_of
from unified_profiler.profiler import Profiler
from unified_profiler.schedule import Schedule

logger = logging.getLogger("unified_profiler")


class StepDriver:
    """Follows one trainer after the other with one Profiler.

    The phase that begins first is the one that is followed: its units are the steps. Phases within it, such as the
    validation of a training, end no steps; they are regions of the same name.

    A Profiler that runs already when a phase begins belongs to somebody else and is not stopped at its end. One that
    was started here is; and if the trainer raised and never came to its end, it is stopped when the next phase begins,
    when the driver is no longer used, or when the interpreter exits, and its trace is marked incomplete.

    What goes wrong is logged once, and nothing more is recorded until the next phase begins; a strict Profiler raises.
    An error of the program's own work that came to light because a step's end waited for it goes on to the program.

    Args:
        profiler: The Profiler to drive.
        steps: Instead of a Profiler or a schedule: the first and the last step to record, both included, counted from
            0 as in the trace. The step before the first one is the warm-up.
        **options: Instead of a Profiler: keywords to make one with.

    Raises:
        ConfigurationError: A Profiler and keywords were given, or steps that are no range.
    """

    def __init__(
        self, profiler: Profiler | None = None, *, steps: tuple[int, int] | None = None, **options: Any
    ) -> None:
        if steps is not None:
            if profiler is not None or options.get("schedule") is not None:
                msg = "`steps` is a schedule: give it instead of a Profiler or of `schedule`, not with them."
                raise ConfigurationError(msg)
            options["schedule"] = window(*_as_range(steps))
        if profiler is not None and options:
            msg = f"Give a Profiler or the keywords to make one, not both; found {', '.join(sorted(options))}."
            raise ConfigurationError(msg)
        self.profiler = Profiler(**options) if profiler is None else profiler
        self._on = self.profiler.level > 0
        self._phase: str | None = None
        self._within: list[tuple[str, Any]] = []
        self._quiet = False
        self._leave: weakref.finalize[[Profiler, int], StepDriver] | None = None

    @property
    def phase(self) -> str | None:
        """The phase whose units are the steps, None outside trainers."""
        return self._phase

    def begin(self, phase: str) -> None:
        """Begin a phase; a leftover of the same phase, whose trainer must have raised, is ended first."""
        if not self._on:
            return
        if self._phase == phase:
            self.abandon()
        if self._phase is None:
            self._phase, self._quiet = phase, False
            self._do(self._start)
        else:
            self._within.append((phase, self.profiler.region(phase).__enter__()))

    def step(self, phase: str) -> None:
        """End a step, if it is this phase that is followed."""
        if phase == self._phase and not self._quiet:
            self._do(self.profiler.step)

    def end(self, phase: str) -> None:
        """End a phase; the end of a phase that never began does nothing."""
        if phase == self._phase:
            self._leave_regions()
            self._phase = None
            self._do(self._stop)
        elif self._within and self._within[-1][0] == phase:
            self._within.pop()[1].__exit__(None, None, None)

    def abandon(self) -> None:
        """End what a trainer that raised left behind, if anything: a new trainer is about to begin."""
        if self._phase is None:
            return
        self._leave_regions()
        self._phase = None
        leave, self._leave = self._leave, None
        if leave is not None:
            atexit.unregister(leave)
            leave()

    def _start(self) -> None:
        try:
            self.profiler.start()
        except UsageError:  # it is running already: whoever started it stops it
            return
        self._leave = weakref.finalize(self, _stop_incomplete, self.profiler, threading.get_ident())
        self._leave.atexit = False  # its own turn comes after that of the frameworks, which is too late
        atexit.register(self._leave)

    def _stop(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            atexit.unregister(leave)
            leave.detach()
            self.profiler.stop()

    def _do(self, action: Callable[[], None]) -> None:
        """Keep the Profiler's own errors from the trainer."""
        try:
            action()
        except UnifiedProfilerError as error:
            if self.profiler.settings.strict:
                raise
            if not self._quiet:
                logger.error("Profiling ends here, the training goes on: %s", mask_message(text_of(error)))  # noqa: TRY400
            self._quiet = True

    def _leave_regions(self) -> None:
        while self._within:
            self._within.pop()[1].__exit__(None, None, None)


class _TrainerRaisedError(Exception):
    """Tells a Profiler that the trainer which it followed never came to its end."""


def _stop_incomplete(profiler: Profiler, thread: int) -> None:
    if threading.get_ident() != thread:  # native profilers must be stopped on the thread that started them
        atexit.register(_stop_incomplete, profiler, threading.main_thread().ident or 0)
        return
    try:
        profiler.__exit__(_TrainerRaisedError, _TrainerRaisedError(), None)
    except Exception as error:  # noqa: BLE001  also strict: nobody could catch it here
        reason = mask_message(text_of(error))
        logger.error("The Profiler of a training that raised could not be stopped: %s", reason)  # noqa: TRY400


def window(first: int, last: int) -> Schedule:
    """Make the schedule that records the steps from first to last, both included, after one step of warm-up."""
    warmup = min(first, 1)
    return Schedule(skip_first=first - warmup, wait=0, warmup=warmup, active=last - first + 1, repeat=1)


def _as_range(steps: Any) -> tuple[int, int]:
    match steps:
        case (int(first), int(last)) if 0 <= first <= last:
            return first, last
    msg = f"`steps` must be the first and the last step to record, as in steps=(10, 12); found {steps!r}."
    raise ConfigurationError(msg)
