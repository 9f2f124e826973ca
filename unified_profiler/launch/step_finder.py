"""Finds the steps of an unmodified script: hooks the frameworks it imports and feeds the detector."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType

from unified_profiler.launch.anchor import Recount
from unified_profiler.launch.detector import Detector, Signal
from unified_profiler.launch.interruption import Interruption
from unified_profiler.launch.post_import import ImportWatch
from unified_profiler.launch.step_contents import StepContents
from unified_profiler.spi import HookRole, StepHook

AUTO = "auto"
NONE = "none"


@dataclass
class _Installed:
    hook: StepHook
    signal: Signal
    undo: Callable[[], None]


class StepFinder:
    """Calls `on_step` at the end of each step, on the main thread, and never raises into the program.

    Attributes:
        detector: The rules and what they found.
        contents: What was seen in the current step.
        error: What went wrong, if anything did; then no further step is looked for.
        elsewhere: How many signals came from other threads, which are not followed.
        unhooked: Which signals cannot be had from this version of a framework, in words.
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
        """Make a finder.

        Args:
            on_step: Called at each step's end with True, or with how the steps so far are to be counted instead.
            on_role: What to call for hooks that end no steps.
            interruption: Held back while a signal is dealt with.
            wanted: The only signal to listen to; "auto" for all, "none" for none.
            is_of_program: Returns whether an error is one of the program's own work, which goes on to the program.
        """
        self.detector = Detector(hold_back=wanted == AUTO)
        self.contents = StepContents(all_signals=wanted == AUTO)
        self.error: Exception | None = None
        self.elsewhere = 0
        self.unhooked: list[str] = []
        self._on_step = on_step
        self._on_role = on_role
        self._interruption = interruption
        self._wanted = wanted
        self._is_of_program = is_of_program
        self._thread = threading.get_ident()
        self._installed: list[_Installed] = []
        self._listening = True

    def watch(self, hooks: Iterable[StepHook], imports: ImportWatch) -> None:
        """Install hooks as soon as the modules that own their places are imported."""
        for hook in hooks:
            if hook.role is not HookRole.STEP_END or self._wanted in {AUTO, hook.signal}:
                imports.when_imported(hook.module, self._installer(hook))

    def close(self) -> None:
        """Undo all hooks."""
        self._listening = False
        while self._installed:
            self._installed.pop().undo()

    def stop_listening(self) -> None:
        """Let go in a forked child: its signals say nothing about this process."""
        self._listening = False

    def _installer(self, hook: StepHook) -> Callable[[ModuleType], None]:
        signal = Signal(name=hook.signal, priority=hook.priority, training=hook.training, of_model=hook.of_model)

        def install(module: ModuleType) -> None:
            if not self._listening:
                return
            try:
                undo = hook.install(module, lambda source: self._fired(hook.role, signal, source))
            except Exception as error:  # noqa: BLE001  another version of the framework: the import goes on
                self.unhooked.append(f"{hook.signal} ({module.__name__}: {type(error).__name__}: {error})")
                return
            self._installed.append(_Installed(hook, signal, undo))

        return install

    def call(self, action: Callable[[], None]) -> None:
        """Do something on the main thread with interruptions held back; what it raises ends the search for steps.

        Errors of the program's own work, raised here because a recorder waited for it, go on to the program.
        """
        if not self._listening or threading.get_ident() != self._thread:
            return
        with self._interruption.held():
            try:
                action()
            except Exception as error:
                if self._is_of_program(error):
                    raise
                self.error = error  # shown at the end; the user's training must go on
                self._listening = False

    def _fired(self, role: HookRole, signal: Signal, source: int) -> None:
        if not self._listening or self._interruption.at_work:
            return
        if threading.get_ident() != self._thread:
            self.elsewhere += 1
            return
        if role is HookRole.STEPS_EXPECTED:
            self.detector.expect_better()
        elif role is HookRole.STEP_END:
            self.call(lambda: self._take(signal, source))
        elif role in self._on_role:
            self.call(self._on_role[role])

    def _take(self, signal: Signal, source: int) -> None:
        chosen = self.detector.chosen
        self.contents.add(signal)
        ended = self.detector.feed(signal, source, time.time_ns())
        if self.detector.chosen is not chosen:
            self._undo_costly(signal)
        if ended:
            self._on_step(ended)
            self.contents.clear()

    def _undo_costly(self, chosen: Signal) -> None:
        """Take away hooks that slow the program and can no longer be chosen.

        They stay if the chosen signal does not show whether a model was at work.
        """
        if not chosen.of_model:
            return
        for installed in reversed(self._installed):
            if installed.hook.costly and chosen.order < installed.signal.order:
                installed.undo()
        self._installed = [one for one in self._installed if not (one.hook.costly and chosen.order < one.signal.order)]
