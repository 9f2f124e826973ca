"""Who encloses whom on each thread: parent, depth and self time of every event.

Events of one (pid, tid) form a tree. Where two of them overlap partly, which no tree can show, the later one is moved
to a lane of its own, so that afterwards every lane nests.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.schema import EventTable, Kind

Ints = npt.NDArray[np.int64]

_DEEP = 1 << 15
"""Levels up to here fit into 16 bits, which sort many times faster."""

FIRST_LANE = 1 << 40
"""Lane numbers made here start above every thread id an operating system hands out."""


@dataclass(frozen=True)
class Nesting:
    """The tree, one entry per event."""

    parent: Ints
    """Row of the enclosing event, -1 without one."""
    depth: Ints
    self_ns: Ints
    tid: Ints
    """The lane, which differs from the given one where an event had to move."""


def nest(table: EventTable) -> EventTable:
    """Number the events and fill in parent, depth and self time; counters stay outside the tree."""
    rows = len(table)
    spans = np.flatnonzero(~of_kind(table, Kind.COUNTER)) if rows else np.empty(0, np.int64)
    start, duration = _ints(table, "start_ns"), _ints(table, "duration_ns")
    pid, tid = _ints(table, "pid"), _ints(table, "tid")
    part = find_nesting(start[spans], duration[spans], pid[spans], tid[spans])
    parent = np.full(rows, -1, np.int64)
    parent[spans] = np.where(part.parent >= 0, spans[part.parent], -1) if len(spans) else part.parent
    depth, self_ns = np.zeros(rows, np.int64), duration.copy()
    depth[spans], self_ns[spans] = part.depth, part.self_ns
    table = with_column(table, "id", np.arange(rows, dtype=np.int64))
    table = with_column(table, "parent_id", pa.array(parent, mask=parent < 0))
    table = with_column(table, "depth", depth)
    table = with_column(table, "self_ns", self_ns)
    if np.array_equal(part.tid, tid[spans]):
        return table
    lanes, nowhere = tid.copy(), table.column("tid").is_null().to_numpy()
    lanes[spans] = part.tid
    return with_column(table, "tid", pa.array(lanes, mask=nowhere & (lanes == tid)))


def find_nesting(start: Ints, duration: Ints, pid: Ints, tid: Ints) -> Nesting:
    """Find the tree of each (pid, tid). An event that lasts no time counts as lasting one nanosecond."""
    rows = len(start)
    end = start + np.maximum(duration, 1)
    order = _in_order(start, end, pid, tid)
    parent, depth, lane = np.full(rows, -1, np.int64), np.zeros(rows, np.int64), tid.copy()
    spare = max(FIRST_LANE, int(tid.max(initial=0)) + 1)
    for group in _groups(pid[order], tid[order]):
        members = order[group]
        found_depth, found_parent = _fast_tree(start[members], end[members])
        if found_parent is None:
            found_depth, found_parent, moved = _slow_tree(start[members], end[members])
            lane[members] = np.where(moved > 0, spare + moved - 1, lane[members])
            spare += int(moved.max(initial=0))
        depth[members] = found_depth
        parent[members] = np.where(found_parent >= 0, members[found_parent], -1)
    return Nesting(parent=parent, depth=depth, self_ns=_self_time(duration, parent), tid=lane)


def _in_order(start: Ints, end: Ints, pid: Ints, tid: Ints) -> Ints:
    """Sort by (pid, tid, start, -end). Files are nearly in order of time, so only ties are sorted by their ends."""
    order: Ints = np.lexsort((start, tid, pid))
    begins = start[order]
    again = np.flatnonzero(begins[1:] == begins[:-1])
    if len(again):
        tied = np.union1d(again, again + 1)
        rows = order[tied]
        order[tied] = rows[np.lexsort((-end[rows], start[rows], tid[rows], pid[rows]))]
    return order


def _groups(pid: Ints, tid: Ints) -> list[slice]:
    if not len(pid):
        return []
    borders = np.flatnonzero((np.diff(pid) != 0) | (np.diff(tid) != 0)) + 1
    edges = [0, *borders.tolist(), len(pid)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _fast_tree(start: Ints, end: Ints) -> tuple[Ints, Ints | None]:
    """Find the tree of events sorted by (start, -end), or None for the parents if some overlap partly.

    The events open when event i starts are all earlier ones less those that have ended by then; the parent is the
    last one before it that is one level up. If every child then ends within its parent, those parents are exactly
    the open events, so nothing overlaps partly.
    """
    position = np.arange(len(start))
    depth = position - np.searchsorted(np.sort(end), start, side="right")
    parent = np.full(len(start), -1, np.int64)
    levels = int(depth.max(initial=0)) + 1
    by_depth = np.argsort(depth.astype(np.int16) if levels < _DEEP else depth, kind="stable")
    edges = np.searchsorted(depth[by_depth], np.arange(levels + 1))
    for level in range(1, len(edges) - 1):
        above, here = by_depth[edges[level - 1] : edges[level]], by_depth[edges[level] : edges[level + 1]]
        parent[here] = above[np.searchsorted(above, here) - 1]
    children = np.flatnonzero(parent >= 0)
    if np.all(end[children] <= end[parent[children]]):
        return depth, parent
    return depth, None


def _slow_tree(start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Find the tree with a stack per lane; an event goes to the first lane in which it fits."""
    depth, parent, lane = (np.zeros(len(start), np.int64) for _ in range(3))
    lanes: list[list[int]] = [[]]
    for i, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        lane[i] = _fitting_lane(lanes, end, begin, finish)
        stack = lanes[lane[i]]
        depth[i], parent[i] = len(stack), stack[-1] if stack else -1
        stack.append(i)
    return depth, parent, lane


def _fitting_lane(lanes: list[list[int]], end: Ints, begin: int, finish: int) -> int:
    """Return the first lane in which an event nests, a new one if there is none; ended events leave their stacks."""
    for number, stack in enumerate(lanes):
        while stack and end[stack[-1]] <= begin:
            stack.pop()
        if not stack or finish <= end[stack[-1]]:
            return number
    lanes.append([])
    return len(lanes) - 1


def _self_time(duration: Ints, parent: Ints) -> Ints:
    children = np.flatnonzero(parent >= 0)
    if not len(children):
        return duration.copy()
    spent = np.bincount(parent[children], weights=duration[children], minlength=len(duration))
    return duration - spent.astype(np.int64)


def _ints(table: EventTable, name: str) -> Ints:
    return whole_numbers(table.column(name))


def whole_numbers(column: pa.ChunkedArray, *, null: int = -1) -> Ints:
    """Return a column of integers; not to be written to, since it may be the column's own memory."""
    filled = column.fill_null(null) if column.null_count else column
    values: Ints = filled.to_numpy().astype(np.int64, copy=False)
    return values


def of_kind(table: EventTable, kind: Kind) -> npt.NDArray[np.bool_]:
    """Say which events are of a kind, by the codes of the column rather than its texts."""
    column = table.column("kind").unify_dictionaries().combine_chunks()
    if not len(column):
        return np.zeros(0, np.bool_)
    flags: npt.NDArray[np.bool_] = column.indices.to_numpy() == column.dictionary.index(kind.value).as_py()
    return flags


def with_column(table: EventTable, name: str, values: Any) -> EventTable:
    """Return the table with other values in a column; None stands for no value at all."""
    index = table.schema.get_field_index(name)
    field = table.schema.field(index)
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return table.set_column(index, field, array.cast(field.type))
