"""Walking the tree of nested events from the top down, a whole level at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from unified_profiler.model.nesting import Ints, find_nesting
from unified_profiler_tensorflow.xplane_columns import Flags


@dataclass(frozen=True)
class Tree:
    """Parent and depth of every event."""

    parent: Ints
    depth: Ints

    @classmethod
    def of(cls, start: Ints, duration: Ints, pid: Ints, tid: Ints) -> Tree:
        """Find the tree of events by nesting on each lane."""
        nesting = find_nesting(start, duration, pid, tid)
        return cls(nesting.parent, nesting.depth)

    @cached_property
    def levels(self) -> tuple[Ints, ...]:
        """The rows of each depth, outermost first."""
        order = np.argsort(self.depth, kind="stable")
        edges = np.searchsorted(self.depth[order], np.arange(int(self.depth.max(initial=0)) + 2))
        return tuple(order[a:b] for a, b in pairwise(edges.tolist()))

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
