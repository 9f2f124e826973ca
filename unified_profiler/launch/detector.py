"""Which of the signals that a framework sends ends a step: pure rules, no hooks and no profiler.

Signals are ranked; a better one that fires replaces a worse one, and worse ones wait a while for it. Among the objects
that send the chosen signal one is the anchor, and only it ends steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from unified_profiler.model.records import StepSignal

HOLD_BACK = 4
"""Fires that a signal other than the surest waits for a better one."""
HOLD_BACK_EXPECTING = 64
"""The same once something announced that the surest signal is to be expected: an optimizer was made."""
_MOST_SOURCES = 10_000
"""Sources are remembered up to this number: a script that makes a new model in each step must not fill the memory."""
_MOST_NOTES = 20


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A kind of signal, as the detector sees it."""

    name: str
    rank: int
    training: bool = True

    @property
    def order(self) -> tuple[bool, int]:
        """The smaller, the better: training before evaluation, then by rank."""
        return (not self.training, self.rank)

    @property
    def label(self) -> str:
        """The name in sentences."""
        return self.name if self.training else f"{self.name} (evaluation)"

    @property
    def surest(self) -> bool:
        """Whether there is nothing better to wait for: an optimizer's word, or that of the trainer around it."""
        return self.training and self.rank <= 0


@dataclass
class Anchor:
    """Decides, among the sources of one signal, which one ends steps.

    In the first round each new source takes over, so that the last optimizer of a step ends it. Once the anchor has
    repeated it is fixed; another source that fires twice while it is silent takes over.
    """

    source: int | None = None
    fixed: bool = False
    takeovers: int = 0
    sources: set[int] = field(default_factory=set)
    _since_anchor: set[int] = field(default_factory=set)

    def ends_step(self, source: int) -> bool:
        """Take one fire of a source; say whether it ends a step."""
        new = source not in self.sources
        if len(self.sources) < _MOST_SOURCES:
            self.sources.add(source)
        if source == self.source:
            self.fixed = True
            self._since_anchor.clear()
            return True
        if not self.fixed:
            return self._in_first_round(source, new=new)
        return self._while_fixed(source)

    def _in_first_round(self, source: int, *, new: bool) -> bool:
        if not new:
            return False
        first = self.source is None
        self.source = source
        return first

    def _while_fixed(self, source: int) -> bool:
        if source not in self._since_anchor:
            if len(self._since_anchor) < _MOST_SOURCES:
                self._since_anchor.add(source)
            return False
        self.source = source
        self.takeovers += 1
        self._since_anchor.clear()
        return True


class Detector:
    """Takes the fires of all signals and says which of them end a step.

    Attributes:
        chosen: The signal that ends steps now, or would if it were not held back.
        steps: Steps found so far, those included that passed while the signal was held back.
        held: How many of them passed while the signal was held back: they were not told apart.
        revision: Goes up whenever `result()` changes.
    """

    def __init__(self, *, hold_back: bool = True) -> None:
        """Make a detector; without hold back every signal ends steps from its first fire on."""
        self.chosen: Signal | None = None
        self.steps = 0
        self.held = 0
        self.revision = 0
        self._patience = HOLD_BACK if hold_back else 1
        self._expecting = False
        self._released = False
        self._waiting = 0
        self._anchor = Anchor()
        self._switches: list[str] = []

    def expect_better(self) -> None:
        """Take the announcement that the surest signal is to be expected."""
        self._expecting = True

    def feed(self, signal: Signal, source: int) -> bool:
        """Take one fire of a signal from a source; say whether it ends a step."""
        if self.chosen is None or signal.order < self.chosen.order:
            counted = self._released
            self._choose(signal)
            if counted:  # the signal that gave way has already ended this step
                self._anchor.ends_step(source)
                return False
        if signal != self.chosen:
            return False
        sources, takeovers = len(self._anchor.sources), self._anchor.takeovers
        ends = self._anchor.ends_step(source)
        if self._anchor.takeovers > takeovers and self.steps:
            self._note(f"after step {self.steps}: another source of {signal.label} took over")
        self.revision += len(self._anchor.sources) - sources
        return ends and self._count(signal)

    def result(self) -> StepSignal | None:
        """Return what is to be written down about the signal; None if none ever ended a step."""
        if self.chosen is None or not self._released:
            return None
        return StepSignal(
            name=self.chosen.name, sources=len(self._anchor.sources), switches=(*self._held_note(), *self._switches)
        )

    def _choose(self, signal: Signal) -> None:
        if self._released and self.chosen is not None:
            self._note(f"after step {self.steps}: {self.chosen.label} gave way to {signal.label}")
        self.chosen = signal
        self._anchor = Anchor()
        self._waiting = 0

    def _count(self, signal: Signal) -> bool:
        """Count one end of a step; hold it back while something better may come."""
        if self._released or signal.surest:
            self.revision += not self._released
            self._released = True
            self.steps += 1
            return True
        self._waiting += 1
        if self._waiting < self._needed():
            return False
        self._released = True
        self.revision += 1
        self.steps, self.held = self._waiting, self._waiting
        return True

    def _needed(self) -> int:
        if self._patience == 1:
            return 1
        return HOLD_BACK_EXPECTING if self._expecting else self._patience

    def _held_note(self) -> tuple[str, ...]:
        if self.held <= 1:
            return ()
        return (f"the first {self.held} steps count as one: a surer signal was waited for",)

    def _note(self, text: str) -> None:
        if len(self._switches) < _MOST_NOTES:
            self._switches.append(text)
            self.revision += 1
