"""Runs a program under the profiler from start to end, however it ends, and returns the result of `run`."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from unified_profiler import registry
from unified_profiler.config import resolve
from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import did_you_mean
from unified_profiler.launch.anchor import Recount
from unified_profiler.launch.children import Children
from unified_profiler.launch.garbage import older_objects_spared
from unified_profiler.launch.interruption import TERMINATED, Interruption
from unified_profiler.launch.launched_profiler import LaunchedProfiler
from unified_profiler.launch.opening import LEAN, OpeningWindow, record_always
from unified_profiler.launch.pandas_import import leave_pandas_to_script
from unified_profiler.launch.post_import import ImportWatch
from unified_profiler.launch.program import Program
from unified_profiler.launch.step_contents import uneven_steps
from unified_profiler.launch.step_finder import AUTO, NONE, StepFinder
from unified_profiler.launch.windows import Windows
from unified_profiler.model.records import Failure, StepSignal
from unified_profiler.model.run import Run
from unified_profiler.recording.job import this_job
from unified_profiler.schedule import Schedule
from unified_profiler.spi import Backend, HookRole, StepHook

DEFAULT_SCHEDULE = Schedule(wait=1, warmup=1, active=3, repeat=1)
"""One short window near the beginning. The first steps show which object ends a step, so they are not recorded."""
RANK_STEPS = 20
"""Number of steps to record if a launcher started several ranks: fewer do not identify a slow rank."""
DEFAULT_OUTPUT = Path("profile")
OPENING_SECONDS = 10.0
MAX_EVENTS = 1_000_000
"""Converting this many takes about a minute; steps with inner loops, such as those of LBFGS, have as many."""

_GAVE_WAY = (
    "The script uses a native profiler itself, so recording ended when that began. "
    "Remove it from the script to record later steps."
)

logger = logging.getLogger("unified_profiler")


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """Options of a launch.

    Attributes:
        schedule: The steps to record; None for the schedule of the settings, or `DEFAULT_SCHEDULE`.
        step_signal: The signal that ends steps, "auto" to detect it, "none" for no detection.
        opening_seconds: Time limit of the opening window; 0 for no window.
        profiler: Keywords for the Profiler: output_dir, backend, level, record_shapes...
    """

    schedule: Schedule | None = None
    step_signal: str = AUTO
    opening_seconds: float = OPENING_SECONDS
    profiler: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a launch.

    Attributes:
        exit_code: The exit code of the program.
        run: The recording; None if the profiler is disabled.
        signal: The signal that ended steps.
        steps: Number of steps that ended.
        planned_steps: Number of steps to record; 0 if there is no limit.
        hints: Advice on how to get a better result.
        failures: Failures of the profiler.
        error: The error that `strict` would have raised.
    """

    exit_code: int
    run: Run | None = None
    signal: StepSignal | None = None
    steps: int = 0
    planned_steps: int = 0
    hints: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    error: Exception | None = None


def launch(program: Program, options: LaunchOptions) -> Outcome:
    """Run a program to its end under the profiler.

    Raises:
        ConfigurationError: An option is wrong; the program was not started.
        FrameworkNotInstalledError: The framework of a given backend is not installed.
    """
    settings = resolve({})
    plan = options.schedule or settings.schedule or default_schedule()
    keywords = {
        "output_dir": settings.output_dir or DEFAULT_OUTPUT,
        "max_events": MAX_EVENTS if settings.max_events is None else settings.max_events,
        **options.profiler,
    }
    profiler = LaunchedProfiler(schedule=plan, **keywords)
    _check_signal(options.step_signal)
    if not profiler.level:
        return Outcome(exit_code=program.run())
    with _quiet_log(), Interruption() as interruption, ImportWatch() as imports:
        leave_pandas_to_script(imports)
        return _Launch(options, plan, profiler, interruption).run(program, imports)


def default_schedule() -> Schedule:
    """Return the default schedule, with more steps if there are ranks to compare."""
    return replace(DEFAULT_SCHEDULE, active=RANK_STEPS) if this_job().world_size > 1 else DEFAULT_SCHEDULE


