"""Decides which of several senders of one signal ends steps, for example of two optimizers in an iteration."""

from __future__ import annotations

from dataclasses import dataclass, field

_MAX_SOURCES = 10_000
"""Number of sources to remember: a script that creates a new model in each step must not fill the memory."""


@dataclass(frozen=True, kw_only=True)
class Recount:
    """A correction of the steps counted so far.

    Attributes:
        keep: Whether the steps counted so far are kept and the ones below added.
        ends: End of each step in nanoseconds; the last one ends now.
        held_back: Whether these steps were held back to wait for a more reliable signal.
    """

    keep: bool
    ends: tuple[int, ...] = ()
    held_back: bool = False


@dataclass
class Anchor:
    """The source of a signal that ends steps.

    At first each new source becomes the anchor, so that the last optimizer of an iteration ends it. The anchor is fixed
    once a source repeats: the anchor itself, or another source that fires twice between two signals of the anchor and
    so is more frequent. After that, another source takes over if it fires twice while the anchor is silent.
    """

    source: int | None = None
    fixed: bool = False
    sources: set[int] = field(default_factory=set)
    _times: dict[int, list[int]] = field(default_factory=dict)
    """Times at which each source fired, until the anchor is fixed."""
    _since_anchor: dict[int, int] = field(default_factory=dict)
    """Time of the first signal of each other source since the last one of the anchor."""

    def feed(self, source: int, now_ns: int) -> bool | Recount:
        """Process one signal of a source; return whether it ends a step, or a correction of the steps so far."""
        new = source not in self.sources
        if len(self.sources) < _MAX_SOURCES:
            self.sources.add(source)
        if self.fixed:
            return self._feed_fixed(source, now_ns)
        if len(self._times) < _MAX_SOURCES or not new:
            self._times.setdefault(source, []).append(now_ns)
        return self._feed_unfixed(source, now_ns, new=new)

    def _feed_unfixed(self, source: int, now_ns: int, *, new: bool) -> bool | Recount:
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
        """Fix the anchor; recount if another source ended the only step so far."""
        is_only_source = len(self._times) == 1
        ends = tuple(self._times.get(source, ()))
        self.source, self.fixed = source, True
        self._times.clear()
        self._since_anchor.clear()
        return is_only_source or Recount(keep=False, ends=ends)

    def _feed_fixed(self, source: int, now_ns: int) -> bool | Recount:
        if source == self.source:
            self._since_anchor.clear()
            return True
        if source not in self._since_anchor:
            if len(self._since_anchor) < _MAX_SOURCES:
                self._since_anchor[source] = now_ns
            return False
        ends = (self._since_anchor[source], now_ns)
        self.source = source
        self._since_anchor.clear()
        return Recount(keep=True, ends=ends)
