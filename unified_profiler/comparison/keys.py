"""Keys of rows: texts with a direction, as codes into the distinct ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unified_profiler.analysis.columns import Flags, coded
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable

Key: TypeAlias = tuple[str | None, str | None]
"""A name and a direction, each of which may be missing."""


@dataclass(frozen=True)
class Keys:
    """One code per event, into distinct keys."""

    codes: Ints
    values: list[Key]

    def of(self, rows: Flags) -> Keys:
        """Return those of some events."""
        return Keys(self.codes[rows], self.values)

    def replaced(self, rows: Flags, key: Key) -> Keys:
        """Return the keys with another one for some events."""
        return Keys(np.where(rows, len(self.values), self.codes), [*self.values, key]).distinct()

    def renamed(self, rows: Flags, name: str) -> Keys:
        """Return the keys with another name for some events, in the direction that each has."""
        named = [*self.values, *((name, direction) for _, direction in self.values)]
        return Keys(np.where(rows, self.codes + len(self.values), self.codes), named).distinct()

    def mapped(self, function: Callable[[Key], Key]) -> Keys:
        """Return what a function makes of each key."""
        return Keys(self.codes, [function(key) for key in self.values]).distinct()

    def distinct(self) -> Keys:
        """Return the same with each key once, and only those that occur."""
        number: dict[Key, int] = {}
        used = np.bincount(self.codes, minlength=len(self.values)) > 0
        new = np.array(
            [number.setdefault(key, len(number)) if use else -1 for key, use in zip(self.values, used, strict=True)],
            np.int64,
        )
        return Keys(new[self.codes] if len(self.codes) else self.codes, list(number))


def combined(events: EventTable, name: str, direction: str | None = None) -> Keys:
    """Return a text column as keys, together with a second one if there is one to tell directions by."""
    names = coded(events, name)
    known: list[str | None] = [*names.values, None]  # the code -1 is the last one
    codes = np.where(names.codes < 0, len(names.values), names.codes).astype(np.int64)
    if direction is None:
        return Keys(codes, [(text, None) for text in known]).distinct()
    ways = coded(events, direction)
    known_ways: list[str | None] = [*ways.values, None]
    codes = codes * len(known_ways) + np.where(ways.codes < 0, len(ways.values), ways.codes)
    return Keys(codes, [(text, way) for text in known for way in known_ways]).distinct()
