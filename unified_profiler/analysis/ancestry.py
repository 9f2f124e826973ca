"""Finds the enclosing events of each event, by row, and computes self times from them."""

from __future__ import annotations

import numpy as np

from unified_profiler.analysis.columns import Flags, ints
from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable


def parent_rows(events: EventTable) -> Ints:
    """Return the row of each event's parent in one trace, -1 if it has none."""
    ids, parents = ints(events, "id"), ints(events, "parent_id")
    if np.array_equal(ids, np.arange(len(ids))):
        return np.where((parents >= 0) & (parents < len(ids)), parents, -1)
    return look_up(parents, ids)


def nearest(start: Ints, *, parent: Ints, wanted: Flags) -> Ints:
    """Return the first wanted row on the way from each start to its root, -1 if there is none."""
    reached = start.copy()
    rows = np.flatnonzero(reached >= 0)
    while len(rows := rows[~wanted[reached[rows]]]):
        reached[rows] = parent[reached[rows]]
        rows = rows[reached[rows] >= 0]
    return reached


def within(amount: Ints, parent: Ints) -> Ints:
    """Return for each row the sum of the amounts of all its descendants."""
    total = np.zeros_like(amount)
    source = np.flatnonzero(amount)
    ancestor = parent[source]
    while len(rows := np.flatnonzero(ancestor >= 0)):
        source, ancestor = source[rows], ancestor[rows]
        np.add.at(total, ancestor, amount[source])
        ancestor = parent[ancestor]
    return total


def self_time(duration: Ints, parent: Ints, node: Flags) -> Ints:
    """Return the duration of each node less that of its child nodes."""
    children = np.flatnonzero(node & (parent >= 0))
    spent = np.bincount(parent[children], weights=duration[children], minlength=len(duration))
    return np.where(node, duration - spent.astype(np.int64), 0)