class _Launch:
    def __init__(
        self, options: LaunchOptions, plan: Schedule, profiler: LaunchedProfiler, interruption: Interruption
    ) -> None:
        self._profiler = profiler
        self._planned_steps = plan.active * plan.repeat
        self._interruption = interruption
        self._children = Children({backend.module for backend in _backends(profiler)})
        self._process = os.getpid()
        self._opening = OpeningWindow(
            lambda directory: _opening_profiler(options, directory),
            limit_seconds=options.opening_seconds,
            interruption=interruption,
            signaled=lambda: self._finder.detector.chosen is not None,
        )
        roles = {
            HookRole.PROFILER_WANTED: self._give_way,
            HookRole.EVALUATION_BEGIN: self._begin_evaluation,
            HookRole.EVALUATION_END: self._end_evaluation,
        }
        self._finder = StepFinder(
            on_step=self._step,
            on_role=roles,
            interruption=interruption,
            wanted=options.step_signal,
            is_of_program=profiler.is_of_program,
        )
        self._windows = Windows(profiler, plan, self._opening, self._finder.first_step.began)
        self._revision = -1
        self._error: Exception | None = None
        self._final_hints: tuple[str, ...] = ()
        self._opening_used = False
        self._gave_way = False

    def run(self, program: Program, imports: ImportWatch) -> Outcome:
        os.register_at_fork(after_in_child=self._finder.stop_listening)
        for backend in _backends(self._profiler):
            self._finder.watch(_step_hooks(backend), imports)
            imports.when_imported(backend.module, self._framework_imported)
        self._profiler.program_starts(time.time_ns())
        with self._children.watched(imports), older_objects_spared():
            code = program.run()
        if os.getpid() != self._process:
            _leave_child(code)
        self._finder.close()
        return self._outcome(code)

    def _framework_imported(self, _module: ModuleType) -> None:
        self._finder.call(self._windows.begin)

    def _step(self, ended: bool | Recount) -> None:
        if self._finder.detector.revision != self._revision:
            self._revision = self._finder.detector.revision
            self._profiler.step_signal = self._finder.detector.result()
        self._profiler.annotate_step(self._finder.contents.attributes())
        if isinstance(ended, Recount):
            self._windows.recount(ended)
        else:
            self._windows.step()

    def _begin_evaluation(self) -> None:
        """Separate evaluation from training; in a program that only evaluates, it is divided into steps."""
        chosen = self._finder.detector.chosen
        if chosen is not None and chosen.training:
            self._windows.begin_evaluation()

    def _end_evaluation(self) -> None:
        self._windows.end_evaluation()
        self._finder.contents.clear()

    def _give_way(self) -> None:
        """Release the native profiler for the script, whose own use takes precedence."""
        self._gave_way = True
        self._profiler.step_signal = self._finder.detector.result()
        self._windows.end(_GAVE_WAY)

    def _outcome(self, code: int) -> Outcome:
        self._profiler.program_ended(code)
        self._profiler.step_signal = self._finder.detector.result()
        try:
            with self._interruption.held():
                self._finish(failed=bool(code))
        except SystemExit:  # SIGTERM while the result was being written, which is complete now
            code = TERMINATED
        run = self._profiler.run
        return Outcome(
            exit_code=code,
            run=run,
            signal=self._profiler.step_signal,
            steps=self._profiler.current_step,
            planned_steps=self._planned_steps,
            hints=tuple(self._hints(run)),
            failures=(*self._profiler.failures, *self._opening.failures),
            error=self._finder.error or self._error,
        )

    def _finish(self, *, failed: bool) -> None:
        try:
            self._opening_used = self._windows.finish(failed=failed)
            self._final_hints = tuple(self._detection_hints())
            self._profiler.add_hints(self._final_hints)
        except Exception as error:  # noqa: BLE001  the program's exit code and the table are still shown
            self._error = error

    def _hints(self, run: Run) -> Iterable[str]:
        hints = [trace.info.hints for trace in run.traces]
        if not self._opening_used:  # else its trace has a more specific hint
            hints += [manifest.hints for manifest in run.manifests.values()]
            hints += [(_GAVE_WAY,)] if self._gave_way else []
        yield from dict.fromkeys(chain(*hints, self._final_hints))

    def _detection_hints(self) -> Iterable[str]:
        """Return hints on the detection of steps and on child processes, at the end of the script."""
        yield from uneven_steps(self._profiler.run)
        yield from self._children.hints()
        detector = self._finder.detector
        if detector.held_back and detector.chosen is not None:
            yield (
                f"{detector.held_back} iterations were seen by {detector.chosen.label}, but are not counted as steps, "
                "since a more reliable signal was expected: that of an optimizer, if one was created. Give "
                f"--step-signal {detector.chosen.name} to count them."
            )
        if self._finder.unhooked:
            yield (
                "Some step signals could not be hooked in this version of the framework: "
                f"{'; '.join(self._finder.unhooked)}. Choose another one with --step-signal if steps are missing."
            )
        if self._finder.other_threads:
            yield (
                f"{self._finder.other_threads} signals came from other threads than the main thread, where steps are "
                "not detected. Use unified_profiler.Profiler in the script, on the thread that trains."
            )


def _check_signal(name: str) -> None:
    hooks = [hook for backend in registry.backends().values() for hook in _step_hooks(backend)]
    known = sorted({AUTO, NONE} | {hook.signal for hook in hooks if hook.role is HookRole.STEP_END})
    if name not in known:
        msg = f"There is no step signal {name!r}.{did_you_mean(name, known)} Known signals: {', '.join(known)}."
        raise ConfigurationError(msg)


def _step_hooks(backend: Backend) -> Sequence[StepHook]:
    return backend.abilities.step_hooks() if backend.abilities.step_hooks is not None else ()


def _leave_child(code: int) -> NoReturn:
    """End a forked child that ran to the end of the script, without the exit handlers of native libraries.

    A native profiler has threads that a child lacks: torch's waits for them forever when the process ends.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _opening_profiler(options: LaunchOptions, directory: Path) -> LaunchedProfiler:
    keywords = {"max_events": MAX_EVENTS, **options.profiler, **LEAN}
    keywords |= {"output_dir": directory, "deliver": "deferred", "strict": False}
    return LaunchedProfiler(schedule=record_always, **keywords)


def _backends(profiler: LaunchedProfiler) -> tuple[Backend, ...]:
    names = profiler.settings.backend
    return tuple(backend for name, backend in registry.backends().items() if "auto" in names or name in names)


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Keep log messages out of the script's output: failures and hints are shown at the end."""
    handler, propagate = logging.NullHandler(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = propagate
        logger.removeHandler(handler)
