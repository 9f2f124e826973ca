"""Determines when the first step of a script began. The time before it, with imports and set-up, is the start-up."""

from __future__ import annotations

from dataclasses import dataclass, field

_MAX_LOOPS = 1000
_FOREVER_NS = 1 << 63


@dataclass
class FirstStep:
    """Collects the beginnings of loops and of calls of models.

    A script may evaluate, or take a batch to look at, before it trains. So the first step began with the last loop
    before its end, or with the first call if there is none; those of training take precedence.
    """

    _loops: list[tuple[bool, int]] = field(default_factory=list)
    """For each loop, whether it trains, and when it began."""
    _calls: dict[bool, int] = field(default_factory=dict)
    """When the first call in training and the first one in evaluation began."""

    def loop_begins(self, now_ns: int, *, training: bool) -> None:
        """A loop of a trainer, or over batches, begins."""
        if len(self._loops) < _MAX_LOOPS:
            self._loops.append((training, now_ns))

    def call_begins(self, now_ns: int, *, training: bool) -> None:
        """An outermost call of a model begins."""
        self._calls.setdefault(training, now_ns)

    def began(self, end_ns: int | None = None) -> int | None:
        """Return when the first step began, given its end if it has ended; None if that is not known."""
        latest = _FOREVER_NS if end_ns is None else end_ns
        for wanted in (True, False):
            loops = [begin for training, begin in self._loops if training is wanted and begin <= latest]
            calls = [begin for training, begin in self._calls.items() if training is wanted and begin <= latest]
            if loops or calls:
                return loops[-1] if loops else calls[0]
        return None
