"""Detects the steps of an unmodified script: hooks the frameworks it imports and feeds the detector."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType

from unified_profiler.launch.anchor import Recount
from unified_profiler.launch.detector import Detector, Signal
from unified_profiler.launch.first_step import FirstStep
from unified_profiler.launch.interruption import Interruption
from unified_profiler.launch.post_import import ImportWatch
from unified_profiler.launch.step_contents import StepContents
from unified_profiler.spi import HookRole, StepHook

AUTO = "auto"
NONE = "none"

_BEGINNINGS = frozenset({HookRole.LOOP_BEGIN, HookRole.CALL_BEGIN})


@dataclass
class _InstalledHook:
    hook: StepHook
    signal: Signal
    undo: Callable[[], None]


class StepFinder:
    """Calls `on_step` at the end of each step, on the main thread, and never raises into the program.

    Attributes:
        detector: Decides which signals end steps.
        contents: The signals in the current step.
        first_step: Determines when the first step began.
        error: The first error, after which no further step is detected.
        other_threads: Number of signals from other threads, which are ignored.
        unhooked: Descriptions of the signals that could not be hooked in this version of a framework.
    """

    def __init__(
        self,
        *,
        on_step: Callable[[bool | Recount], None],
        on_role: Mapping[HookRole, Callable[[], None]],
        interruption: Interruption,
        wanted: str = AUTO,
        is_of_program: Callable[[Exception], bool] = lambda _error: False,
    ) -> None:
        """Create a finder.

        Args:
            on_step: Called at the end of each step with True, or with a correction of the steps so far.
            on_role: Called for hooks that end no steps, by role.
            interruption: Held while a signal is processed.
            wanted: The only signal to listen to; "auto" for all, "none" for none.
            is_of_program: Returns whether an error belongs to the program's own work and is passed on to it.
        """
        self.detector = Detector(hold_back=wanted == AUTO)
        self.contents = StepContents(all_signals=wanted == AUTO)
        self.first_step = FirstStep()
        self.error: Exception | None = None
        self.other_threads = 0
        self.unhooked: list[str] = []
        self._on_step = on_step
        self._on_role = on_role
        self._interruption = interruption
        self._wanted = wanted
        self._is_of_program = is_of_program
        self._thread = threading.get_ident()
        self._installed: list[_InstalledHook] = []
        self._listening = True

    def watch(self, hooks: Iterable[StepHook], imports: ImportWatch) -> None:
        """Install hooks as soon as their modules are imported."""
        for hook in hooks:
            if self._is_wanted(hook):
                imports.when_imported(hook.module, self._installer(hook))

    def close(self) -> None:
        """Remove all hooks."""
        self._listening = False
        while self._installed:
            self._installed.pop().undo()

    def stop_listening(self) -> None:
        """Ignore all signals in a forked child, which do not belong to this process."""
        self._listening = False

    def _is_wanted(self, hook: StepHook) -> bool:
        if hook.role is HookRole.STEP_END:
            return self._wanted in {AUTO, hook.signal}
        return self._wanted != NONE or hook.role not in _BEGINNINGS

    def _installer(self, hook: StepHook) -> Callable[[ModuleType], None]:
        signal = Signal(name=hook.signal, priority=hook.priority, training=hook.training, of_model=hook.of_model)

        def install(module: ModuleType) -> None:
            if not self._listening:
                return
            try:
                undo = hook.install(module, lambda source: self._receive(hook.role, signal, source))
            except Exception as error:  # noqa: BLE001  an unknown version of the framework must not fail the import
                self.unhooked.append(f"{hook.signal} ({module.__name__}: {type(error).__name__}: {error})")
                return
            self._installed.append(_InstalledHook(hook, signal, undo))

        return install

    def call(self, action: Callable[[], None]) -> None:
        """Run an action on the main thread with interruptions held; an error ends the detection of steps.

        Errors of the program's own work, raised here because a recorder waited for it, are passed on to the program.
        """
        if not self._listening or threading.get_ident() != self._thread:
            return
        with self._interruption.held():
            try:
                action()
            except Exception as error:
                if self._is_of_program(error):
                    raise
                self.error = error  # shown at the end; the training must continue
                self._listening = False

    def _receive(self, role: HookRole, signal: Signal, source: int) -> None:
        if not self._listening or self._interruption.is_held:
            return
        if threading.get_ident() != self._thread:
            self.other_threads += role not in _BEGINNINGS
            return
        if role is HookRole.STEPS_EXPECTED:
            self.detector.expect_better()
        elif role is HookRole.STEP_END:
            self.call(lambda: self._process(signal, source))
        elif role is HookRole.LOOP_BEGIN:
            self.first_step.loop_begins(time.time_ns(), training=signal.training)
        elif role is HookRole.CALL_BEGIN:
            self.first_step.call_begins(time.time_ns(), training=signal.training)
        elif role in self._on_role:
            self.call(self._on_role[role])

    def _process(self, signal: Signal, source: int) -> None:
        chosen = self.detector.chosen
        self.contents.add(signal)
        ended = self.detector.feed(signal, source, time.time_ns())
        if self.detector.chosen is not chosen:
            self._undo_costly(signal)
        if ended:
            self._on_step(ended)
            self.contents.clear()

    def _undo_costly(self, chosen: Signal) -> None:
        """Remove hooks that slow down the program and can no longer be chosen.

        They stay if the chosen signal does not show whether a model is running.
        """
        if not chosen.of_model:
            return
        obsolete = [each for each in self._installed if each.hook.costly and chosen.order < each.signal.order]
        for installed in reversed(obsolete):
            installed.undo()
            self._installed.remove(installed)
