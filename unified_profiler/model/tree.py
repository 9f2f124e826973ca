"""Walking the tree of nested events from the top down, a whole level at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from unified_profiler.model.nesting import Ints, find_nesting

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Tree:
    """Parent and depth of every event."""

    parent: Ints
    depth: Ints

    @classmethod
    def of(cls, start: Ints, duration: Ints, pid: Ints, tid: Ints) -> Tree:
        """Find the tree of events by nesting on each thread."""
        nesting = find_nesting(start, duration, pid, tid)
        return cls(nesting.parent, nesting.depth)

    @cached_property
    def levels(self) -> tuple[Ints, ...]:
        """The rows of each depth, outermost first."""
        order = np.argsort(self.depth.astype(np.int16), kind="stable")
        edges = np.searchsorted(self.depth[order], np.arange(int(self.depth.max(initial=0)) + 2))
        return tuple(order[a:b] for a, b in pairwise(edges.tolist()))

    def below_roots(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield the rows of each level but the first, and their parents."""
        for rows in self.levels[1:]:
            yield rows, self.parent[rows]

    def inherit(self, own: Ints, *, outermost: bool) -> Ints:
        """Hand values of at least 0 down the tree.

        Args:
            own: Each event's own value, -1 for none.
            outermost: Whether an ancestor's value beats the event's own.
        """
        found = own.copy()
        for rows, parents in self.below_roots():
            above, here = found[parents], found[rows]
            found[rows] = np.where(above >= 0, above, here) if outermost else np.where(here >= 0, here, above)
        return found

    def nearest(self, rows: Ints, wanted: Flags) -> Ints:
        """Return the closest wanted event that encloses each of the rows, -1 for none."""
        found = self.parent[rows]
        while len(climbing := np.flatnonzero((found >= 0) & ~wanted[found])):
            found[climbing] = self.parent[found[climbing]]
        return found

    def paths(self, links: Flags, names: Ints, texts: Sequence[str], *, separator: str) -> tuple[Ints, list[str]]:
        """Return for each event the path of the links that enclose it, itself included, as numbers and their texts."""
        path = np.full(len(links), -1, np.int64)
        known: list[str] = []
        for rows in self.levels:
            parents = self.parent[rows]
            above = np.where(parents >= 0, path[parents], -1)
            path[rows] = above
            is_link = links[rows]
            keys, codes = np.unique((above[is_link] + 1) * len(texts) + names[rows][is_link], return_inverse=True)
            path[rows[is_link]] = len(known) + codes
            for key in keys.tolist():
                before, name = divmod(key, len(texts))
                known.append(f"{known[before - 1]}{separator}{texts[name]}" if before else texts[name])
        return path, known
