"""The Profiler class: the interface with which users record steps, regions and framework events.

Its methods check the call and hand it on: `recording.sequencer` follows the schedule, `delivery` makes and stores the
traces.
"""

from __future__ import annotations

import functools
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from unified_profiler.config import resolve
from unified_profiler.delivery.delivery import Delivery, Handler
from unified_profiler.errors import ArgumentError, ConfigurationError, UsageError
from unified_profiler.keywords import checked_keywords, counterpart
from unified_profiler.model.records import Failure, StepSignal
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.presentation.text import counted
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.regions import NO_REGION, Region, refuse_name
from unified_profiler.recording.sequencer import Sequencer
from unified_profiler.recording.steps import StepLog
from unified_profiler.schedule import Phase, Schedule, as_plan
from unified_profiler.spi import Backend

if TYPE_CHECKING:
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])


@checked_keywords
class Profiler:
    """Records steps, regions and, through the native profilers, every framework in the process.

    Use it with `with`, as a decorator, or by `start()` and `stop()`; call `step()` at the end of each iteration.

    Args:
        schedule: `schedule(...)`, a function `step -> Phase`, or None to record from start to stop.
        output_dir: Where the run is written; without it traces stay in memory.
        backend: "auto" (every imported framework that has a backend), or one or several names or Backend objects.
        on_trace_ready: A function, or several, called with each finished Trace.
        level: 0 off, 1 steps, regions and hardware only, 2 native operators too (the default).
        record_shapes: Record the shapes and types of operator inputs.
        profile_memory: Record allocations.
        with_stack: Record Python stacks.
        with_flops: Count floating-point operations.
        with_modules: Record calls of modules (layers, Cells), and the module path of each operator.
        api: Record calls of the frameworks' public API: True, or a mapping with any of the options of `trace_api`
            (`inside`, `include`, `exclude`, `arguments`, `synchronize`).
        operators: False leaves the native profilers off and still records what `api` and `with_modules` ask for.
        hardware_hz: Samples per second of CPU, memory, disk and network traffic and GPUs while recording; 10 by
            default, 0 for none.
        keep_native: Keep the native profilers' own files in the run directory.
        max_events: Maximum number of operators, kernels and API calls in a trace. Of a cycle with more, the last steps
            are left out, and a hint reports it. 0, the default, means no limit.
        record_command: Whether the run contains the command line, with secrets masked.
        deliver: "immediate" makes the trace and calls the handlers when a cycle ends. "deferred" does so in `stop()`,
            so that training waits for the native profiler only; if the process dies first, the next `read` does it.
        native_options: Options by backend name, passed to the native profiler unchanged.
        strict: Raise profiling errors instead of collecting them in `failures`.
        clock: Returns nanoseconds since the Unix epoch; for tests.

    Options that are not given come from the environment (`UNIFIED_PROFILER_OPTIONS`), then from pyproject.toml. The
    variable `UNIFIED_PROFILER_LEVEL` overrides `level` in all of them: 0 switches every Profiler off.
    """

    _calls_step = True
    """Whether the program itself calls `step()`, and is advised to if it does not."""

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
        self._clock = clock
        self._steps = StepLog()
        self._faults = FaultLog(strict=self.settings.strict)
        self._delivery = Delivery(self.settings, self._faults, handlers=_as_handlers(on_trace_ready))
        self._sequencer = Sequencer(
            self.settings,
            as_plan(schedule if schedule is not None else self.settings.schedule),
            given=[item for item in _as_tuple(backend) if not isinstance(item, str)],
            clock=clock,
            faults=self._faults,
            delivery=self._delivery,
            steps=self._steps,
        )
        self._execution = self._sequencer.execution
        self._begun: list[Region] = []

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def level(self) -> int:
        """0 off, 1 steps, regions and hardware only, 2 native operators too."""
        return self.settings.level

    @property
    def phase(self) -> Phase:
        """The phase of the current step."""
        return self._sequencer.slot.phase

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._sequencer.running

    @property
    def current_step(self) -> int:
        """The number of the current step, from 0."""
        return len(self._steps)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Profiling errors so far."""
        return tuple(self._faults.failures)

    @property
    def traces(self) -> Sequence[Trace]:
        """The finished traces; none before `stop()` with `deliver="deferred"`.

        With `output_dir`, their events are read from disk on first use.
        """
        return tuple(self._delivery.traces)

    @property
    def run(self) -> Run:
        """Everything recorded so far."""
        return self._delivery.run(self._steps)

    @property
    def step_signal(self) -> StepSignal | None:
        """How steps are detected in programs that do not call `step()`."""
        return self._delivery.step_signal

    @step_signal.setter
    def step_signal(self, signal: StepSignal | None) -> None:
        self._delivery.step_signal = signal

    def __repr__(self) -> str:
        """Return a one-line summary."""
        state = "off" if not self._on else "running" if self.running else "not running"
        return f"<Profiler, {state}: {counted(self.current_step, 'step')}, {counted(len(self.traces), 'trace')}>"

    # --- start, step, stop ------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # type checkers would take it for an attribute of any name

        def __getattr__(self, name):  # noqa: ANN001, ANN204
            msg = f"{type(self).__name__!r} object has no attribute {name!r}.{counterpart(name)}"
            raise AttributeError(msg, name=name, obj=self)

    def start(self) -> None:
        """Begin to follow the schedule. A stopped profiler may start again; it continues the same run.

        Raises:
            UsageError: The profiler is running already.
            OutputDirectoryError: The run directory cannot be created.
        """
        if not self._on:
            return
        if self.running:
            msg = "This Profiler is running already. Call stop() before start(), or make another Profiler."
            raise UsageError(msg)
        self._execution.check()
        self._delivery.open()
        _started.add(self)
        self._sequencer.start()

    def step(self) -> None:
        """End the current step and begin the next.

        Raises:
            UsageError: The profiler was not started.
        """
        ends = self._steps.ends
        if len(ends) < self._sequencer.idle_until:  # nearly all steps of a long training: nothing to decide
            ends.append(self._clock())
        elif self._on:
            if not self.running:
                msg = "step() was called on a Profiler that is not running. Call start() or use `with Profiler(...)`."
                raise UsageError(msg)
            self._sequencer.end_step()

    def stop(self, *, finish: bool = True) -> None:
        """End the current cycle, deliver it, and end the run.

        Args:
            finish: Whether to make the traces of deferred cycles now. If False, the first `read` of the run makes them,
                on any machine; without `output_dir` they are always made now.

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
        """Stop. After an exception in the block, the current cycle is delivered as incomplete."""
        if self.running or kind is None:
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
            name: The name of the span.
            meta: Data to store with the span, as JSON; values that JSON cannot represent are stored as text.

        Raises:
            ArgumentError: The name is not a str.
        """
        if not isinstance(name, str):
            refuse_name("region", name)
        return Region(self._execution.regions, name, meta) if self._on else NO_REGION

    def region_begin(self, name: str, meta: Any = None) -> None:
        """Begin a span that `region_end(name)` ends, for code that is not one block.

        Raises:
            ArgumentError: The name is not a str.
        """
        if not isinstance(name, str):
            refuse_name("region_begin", name)
        if self._on:
            self._begun.append(Region(self._execution.regions, name, meta).__enter__())

    def region_end(self, name: str, meta: Any = None) -> None:
        """End the most recently begun span of that name.

        Args:
            name: The name of the span.
            meta: Replaces the `meta` of `region_begin`, for values known only at the end.

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
        """Add a trace recorded elsewhere to this run as its next cycle: write it and call the handlers.

        Raises:
            ArgumentError: The argument is not a Trace.
        """
        if not isinstance(trace, Trace):
            msg = f"add_trace(...) takes a Trace, such as one of `read(path).traces`; found {type(trace).__name__}."
            raise ArgumentError(msg)
        with self._faults.guard("profiler", "add a trace"):
            self._delivery.adopt(trace, cycle=self._execution.cycle_count)
        self._execution.cycle_count += 1
        self._delivery.close(self._steps)
        self._faults.raise_if_strict()

    # --- internals --------------------------------------------------------------------------------------------

    def _stop(self, *, interrupted: bool, finish: bool = True) -> None:
        if not self._on:
            return
        if not self.running:
            msg = "stop() was called on a Profiler that is not running; it may have been stopped already."
            raise UsageError(msg)
        self._sequencer.stop(interrupted=interrupted, finish=finish, advise=self._calls_step)

    def _switch_off(self) -> None:
        """Do nothing from now on. Called in a forked child, where the parent's native profilers do not run."""
        self._on, self._sequencer.idle_until = False, 0
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
