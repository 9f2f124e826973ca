"""Computes the nesting of events on each thread: parent, depth and self time.

Events of one (pid, tid) form a tree. If two of them overlap partly, which a tree cannot represent, the later one moves
to a lane of its own, so that every lane nests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unified_profiler.model.arrow_arrays import as_array, is_null, number_array, to_numpy
from unified_profiler.model.schema import EventTable, Kind

Ints = npt.NDArray[np.int64]

_INT16_LEVELS = 1 << 15
"""Fewer levels than this fit into 16 bits, which sort many times faster."""

_NEVER = 1 << 63
"""Later than the end of any event."""

FIRST_LANE = 1 << 40
"""First generated lane number, above any thread id of an operating system."""


@dataclass(frozen=True)
class Nesting:
    """The tree, one entry per event."""

    parent: Ints
    """Row of the enclosing event, -1 for none."""
    depth: Ints
    self_ns: Ints
    tid: Ints
    """The lane, which differs from the input where an event had to move."""


def nest(table: EventTable) -> EventTable:
    """Number the events and fill in parent, depth and self time; counters stay outside the tree."""
    columns = [int_column(table, name) for name in ("start_ns", "duration_ns", "pid", "tid")]
    is_counter = is_kind(table, Kind.COUNTER)
    nesting = _nesting_of(~is_counter, columns) if is_counter.any() else find_nesting(*columns)
    table = with_column(table, "id", np.arange(len(table), dtype=np.int64))
    table = with_column(table, "parent_id", number_array(nesting.parent, missing=nesting.parent < 0))
    table = with_column(table, "depth", nesting.depth)
    table = with_column(table, "self_ns", nesting.self_ns)
    if np.array_equal(nesting.tid, tid := columns[-1]):
        return table
    is_unknown = is_null(table.column("tid")) & (nesting.tid == tid)
    return with_column(table, "tid", number_array(nesting.tid, missing=is_unknown))


def _nesting_of(spans: npt.NDArray[np.bool_], columns: Sequence[Ints]) -> Nesting:
    """Compute the tree of some events, given their columns; the others have no parent and no child."""
    rows = np.flatnonzero(spans)
    nesting = find_nesting(*(column[rows] for column in columns))
    _, duration, _, tid = (column.copy() for column in columns)
    parent, depth = np.full(len(spans), -1, np.int64), np.zeros(len(spans), np.int64)
    parent[rows] = np.where(nesting.parent >= 0, rows[nesting.parent], -1)
    depth[rows], duration[rows], tid[rows] = nesting.depth, nesting.self_ns, nesting.tid
    return Nesting(parent=parent, depth=depth, self_ns=duration, tid=tid)


def find_nesting(start: Ints, duration: Ints, pid: Ints, tid: Ints) -> Nesting:
    """Compute the tree of each (pid, tid). Events of zero duration count as one nanosecond."""
    end = start + np.maximum(duration, 1)
    order = _sorted_rows(start, end, pid, tid)
    if np.array_equal(order, np.arange(len(order))):
        parent, depth, lane = _sorted_nesting(start, end, pid, tid)
    else:
        parent, depth, lane = (np.empty(len(order), np.int64) for _ in range(3))
        parents, depth[order], lane[order] = _sorted_nesting(start[order], end[order], pid[order], tid[order])
        parent[order] = np.where(parents >= 0, order[parents], -1)
    return Nesting(parent=parent, depth=depth, self_ns=_self_time(duration, parent), tid=lane)


def _sorted_nesting(start: Ints, end: Ints, pid: Ints, tid: Ints) -> tuple[Ints, Ints, Ints]:
    """Return parents, depths and lanes of events sorted by (pid, tid, start, -end)."""
    parent, depth, lane = np.empty(len(start), np.int64), np.empty(len(start), np.int64), tid.copy()
    free_lane = max(FIRST_LANE, int(tid.max(initial=0)) + 1)
    for group in _groups(pid, tid):
        depths, parents, nested = _tree(start[group], end[group])
        if not nested:
            moved = _lanes(start[group], end[group])
            depths, parents = _tree_of_lanes(start[group], end[group], moved)
            lane[group] = np.where(moved > 0, free_lane + moved - 1, lane[group])
            free_lane += int(moved.max(initial=0))
        depth[group] = depths
        parent[group] = parents if not group.start else np.where(parents >= 0, parents + group.start, -1)
    return parent, depth, lane


def _sorted_rows(start: Ints, end: Ints, pid: Ints, tid: Ints) -> Ints:
    """Sort by (pid, tid, start, -end). Few events start at the same time, so only those are sorted by their ends."""
    order: Ints = np.lexsort((start, tid, pid))
    starts = start[order]
    repeated = np.flatnonzero(starts[1:] == starts[:-1])
    if len(repeated):
        tied = np.union1d(repeated, repeated + 1)
        rows = order[tied]
        order[tied] = rows[np.lexsort((-end[rows], start[rows], tid[rows], pid[rows]))]
    return order


def _groups(pid: Ints, tid: Ints) -> list[slice]:
    if not len(pid):
        return []
    boundaries = np.flatnonzero((pid[1:] != pid[:-1]) | (tid[1:] != tid[:-1])) + 1
    return [slice(a, b) for a, b in pairwise([0, *boundaries.tolist(), len(pid)])]


def _tree(start: Ints, end: Ints) -> tuple[Ints, Ints, bool]:
    """Return depths and parents of events sorted by (start, -end), and whether they are right: none overlap partly.

    The events open when event i starts are all earlier ones less those that have ended by then. Its parent is the
    last earlier event one level up. If every child ends within its parent, these parents are exactly the open
    events, so nothing overlaps partly.
    """
    position = np.arange(len(start))
    # Ends are nearly in order, which the stable sort exploits
    depth = position - np.searchsorted(np.sort(end, kind="stable"), start, side="right")
    parent = np.full(len(start), -1, np.int64)
    levels = int(depth.max(initial=0)) + 1
    by_depth = np.argsort(depth.astype(np.int16) if levels < _INT16_LEVELS else depth, kind="stable")
    rows_of_level = np.split(by_depth, np.bincount(depth, minlength=levels).cumsum()[:-1])
    for upper, lower in pairwise(rows_of_level):
        parents = upper[np.searchsorted(upper, lower) - 1]
        if np.any(end[lower] > end[parents]):
            return depth, parent, False
        parent[lower] = parents
    return depth, parent, True


def _lanes(start: Ints, end: Ints) -> Ints:
    """Return the first lane in which each event nests, for events sorted by (start, -end)."""
    lane = np.zeros(len(start), np.int64)
    open_ends, others = [_NEVER], list[list[int]]()
    for row, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_ends[-1] <= begin:
            open_ends.pop()
        if finish <= open_ends[-1]:
            open_ends.append(finish)
        else:
            lane[row] = _other_lane(others, begin, finish)
    return lane


def _other_lane(lanes: list[list[int]], begin: int, finish: int) -> int:
    """Return the number, from 1, of the first of the lanes in which an event nests, or of a new one.

    Args:
        lanes: The ends of the open events of each lane, the innermost last.
        begin: Start of the event.
        finish: End of the event.
    """
    for number, open_ends in enumerate(lanes, 1):
        while open_ends[-1] <= begin:
            open_ends.pop()
        if finish <= open_ends[-1]:
            open_ends.append(finish)
            return number
    lanes.append([_NEVER, finish])
    return len(lanes)


def _tree_of_lanes(start: Ints, end: Ints, lane: Ints) -> tuple[Ints, Ints]:
    """Return depths and parents of events that nest in their lanes."""
    depth, parent = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    for rows in np.split(np.argsort(lane, kind="stable"), np.bincount(lane).cumsum()[:-1]):
        depth[rows], parents, _ = _tree(start[rows], end[rows])
        parent[rows] = np.where(parents >= 0, rows[parents], -1)
    return depth, parent


def _self_time(duration: Ints, parent: Ints) -> Ints:
    # the first entry is the time of the roots
    spent = np.bincount(parent + 1, weights=duration, minlength=len(duration) + 1)[1:]
    return duration - spent.astype(np.int64)


def whole_numbers(column: pa.ChunkedArray, *, null: int = -1) -> Ints:
    """Return a column of integers as a read-only array, which may share the column's memory."""
    values: Ints = to_numpy(column, null=null).astype(np.int64, copy=False)
    return values


def int_column(table: pa.Table, name: str) -> Ints:
    """Return an integer column of a table as a read-only array, -1 for nulls."""
    return whole_numbers(table.column(name))


def text_codes(table: EventTable, name: str) -> tuple[Ints, list[str]]:
    """Return the dictionary codes of a text column, -1 for nulls, and the texts."""
    column = table.column(name).unify_dictionaries().combine_chunks()
    return whole_numbers(column.indices), column.dictionary.to_pylist()


def has_text(table: EventTable, name: str, text: str) -> npt.NDArray[np.bool_]:
    """Flag the events that have a text in a column."""
    codes, texts = text_codes(table, name)
    flags: npt.NDArray[np.bool_] = codes == (texts.index(text) if text in texts else -2)
    return flags


def is_kind(table: EventTable, kind: Kind) -> npt.NDArray[np.bool_]:
    """Flag the events of a kind."""
    return has_text(table, "kind", kind.value)


def with_column(table: EventTable, name: str, values: Any) -> EventTable:
    """Return the table with the values of a column replaced."""
    index = table.schema.get_field_index(name)
    field = table.schema.field(index)
    return table.set_column(index, field, as_array(values).cast(field.type))
