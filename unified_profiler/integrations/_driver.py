"""StepDriver: starts, steps and stops a Profiler for the callbacks of all trainers.

A callback translates the calls of its trainer to `begin`, `step` and `end` of a stage ("train", "test", ...). The
driver is independent of frameworks and ensures that profiling never disturbs the trainer.
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
    """Drives one Profiler through the stages of successive trainers.

    The units of the outermost stage are the steps. Stages within it, such as the validation of a training, end no
    steps; they are regions of the same name.

    A Profiler that is already running when a stage begins is not stopped at its end. One that was started here is; if
    the trainer raised and never ended the stage, it is stopped when the next stage begins, when the driver is garbage
    collected, or when the interpreter exits, and its trace is marked incomplete.

    Errors of the Profiler are logged once, and recording pauses until the next stage begins; a strict Profiler raises.
    Errors of the program's own work, raised because the end of a step waited for it, are passed on to the program.

    Args:
        profiler: The Profiler to drive.
        steps: Instead of a Profiler or a schedule: the first and the last step to record, both included, counted from
            0 as in the trace. The step before the first one is the warm-up.
        **options: Instead of a Profiler: keywords to create one.

    Raises:
        ConfigurationError: Both a Profiler and keywords were given, or `steps` is not a range.
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
        self._enabled = self.profiler.level > 0
        self._stage: str | None = None
        self._inner_regions: list[tuple[str, Any]] = []
        self._failed = False
        self._stop_if_dropped: weakref.finalize[[Profiler, int], StepDriver] | None = None

    @property
    def stage(self) -> str | None:
        """The outermost stage, None outside trainers."""
        return self._stage

    def begin(self, stage: str) -> None:
        """Begin a stage; if the same stage is still open because its trainer raised, it is ended first."""
        if not self._enabled:
            return
        if self._stage == stage:
            self.abandon()
        if self._stage is None:
            self._stage, self._failed = stage, False
            self._run(self._start)
        else:
            self._inner_regions.append((stage, self.profiler.region(stage).__enter__()))

    def step(self, stage: str) -> None:
        """End a step, if this is the outermost stage."""
        if stage == self._stage and not self._failed:
            self._run(self.profiler.step)

    def end(self, stage: str) -> None:
        """End a stage; does nothing for a stage that has not begun."""
        if stage == self._stage:
            self._close_regions()
            self._stage = None
            self._run(self._stop)
        elif self._inner_regions and self._inner_regions[-1][0] == stage:
            self._inner_regions.pop()[1].__exit__(None, None, None)

    def abandon(self) -> None:
        """End a stage that a trainer left open because it raised, if there is one."""
        if self._stage is None:
            return
        self._close_regions()
        self._stage = None
        stop, self._stop_if_dropped = self._stop_if_dropped, None
        if stop is not None:
            atexit.unregister(stop)
            stop()

    def _start(self) -> None:
        try:
            self.profiler.start()
        except UsageError:  # already running, so other code stops it
            return
        self._stop_if_dropped = weakref.finalize(self, _stop_incomplete, self.profiler, threading.get_ident())
        self._stop_if_dropped.atexit = False  # finalizers run after the exit handlers of frameworks, which is too late
        atexit.register(self._stop_if_dropped)

    def _stop(self) -> None:
        stop, self._stop_if_dropped = self._stop_if_dropped, None
        if stop is not None:
            atexit.unregister(stop)
            stop.detach()
            self.profiler.stop()

    def _run(self, action: Callable[[], None]) -> None:
        """Run an action without letting the Profiler's own errors reach the trainer."""
        try:
            action()
        except UnifiedProfilerError as error:
            if self.profiler.settings.strict:
                raise
            if not self._failed:
                logger.error("Profiling ends, the training continues: %s", mask_message(text_of(error)))  # noqa: TRY400
            self._failed = True

    def _close_regions(self) -> None:
        while self._inner_regions:
            self._inner_regions.pop()[1].__exit__(None, None, None)


class _TrainerRaisedError(Exception):
    """Marks the trace of a trainer that never ended its stage as incomplete."""


def _stop_incomplete(profiler: Profiler, thread: int) -> None:
    if threading.get_ident() != thread:  # native profilers must be stopped on the thread that started them
        atexit.register(_stop_incomplete, profiler, threading.main_thread().ident or 0)
        return
    try:
        profiler.__exit__(_TrainerRaisedError, _TrainerRaisedError(), None)
    except Exception as error:  # noqa: BLE001  also if strict: no code could catch it
        reason = mask_message(text_of(error))
        logger.error("The Profiler of a training that raised could not be stopped: %s", reason)  # noqa: TRY400


def window(first: int, last: int) -> Schedule:
    """Return the schedule that records the steps from first to last, both included, after one step of warm-up."""
    warmup = min(first, 1)
    return Schedule(skip_first=first - warmup, wait=0, warmup=warmup, active=last - first + 1, repeat=1)


def _as_range(steps: Any) -> tuple[int, int]:
    match steps:
        case (int(first), int(last)) if 0 <= first <= last:
            return first, last
    msg = f"`steps` must be the first and the last step to record, as in steps=(10, 12); found {steps!r}."
    raise ConfigurationError(msg)
