"""Traverses the tree of nested events top-down, one level at a time."""

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
        """Compute the tree from the nesting of events on each thread."""
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
        """Propagate non-negative values from ancestors to descendants.

        Args:
            own: Each event's own value, -1 for none.
            outermost: Whether an ancestor's value overrides the event's own.
        """
        values = own.copy()
        if not (own >= 0).any():
            return values
        for rows, parents in self.below_roots():
            first, second = (values[parents], values[rows]) if outermost else (values[rows], values[parents])
            values[rows] = np.where(first >= 0, first, second)
        return values

    def nearest(self, rows: Ints, wanted: Flags) -> Ints:
        """Return the closest wanted event that encloses each of the rows, -1 for none."""
        ancestor = self.parent[rows]
        while len(unwanted := np.flatnonzero((ancestor >= 0) & ~wanted[ancestor])):
            ancestor[unwanted] = self.parent[ancestor[unwanted]]
        return ancestor

    def paths(self, links: Flags, names: Ints, texts: Sequence[str], *, separator: str) -> tuple[Ints, list[str]]:
        """Return for each event the path of the links that enclose or equal it, as codes and their texts."""
        path = np.full(len(links), -1, np.int64)
        path_texts: list[str] = []
        if not links.any():
            return path, path_texts
        for rows in self.levels:
            parents = self.parent[rows]
            parent_path = np.where(parents >= 0, path[parents], -1)
            path[rows] = parent_path
            is_link = links[rows]
            keys, codes = np.unique((parent_path[is_link] + 1) * len(texts) + names[rows][is_link], return_inverse=True)
            path[rows[is_link]] = len(path_texts) + codes
            for key in keys.tolist():
                prefix, name = divmod(key, len(texts))
                path_texts.append(f"{path_texts[prefix - 1]}{separator}{texts[name]}" if prefix else texts[name])
        return path, path_texts
