"""Which of several objects that send the same signal ends steps: of two optimizers in an iteration, say."""

from __future__ import annotations

from dataclasses import dataclass, field

_MOST_SOURCES = 10_000
"""Sources are remembered up to this number: a script that makes a new model in each step must not fill the memory."""


@dataclass(frozen=True, kw_only=True)
class Recount:
    """How steps are to be counted instead of as they were.

    Attributes:
        keep: Whether the steps counted so far stay, and those below are added.
        ends: When each of them ended, in nanoseconds; the last one ends now.
        held_back: Whether these steps were held back to wait for a surer signal.
    """

    keep: bool
    ends: tuple[int, ...] = ()
    held_back: bool = False


@dataclass
class Anchor:
    """Decides, among the sources of one signal, which one ends steps.

    While it learns each new source takes over, so that the last optimizer of an iteration ends it, until a source
    repeats: the anchor itself, or another one twice while the anchor is silent, which then is the more frequent one.
    After that another source takes over if it fires twice while the anchor is silent.
    """

    source: int | None = None
    fixed: bool = False
    sources: set[int] = field(default_factory=set)
    _times: dict[int, list[int]] = field(default_factory=dict)
    """When each source fired, while the anchor is being learned."""
    _since_anchor: dict[int, int] = field(default_factory=dict)
    """When other sources fired first after the anchor did."""

    def feed(self, source: int, now_ns: int) -> bool | Recount:
        """Take one fire of a source; return whether it ends a step, or how to count the steps so far instead."""
        new = source not in self.sources
        if len(self.sources) < _MOST_SOURCES:
            self.sources.add(source)
        if self.fixed:
            return self._while_fixed(source, now_ns)
        if len(self._times) < _MOST_SOURCES or not new:
            self._times.setdefault(source, []).append(now_ns)
        return self._while_learning(source, now_ns, new=new)

    def _while_learning(self, source: int, now_ns: int, *, new: bool) -> bool | Recount:
        if new:
            first = self.source is None
            self.source = source
            self._since_anchor.clear()
            return first
        if source == self.source or source in self._since_anchor:
            return self._fix(source)
        self._since_anchor[source] = now_ns
        return False

    def _fix(self, source: int) -> bool | Recount:
        """Have a source end steps from now on; recount if it was not it that ended the one step counted so far."""
        only_one = len(self._times) == 1
        ends = tuple(self._times.get(source, ()))
        self.source, self.fixed = source, True
        self._times.clear()
        self._since_anchor.clear()
        return only_one or Recount(keep=False, ends=ends)

    def _while_fixed(self, source: int, now_ns: int) -> bool | Recount:
        if source == self.source:
            self._since_anchor.clear()
            return True
        if source not in self._since_anchor:
            if len(self._since_anchor) < _MOST_SOURCES:
                self._since_anchor[source] = now_ns
            return False
        ends = (self._since_anchor[source], now_ns)
        self.source = source
        self._since_anchor.clear()
        return Recount(keep=True, ends=ends)
