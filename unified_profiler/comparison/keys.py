"""Keys of diff rows: a name with a direction, as one integer code per event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from unified_profiler.analysis.columns import Flags, coded
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable

Key: TypeAlias = tuple[str | None, str | None]
"""A name and a direction, either of which may be None."""


@dataclass(frozen=True)
class Keys:
    """One code per event, into distinct keys."""

    codes: Ints
    values: list[Key]

    def of(self, rows: Flags) -> Keys:
        """Return the keys of some events."""
        return Keys(self.codes[rows], self.values)

    def replaced(self, rows: Flags, key: Key) -> Keys:
        """Return the keys, with another key for some events."""
        return Keys(np.where(rows, len(self.values), self.codes), [*self.values, key]).distinct()

    def renamed(self, rows: Flags, name: str) -> Keys:
        """Return the keys, with another name and the same direction for some events."""
        named = [*self.values, *((name, direction) for _, direction in self.values)]
        return Keys(np.where(rows, self.codes + len(self.values), self.codes), named).distinct()

    def mapped(self, function: Callable[[Key], Key]) -> Keys:
        """Return the keys with a function applied to each."""
        return Keys(self.codes, [function(key) for key in self.values]).distinct()

    def distinct(self) -> Keys:
        """Merge equal keys and drop unused ones."""
        number: dict[Key, int] = {}
        used = np.bincount(self.codes, minlength=len(self.values)) > 0
        new = np.array(
            [number.setdefault(key, len(number)) if use else -1 for key, use in zip(self.values, used, strict=True)],
            np.int64,
        )
        return Keys(new[self.codes] if len(self.codes) else self.codes, list(number))


def column_keys(events: EventTable, name: str, direction: str | None = None) -> Keys:
    """Return a column of names as keys, with the directions of a second column if one is given."""
    codes, names = _with_null_code(events, name)
    if direction is None:
        return Keys(codes, [(text, None) for text in names]).distinct()
    direction_codes, directions = _with_null_code(events, direction)
    return Keys(codes * len(directions) + direction_codes, list(product(names, directions))).distinct()


def _with_null_code(events: EventTable, column: str) -> tuple[Ints, list[str | None]]:
    """Return a text column as codes and values, of which the last one is None."""
    texts = coded(events, column)
    codes = np.where(texts.codes < 0, len(texts.values), texts.codes).astype(np.int64)
    return codes, [*texts.values, None]
