"""Profiler: what users hold. It follows the plan, drives the recorders and delivers a Trace per finished cycle.

What happens at a change of phase is decided in `recording.machine` and carried out in `recording.execution`; how a
trace is put together and stored is in `delivery`. Here is what users call.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from unified_profiler.config import resolve
from unified_profiler.delivery.delivery import Delivery, Handler
from unified_profiler.errors import ArgumentError, ConfigurationError, UsageError
from unified_profiler.keywords import checked_keywords
from unified_profiler.model.records import Failure, StepSignal
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.recording.execution import Execution
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.machine import OUTSIDE, transition
from unified_profiler.recording.regions import NO_REGION, Region, refuse_name
from unified_profiler.recording.steps import StepLog
from unified_profiler.schedule import Always, Phase, Plan, Schedule, Slot, as_plan
from unified_profiler.spi import Backend

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

_NO_STEP = (
    "Profiler.step() was never called, so everything counts as one step. "
    "Call it at the end of each iteration to see steps, and for a schedule to take effect."
)


@checked_keywords
class Profiler:
    """Records steps, regions and, through the native profilers, every framework in the process.

    Use it with `with`, as a decorator, or by `start()` and `stop()`; call `step()` at the end of each iteration.

    Args:
        schedule: `schedule(...)`, a function `step -> Phase`, or None to record from start to stop.
        output_dir: Where the run is written; without it traces stay in memory.
        backend: "auto" (every imported framework that has a backend), or one or several names or Backend objects.
        on_trace_ready: A function, or several, called with each finished Trace.
        level: 0 off, 1 application and hardware layer only, 2 with native operators (the default).
        record_shapes: Record the shapes and types of operator inputs.
        profile_memory: Record allocations.
        with_stack: Record Python stacks.
        with_flops: Count floating-point operations.
        with_modules: Record calls of modules (layers, Cells), so that operators carry the path of theirs.
        api: Record calls of the frameworks' public API: True, or a mapping with any of the options of `trace_api`
            (`inside`, `include`, `exclude`, `arguments`, `synchronize`).
        operators: False leaves the native profilers off: steps, regions, and what `api` and `with_modules` ask for.
        hardware_hz: How often a second CPU, memory, traffic of disks and network, and GPUs are read while recording;
            10 if not given, 0 for never.
        keep_native: Keep the native profilers' own files in the run directory.
        max_events: How many operators, kernels and API calls a trace may hold: of a cycle with more, the last steps are
            left out, and a hint says so. 0, the default, for any number.
        record_command: False writes no command line into the run; else it is written with the secrets in it masked.
        deliver: "immediate" makes the trace of a cycle, and calls the handlers, when the cycle ends; "deferred" leaves
            that to `stop()`, so that the training waits for the native profiler only, or, should the process not come
            to it, to the first `read` of the run.
        native_options: Options by backend name, handed to the native profiler untouched.
        strict: Raise what goes wrong in profiling instead of keeping it in `failures`.
        clock: Nanoseconds since the Unix epoch; for tests.

    Options that are not given come from the environment (`UNIFIED_PROFILER_OPTIONS`), then from pyproject.toml;
    `start: false` there, which has no keyword, switches the profiler off.
    """

    def __init__(
        self,
        *,
        schedule: Schedule | Callable[[int], Phase] | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        backend: str | Backend | Sequence[str | Backend] | None = None,
        on_trace_ready: Handler | Sequence[Handler] | None = None,
        level: int | None = None,
        record_shapes: bool | None = None,
        profile_memory: bool | None = None,
        with_stack: bool | None = None,
        with_flops: bool | None = None,
        with_modules: bool | None = None,
        api: bool | Mapping[str, Any] | None = None,
        operators: bool | None = None,
        hardware_hz: float | None = None,
        keep_native: bool | None = None,
        max_events: int | None = None,
        record_command: bool | None = None,
        deliver: Literal["immediate", "deferred"] | None = None,
        native_options: Mapping[str, Any] | None = None,
        strict: bool | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings = resolve(
            {
                "output_dir": None if output_dir is None else Path(output_dir),
                "backend": None if backend is None else tuple(_name_of(item) for item in _as_tuple(backend)),
                "level": level,
                "record_shapes": record_shapes,
                "profile_memory": profile_memory,
                "with_stack": with_stack,
                "with_flops": with_flops,
                "with_modules": with_modules,
                "api": api,
                "operators": operators,
                "hardware_hz": hardware_hz,
                "keep_native": keep_native,
                "max_events": max_events,
                "record_command": record_command,
                "deliver": deliver,
                "native_options": native_options,
                "strict": strict,
                "schedule": schedule if isinstance(schedule, Schedule) else None,
            }
        )
        self._on = self.settings.level > 0
        self._plan: Plan = as_plan(schedule if schedule is not None else self.settings.schedule)
        self._clock = clock
        self._lock = threading.RLock()
        self._steps = StepLog()
        self._faults = FaultLog(strict=self.settings.strict)
        self._delivery = Delivery(self.settings, self._faults, handlers=_as_handlers(on_trace_ready))
        self._execution = Execution(
            self.settings,
            given=[item for item in _as_tuple(backend) if not isinstance(item, str)],
            clock=clock,
            faults=self._faults,
            delivery=self._delivery,
            steps=self._steps,
            on_full=self._flush_full_buffer if self._delivers_parts else None,
        )
        self._begun: list[Region] = []
        self._running = False
        self._delivering = False
        self._slot = OUTSIDE
        self._started_at = 0
        self._origin = 0
        self._idle_until = 0

    # --- what there is to see ---------------------------------------------------------------------------------

    @property
    def level(self) -> int:
        """0 off, 1 application layer, 2 native operators."""
        return self.settings.level

    @property
    def phase(self) -> Phase:
        """The phase of the current step."""
        return self._slot.phase

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._running

    @property
    def current_step(self) -> int:
        """The number of the current step, from 0."""
        return len(self._steps)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What went wrong in profiling so far."""
        return tuple(self._faults.failures)

    @property
    def traces(self) -> Sequence[Trace]:
        """The finished traces; with `output_dir` their events are read back from disk when asked for.

        With `deliver="deferred"` there are none before `stop()`.
        """
        return tuple(self._delivery.traces)

    @property
    def run(self) -> Run:
        """Everything so far as a Run."""
        return self._delivery.run(self._steps)

    @property
    def step_signal(self) -> StepSignal | None:
        """How steps are found, for programs that do not call `step()` themselves."""
        return self._delivery.step_signal

    @step_signal.setter
    def step_signal(self, signal: StepSignal | None) -> None:
        self._delivery.step_signal = signal

    # --- start, step, stop ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow the schedule. A profiler that was stopped may start again and goes on in the same run.

        Raises:
            UsageError: It is running already.
            OutputDirectoryError: The run directory cannot be made.
        """
        if not self._on:
            return
        if self._running:
            msg = "This Profiler is running already. Call stop() before start(), or make another Profiler."
            raise UsageError(msg)
        self._execution.check()
        self._delivery.open()
        _started.add(self)
        with self._lock:
            self._running = True
            self._started_at = self._origin = len(self._steps)
            try:
                self._go_to(self._slot_of(self._origin))
            except BaseException:
                self._running = False
                raise
            self._raise_if_strict()

    def step(self) -> None:
        """End the current step and begin the next.

        Raises:
            UsageError: The profiler was not started.
        """
        ends = self._steps.ends
        if len(ends) < self._idle_until:  # the way of nearly all steps of a long training: nothing to decide
            ends.append(self._clock())
        elif self._on:
            if self._slot.phase is Phase.RECORD:
                self._execution.synchronize()
            self._change_step(self._clock())

    def stop(self, *, finish: bool = True) -> None:
        """End the current cycle and the run. What is being recorded is delivered.

        Args:
            finish: Whether to make traces now of what `deliver="deferred"` has set aside. If not, the first `read` of
                the run does, on any machine; without `output_dir` there is nothing to read, so it is done now.

        Raises:
            UsageError: The profiler is not running.
        """
        self._stop(interrupted=False, finish=finish)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop; an exception in the block ends the cycle as it is."""
        if self._running or kind is None:
            self._stop(interrupted=kind is not None)

    def __call__(self, function: F) -> F:
        """Profile every call of a function."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast("F", call)

    # --- regions ----------------------------------------------------------------------------------------------

    def region(self, name: str, meta: Any = None) -> Region:
        """Return a named span, to be used with `with` or as a decorator.

        Args:
            name: What the span is called.
            meta: Anything worth keeping with it; stored as JSON, with the text of whatever JSON cannot hold.

        Raises:
            ArgumentError: The name is not a str.
        """
        if not isinstance(name, str):
            refuse_name("region", name)
        return Region(self._execution.regions, name, meta) if self._on else NO_REGION

    def region_begin(self, name: str, meta: Any = None) -> None:
        """Begin a span that is not lexical; `region_end(name)` ends it.

        Raises:
            ArgumentError: The name is not a str.
        """
        if not isinstance(name, str):
            refuse_name("region_begin", name)
        if self._on:
            self._begun.append(Region(self._execution.regions, name, meta).__enter__())

    def region_end(self, name: str, meta: Any = None) -> None:
        """End the span of that name that was begun last.

        Args:
            name: What the span is called.
            meta: Replaces the `meta` of `region_begin`, for what is known only at the end.

        Raises:
            ArgumentError: The name is not a str.
            UsageError: No span of that name is open.
        """
        if not isinstance(name, str):
            refuse_name("region_end", name)
        if not self._on:
            return
        for region in reversed(self._begun):
            if region.name == name:
                self._begun.remove(region)
                region.meta = region.meta if meta is None else meta
                region.__exit__(None, None, None)
                return
        names = sorted({region.name for region in self._begun})
        msg = f"region_end({name!r}) without a region_begin({name!r}) before it. Open regions: {names}."
        raise UsageError(msg)

    def add_trace(self, trace: Trace) -> None:
        """Put a trace recorded elsewhere into this run, as its next cycle: it is written and handlers are called.

        Raises:
            ArgumentError: It is not a Trace.
        """
        if not isinstance(trace, Trace):
            msg = f"add_trace(...) takes a Trace, such as one of `read(path).traces`; found {type(trace).__name__}."
            raise ArgumentError(msg)
        with self._faults.guard("profiler", "add a trace"):
            self._delivery.adopt(trace, cycle=self._execution.cycle_count)
        self._execution.cycle_count += 1
        self._delivery.close(self._steps)
        self._faults.raise_if_strict()

    # --- the machine ------------------------------------------------------------------------------------------

    def _stop(self, *, interrupted: bool, finish: bool = True) -> None:
        if not self._on:
            return
        if not self._running:
            msg = "stop() was called on a Profiler that is not running; it may have been stopped already."
            raise UsageError(msg)
        with self._lock:
            self._running, self._idle_until = False, 0
            try:
                if self._slot.phase is Phase.RECORD and not interrupted:
                    self._execution.synchronize()
            finally:
                whole = isinstance(self._plan, Always) and not interrupted
                self._go_to(OUTSIDE, complete=whole)
                if len(self._steps) == self._started_at and self.settings.operators:
                    self._delivery.hint(_NO_STEP)
                self._delivery.end_pending(finish=finish)
                self._delivery.close(self._steps)
            self._faults.raise_if_strict()

    def _change_step(self, now: int) -> None:
        if not self._running:
            msg = "step() was called on a Profiler that is not running. Use `with Profiler(...)` or call start() first."
            raise UsageError(msg)
        with self._lock:
            self._steps.ends.append(now)
            following = self._slot_of(len(self._steps))
            if following == self._slot and following.phase is Phase.RECORD:
                self._execution.mark_step()
                self._raise_if_strict()
            elif self._execution.busy or following.phase is not self._slot.phase:
                self._go_to(following)
                self._raise_if_strict()
            else:
                self._slot = following
                self._idle_until = self.current_step + self._plan.idle_from(self.current_step - self._origin) - 1

    @property
    def _delivers_parts(self) -> bool:
        """Whether what was recorded may be delivered at any time: to disk, with no native profiler in the way."""
        return self.settings.output_dir is not None and not self.settings.operators

    def _flush_full_buffer(self, between_calls: bool) -> None:
        """Make room, on whichever thread there is too much of them; not while what was recorded is being delivered."""
        with self._lock:
            if self._running and self._slot.phase is Phase.RECORD and not self._delivering:
                self._delivering = True
                try:
                    self._execution.deliver_part(between_calls=between_calls)
                finally:
                    self._delivering = False

    def _slot_of(self, step: int) -> Slot:
        try:
            return self._plan.at(step - self._origin)
        except Exception as error:  # noqa: BLE001  a user's function may raise anything; the loop goes on unrecorded
            self._faults.report("schedule", "tell the phase", error, step=step)
            return OUTSIDE

    def _go_to(self, following: Slot, *, complete: bool = True) -> None:
        """Run the commands that lead to the next slot; an interruption leaves nothing armed."""
        previous, self._slot = self._slot, following
        try:
            for command in transition(previous, following):
                self._execution.run(command, complete=complete, step_open=not self._running)
            self._steps.begin(self._clock(), following.phase)
            if following.phase is Phase.RECORD:
                self._execution.mark_step()
        except BaseException:
            self._slot = OUTSIDE
            self._execution.discard()
            raise

    def _raise_if_strict(self) -> None:
        """Raise what went wrong, in strict mode, and leave nothing armed behind."""
        try:
            self._faults.raise_if_strict()
        except Exception:
            self._slot, self._running = OUTSIDE, False
            self._execution.discard()
            self._delivery.end_pending()
            raise

    def _switch_off(self) -> None:
        """Do nothing from now on, as in a forked child, which shares nothing with its parent's native profilers."""
        self._on, self._idle_until = False, 0
        self._delivery.leave_to_parent()


_started: weakref.WeakSet[Profiler] = weakref.WeakSet()


def _switch_off_in_child() -> None:
    for profiler in list(_started):
        profiler._switch_off()


os.register_at_fork(after_in_child=_switch_off_in_child)


def _as_tuple(backend: str | Backend | Sequence[str | Backend] | None) -> tuple[str | Backend, ...]:
    if backend is None:
        return ()
    return tuple(backend) if isinstance(backend, Sequence) and not isinstance(backend, str) else (backend,)


def _name_of(backend: str | Backend) -> str:
    return backend if isinstance(backend, str) else backend.name


def _as_handlers(given: Handler | Sequence[Handler] | None) -> tuple[Handler, ...]:
    if given is None:
        return ()
    handlers = (given,) if callable(given) else tuple(given)
    for handler in handlers:
        if not callable(handler):
            msg = f"`on_trace_ready` must be a function of a Trace, or several of them; found {handler!r}."
            raise ConfigurationError(msg)
    return handlers
