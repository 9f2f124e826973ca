"""Which event of some sort encloses which, by row, and what that leaves each of them of its time."""

from __future__ import annotations

import numpy as np

from unified_profiler.analysis.columns import Flags, ints
from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable


def parent_rows(events: EventTable) -> Ints:
    """Return the row of each event's parent, -1 where it is not there. The events are those of one trace."""
    ids, parents = ints(events, "id"), ints(events, "parent_id")
    if np.array_equal(ids, np.arange(len(ids))):
        return np.where((parents >= 0) & (parents < len(ids)), parents, -1)
    return look_up(parents, ids)


def nearest(start: Ints, *, parent: Ints, wanted: Flags) -> Ints:
    """Climb from each start until a wanted row is reached."""
    found = start.copy()
    rows = np.flatnonzero(found >= 0)
    while len(rows := rows[~wanted[found[rows]]]):
        found[rows] = parent[found[rows]]
        rows = rows[found[rows] >= 0]
    return found


def within(amount: Ints, parent: Ints) -> Ints:
    """Return for each row the sum of the amounts of all rows that it encloses, however deep."""
    total = np.zeros_like(amount)
    source = np.flatnonzero(amount)
    above = parent[source]
    while len(reached := np.flatnonzero(above >= 0)):
        source, above = source[reached], above[reached]
        np.add.at(total, above, amount[source])
        above = parent[above]
    return total


def self_time(duration: Ints, parent: Ints, node: Flags) -> Ints:
    """Return the duration of each node less that of the nodes whose parent it is."""
    children = np.flatnonzero(node & (parent >= 0))
    spent = np.bincount(parent[children], weights=duration[children], minlength=len(duration))
    return np.where(node, duration - spent.astype(np.int64), 0)
