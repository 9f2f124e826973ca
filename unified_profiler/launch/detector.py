"""Which of the signals that a framework sends ends a step: pure rules, no hooks and no profiler.

Signals have priorities; a surer one that fires replaces a less sure one, and less sure ones wait a while for it. Among
the objects that send the chosen signal, or another one of its priority, one is the anchor, and only it ends steps.
Whenever it turns out that steps were counted by the wrong signal or the wrong anchor, they are counted anew
(`Recount`).
"""

from __future__ import annotations

from dataclasses import dataclass

from unified_profiler.launch.anchor import Anchor, Recount
from unified_profiler.model.records import StepSignal

HOLD_BACK = 4
"""Fires that a signal other than the surest waits for a better one."""
HOLD_BACK_EXPECTING = 64
"""The same once something announced that the surest signal is to be expected: an optimizer was made."""
_MOST_NOTES = 20


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A kind of signal, as the detector sees it."""

    name: str
    priority: int
    training: bool = True
    of_model: bool = True

    @property
    def order(self) -> tuple[bool, int]:
        """The smaller, the better: training before evaluation, then by priority."""
        return (not self.training, self.priority)

    @property
    def label(self) -> str:
        """The name in sentences."""
        return self.name if self.training else f"{self.name} (evaluation)"

    @property
    def surest(self) -> bool:
        """Whether there is nothing better to wait for: an optimizer's word, or that of the trainer around it."""
        return self.training and self.priority <= 0


class Detector:
    """Decides which fires of all signals end a step.

    Attributes:
        chosen: The signal that ends steps now, or would if it were not held back.
        steps: Steps counted so far.
        revision: Goes up whenever `result()` changes.
    """

    def __init__(self, *, hold_back: bool = True) -> None:
        """Make a detector; without hold back every signal ends steps from its first fire on."""
        self.chosen: Signal | None = None
        self.steps = 0
        self.revision = 0
        self._patience = HOLD_BACK if hold_back else 1
        self._expecting = False
        self._released = False
        self._replaces = False
        self._keeps = False
        self._held: list[int] = []
        self._anchor = Anchor()
        self._history: list[str] = []

    def expect_better(self) -> None:
        """Take the announcement that the surest signal is to be expected."""
        self._expecting = True

    def feed(self, signal: Signal, source: int, now_ns: int = 0) -> bool | Recount:
        """Take one fire of a signal from a source.

        Returns:
            True if it ends a step, False if not, or how the steps so far are to be counted instead.
        """
        forget = False
        if self.chosen is None or signal.order < self.chosen.order:
            forget = self._choose(signal)
        if self.chosen is None or signal.order != self.chosen.order:
            return False
        sources = len(self._anchor.sources)
        ended = self._anchor.feed(source, now_ns)
        self.revision += len(self._anchor.sources) - sources
        if self._released:
            return self._count(ended, signal)
        return self._hold(ended, now_ns) or (forget and Recount(keep=False))

    @property
    def held_back(self) -> int:
        """How many ends of steps are held back, waiting for a surer signal."""
        return 0 if self._released else len(self._held)

    def result(self) -> StepSignal | None:
        """Return what is to be written down about the signal; None if none ever ended a step."""
        if self.chosen is None or not self._released:
            return None
        return StepSignal(name=self.chosen.name, sources=len(self._anchor.sources), switches=tuple(self._history))

    def _choose(self, signal: Signal) -> bool:
        """Take a surer signal; return whether steps were counted by another one, which are void now.

        Steps stay that the surest kind of signal has ended again and again: a loop that came before a trainer's.
        """
        before, counted = self.chosen, self._released
        self._keeps = counted and before is not None and before.surest and self._anchor.fixed
        if before is not None and (counted or self._replaces):
            anew = "" if self._keeps else ", steps count anew"
            self._note(f"after step {self.steps}: {before.label} gave way to {signal.label}{anew}")
        self.chosen = signal
        self._anchor = Anchor()
        if self._keeps:
            return False
        self._held = []
        self._replaces = self._replaces or counted
        self._released = False
        self.steps = 0
        return counted

    def _hold(self, ended: bool | Recount, now_ns: int) -> bool | Recount:
        """Collect ends of steps while something better may come."""
        if isinstance(ended, Recount):
            self._held = [*(self._held if ended.keep else ()), *ended.ends]
        elif ended:
            self._held.append(now_ns)
        if not ended or len(self._held) < self._needed():
            return False
        self._released = True
        self.revision += 1
        self.steps = len(self._held)
        if self.steps == 1 and not self._replaces:
            return True
        return Recount(keep=False, ends=tuple(self._held), held_back=self._needed() > 1)

    def _count(self, ended: bool | Recount, signal: Signal) -> bool | Recount:
        if not isinstance(ended, Recount) or (self._keeps and not ended.keep):
            self.steps += bool(ended)
            return bool(ended)
        if ended.keep:
            self._note(f"after step {self.steps}: another source of {signal.label} took over")
        self.steps = len(ended.ends) + (self.steps if ended.keep else 0)
        return ended

    def _needed(self) -> int:
        if self._patience == 1 or (self.chosen is not None and self.chosen.surest):
            return 1
        return HOLD_BACK_EXPECTING if self._expecting else self._patience

    def _note(self, text: str) -> None:
        if len(self._history) < _MOST_NOTES:
            self._history.append(text)
            self.revision += 1
