"""Executes the commands of the state machine, from ARM to DELIVER or DISCARD."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from unified_profiler import registry
from unified_profiler.config import Settings
from unified_profiler.model.text import storable
from unified_profiler.recording.api.tracing import ApiTracing
from unified_profiler.recording.cycle import Cycle
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.hardware.sampler import HardwareSampler
from unified_profiler.recording.machine import Command
from unified_profiler.recording.regions import NamedSpan, RegionLog
from unified_profiler.recording.steps import StepLog
from unified_profiler.recording.window import Step, Window
from unified_profiler.spi import Backend

_NOTHING_IMPORTED = (
    "No framework with a backend was imported when recording began, so no operators were recorded. "
    "Import the framework before the recorded steps, or name it with backend=..."
)

START_UP = "start-up"
"""Name of the region before the first step of a program whose steps are detected."""
PART = 1 << 17
"""Number of API calls held in memory before they are delivered as a part, if delivery allows parts."""


class Destination(Protocol):
    """Receives recorded cycles."""

    def workdir(self, cycle: int) -> Path:
        """Return an empty directory for the native files of a cycle."""

    def deliver(self, cycle: Cycle, window: Window, *, complete: bool, steps: StepLog) -> None:
        """Receive a finished cycle."""

    def forget(self) -> None:
        """Remove all cycles delivered so far."""

    def hint(self, text: str) -> None:
        """Keep advice on how to get a better result."""

    def end_pending(self, *, finish: bool) -> None:
        """Make traces of the cycles that were set aside, or leave them to the first reader of the run."""
        ...

    def close(self, steps: StepLog) -> None:
        """Write what is known at the end of the run."""
        ...


class Execution:
    """The cycles of one Profiler, one after the other.

    Attributes:
        cycle_count: Number of cycles armed so far, delivered or not.
        busy: Whether a cycle is in progress.
        program_error: The last error of the program's own work that was raised while a recorder waited for that work.
        recorded: Whether any step was recorded, delivered or not.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        given: Sequence[Backend],
        clock: Callable[[], int],
        faults: FaultLog,
        delivery: Destination,
        steps: StepLog,
        on_full: Callable[[bool], None] | None = None,
    ) -> None:
        self.regions = RegionLog(clock, faults)
        self.cycle_count = 0
        self.busy = False
        self.recorded = False
        self.program_error: Exception | None = None
        self._settings = settings
        self._clock = clock
        self._faults = faults
        self._delivery = delivery
        self._steps = steps
        self._backends = _candidate_backends(settings, given)
        self._api = ApiTracing(settings, clock=clock, faults=faults, on_full=on_full)
        self._hardware = HardwareSampler(hz=settings.hardware_hz, clock=clock, faults=faults)
        self._cycle: Cycle | None = None
        self._window: Window | None = None
        self._first_step = 0
        self._annotations: dict[int, dict[str, Any]] = {}
        self._start_ns = 0

    def run(self, command: Command, *, complete: bool, step_open: bool) -> None:
        """Execute one command.

        Args:
            command: The command of the state machine.
            complete: Whether a trace delivered now has all steps of the schedule.
            step_open: Whether recording ends in the middle of a step, without a call of `step()`.
        """
        if command is Command.ARM:
            self._arm()
        elif command is Command.START:
            self._start()
        elif command is Command.STOP:
            self._stop(step_open=step_open)
        elif command is Command.DELIVER:
            self._deliver(complete=complete)
        else:
            self.discard()

    def check(self) -> None:
        """Check the API options against the imported frameworks.

        Raises:
            ConfigurationError: A pattern of API names matches nothing.
            UsageError: Only API calls are to be recorded, and there is no framework to trace.
        """
        self._api.check(self._frameworks())

    def deliver_part(self, *, between_calls: bool) -> None:
        """Deliver the calls so far as a cycle of their own if there are many, and continue recording.

        A call in progress stays unfinished in the part in which it began, so the limit is four times as high then.
        """
        if self.busy and self._api.call_count() >= (PART if between_calls else 4 * PART):
            self._window = self._window_until(self._clock(), step_open=True)
            self._deliver(complete=True)
            self._cycle, self.busy = self._new_cycle(), True
            self._begin_window()

    def mark_step(self) -> None:
        """Notify the recorders that a step begins."""
        if self._cycle is not None:
            self._cycle.mark_step(len(self._steps))

    def annotate_step(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes to the event of the current step."""
        self._annotations.setdefault(len(self._steps), {}).update(attributes)

    def synchronize(self) -> None:
        """Wait for the work that the current step has queued; its errors belong to the program and are raised."""
        if self._cycle is None:
            return
        try:
            self._cycle.synchronize()
        except Exception as error:
            self.program_error = error
            raise

    def discard(self) -> None:
        """Discard the cycle in progress, if any."""
        cycle, self._cycle, self.busy = self._cycle, None, False
        self._api.discard()
        self._hardware.discard()
        if cycle is not None:
            cycle.discard()

    def forget(self) -> None:
        """Discard everything recorded, including the delivered cycles."""
        self.discard()
        self._delivery.forget()
        self.cycle_count, self.recorded = 0, False

    def _new_cycle(self) -> Cycle:
        cycle = Cycle(self.cycle_count, options=self._settings.record_options, faults=self._faults)
        self.cycle_count += 1
        cycle.step = len(self._steps)
        return cycle

    def _arm(self) -> None:
        cycle = self._new_cycle()
        self._cycle, self.busy = cycle, True
        backends = self._frameworks()
        if not backends and self._settings.level == 2:
            self._delivery.hint(_NOTHING_IMPORTED)
        if backends and self._settings.operators:
            with self._faults.guard("output", "make a work directory", cycle=cycle.number):
                cycle.arm(backends, workdir=self._delivery.workdir(cycle.number))
        self._api.begin(backends, cycle=cycle.number)

    def _start(self) -> None:
        self.recorded = True
        self._hardware.prepare(self._frameworks(), cycle=self.cycle_count - 1)
        if self._cycle is not None:
            self.synchronize()  # outside start(): errors of earlier work are the program's, not ours
            self._cycle.start()
        self._begin_window()
        self._hardware.begin()

    def _begin_window(self) -> None:
        self._first_step = len(self._steps)
        self._annotations.clear()
        self._api.clear()
        self._start_ns = self._clock()
        self.regions.begin_window(self._start_ns)

    def _stop(self, *, step_open: bool) -> None:
        now = self._clock()
        self._api.end()
        self._hardware.end()
        if self._cycle is not None:
            self._cycle.stop(now)
        self._window = self._window_until(now, step_open=step_open)

    def _window_until(self, now: int, *, step_open: bool) -> Window:
        thread = threading.current_thread()
        return Window(
            cycle=self.cycle_count - 1,
            start_ns=self._start_ns,
            end_ns=now,
            tid=thread.native_id or 0,
            thread=storable(thread.name),
            steps=tuple(self._window_steps(now if step_open else None)),
            regions=(*self._start_up(thread), *self.regions.end_window(now)),
            calls=self._api.take(self._start_ns, now),
            waited=self._api.waits,
            counters=self._hardware.take(self._start_ns, now),
            traced=dict(self._api.traced),
        )

    def _start_up(self, thread: threading.Thread) -> Iterator[NamedSpan]:
        """Yield a span for the part of the window before the first step of a program whose steps are detected."""
        end = self._steps.start_up_end
        if end is not None and end > self._start_ns:
            yield NamedSpan(START_UP, self._start_ns, end, thread.native_id or 0, storable(thread.name), None)

    def _window_steps(self, open_until: int | None) -> Iterator[Step]:
        steps = self._steps
        for number in range(self._first_step, len(steps)):
            start = max(steps.start_of(number), self._start_ns)
            attributes = self._annotations.get(number, {})
            yield Step(number=number, start_ns=start, end_ns=steps.end_of(number), attributes=attributes)
        if open_until is not None:
            start = max(steps.start_of(len(steps)), self._start_ns)
            yield Step(number=len(steps), start_ns=start, end_ns=open_until, finished=False)

    def _deliver(self, *, complete: bool) -> None:
        cycle, self._cycle, self.busy = self._cycle, None, False
        window, self._window = self._window, None
        if cycle is not None and window is not None:
            self._delivery.deliver(cycle, window, complete=complete, steps=self._steps)

    def _frameworks(self) -> Sequence[Backend]:
        """Return the backends to record now."""
        if self._settings.level < 2:
            return ()
        return registry.detect(self._backends) if "auto" in self._settings.backend else self._backends


def _candidate_backends(settings: Settings, given: Sequence[Backend]) -> tuple[Backend, ...]:
    """Return the backends that may record; a name that the user gave and that is not available raises."""
    if settings.level < 2:
        return ()
    if "auto" in settings.backend:
        return tuple(registry.backends().values())
    objects = {backend.name: backend for backend in given}
    return tuple(objects.get(name) or registry.require(name) for name in settings.backend)
