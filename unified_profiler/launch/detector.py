"""Decides which of a framework's signals ends a step: pure rules, without hooks or a profiler.

Signals have priorities: a more reliable signal replaces a less reliable one, which is held back for a while to wait for
it. Among the senders of the chosen signal, and of others with its priority, one is the anchor, and only it ends steps.
If steps turn out to be counted by the wrong signal or the wrong anchor, they are recounted (`Recount`).
"""

from __future__ import annotations

from dataclasses import dataclass

from unified_profiler.launch.anchor import Anchor, Recount
from unified_profiler.model.records import StepSignal

HOLD_BACK = 4
"""Number of signals that a less reliable kind waits for a better one."""
HOLD_BACK_EXPECTING = 64
"""The same once the most reliable signal is expected because an optimizer was created."""
_MAX_SWITCHES = 20


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A kind of signal."""

    name: str
    priority: int
    training: bool = True
    of_model: bool = True

    @property
    def order(self) -> tuple[bool, int]:
        """Sort key, the best first: training before evaluation, then by priority."""
        return (not self.training, self.priority)

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.name if self.training else f"{self.name} (evaluation)"

    @property
    def is_best(self) -> bool:
        """Whether there is no better signal to wait for: it comes from an optimizer, or from a trainer around it."""
        return self.training and self.priority <= 0


class Detector:
    """Decides which signals end a step.

    Attributes:
        chosen: The signal that ends steps now, unless it is held back.
        steps: Number of steps counted so far.
        revision: Increases whenever `result()` changes.
    """

    def __init__(self, *, hold_back: bool = True) -> None:
        """Create a detector; without `hold_back` every signal ends steps from the first one on."""
        self.chosen: Signal | None = None
        self.steps = 0
        self.revision = 0
        self._patience = HOLD_BACK if hold_back else 1
        self._expecting = False
        self._released = False
        self._replaces_steps = False
        self._keeps_steps = False
        self._held: list[int] = []
        self._anchor = Anchor()
        self._switches: list[str] = []

    def expect_better(self) -> None:
        """Expect the most reliable signal, which was announced."""
        self._expecting = True

    def feed(self, signal: Signal, source: int, now_ns: int = 0) -> bool | Recount:
        """Process one signal from a source.

        Returns:
            True if it ends a step, False if not, or a correction of the steps so far.
        """
        is_void = False
        if self.chosen is None or signal.order < self.chosen.order:
            is_void = self._choose(signal)
        if self.chosen is None or signal.order != self.chosen.order:
            return False
        sources = len(self._anchor.sources)
        ended = self._anchor.feed(source, now_ns)
        self.revision += len(self._anchor.sources) - sources
        if self._released:
            return self._count(ended, signal)
        return self._hold(ended, now_ns) or (is_void and Recount(keep=False))

    @property
    def held_back(self) -> int:
        """Number of ends of steps that wait for a more reliable signal."""
        return 0 if self._released else len(self._held)

    def result(self) -> StepSignal | None:
        """Return the record of the signal for the run; None if no signal has ended a step."""
        if self.chosen is None or not self._released:
            return None
        return StepSignal(name=self.chosen.name, sources=len(self._anchor.sources), switches=tuple(self._switches))

    def _choose(self, signal: Signal) -> bool:
        """Choose a more reliable signal; return whether steps were counted by another one, which are void now.

        Steps that the best kind of signal has ended repeatedly are kept: a loop before that of a trainer.
        """
        before, counted = self.chosen, self._released
        self._keeps_steps = counted and before is not None and before.is_best and self._anchor.fixed
        if before is not None and (counted or self._replaces_steps):
            recounted = "" if self._keeps_steps else ", steps were recounted"
            self._add_switch(f"after step {self.steps}: {before.label} gave way to {signal.label}{recounted}")
        self.chosen = signal
        self._anchor = Anchor()
        if self._keeps_steps:
            return False
        self._held = []
        self._replaces_steps = self._replaces_steps or counted
        self._released = False
        self.steps = 0
        return counted

    def _hold(self, ended: bool | Recount, now_ns: int) -> bool | Recount:
        """Collect ends of steps while a better signal may come."""
        if isinstance(ended, Recount):
            self._held = [*(self._held if ended.keep else ()), *ended.ends]
        elif ended:
            self._held.append(now_ns)
        if not ended or len(self._held) < self._required():
            return False
        self._released = True
        self.revision += 1
        self.steps = len(self._held)
        if self.steps == 1 and not self._replaces_steps:
            return True
        return Recount(keep=False, ends=tuple(self._held), held_back=self._required() > 1)

    def _count(self, ended: bool | Recount, signal: Signal) -> bool | Recount:
        if not isinstance(ended, Recount) or (self._keeps_steps and not ended.keep):
            self.steps += bool(ended)
            return bool(ended)
        if ended.keep:
            self._add_switch(f"after step {self.steps}: another source of {signal.label} took over")
        self.steps = len(ended.ends) + (self.steps if ended.keep else 0)
        return ended

    def _required(self) -> int:
        if self._patience == 1 or (self.chosen is not None and self.chosen.is_best):
            return 1
        return HOLD_BACK_EXPECTING if self._expecting else self._patience

    def _add_switch(self, text: str) -> None:
        if len(self._switches) < _MAX_SWITCHES:
            self._switches.append(text)
            self.revision += 1
