"""Finds events that overlap others of their lane partly, which no tree can show."""

from __future__ import annotations

import numpy as np

from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags


def overlapping(start: Ints, end: Ints, lane: Ints, candidates: Flags) -> Flags:
    """Say which of the candidates overlap partly with another event of their lane."""
    found = np.zeros(len(start), np.bool_)
    end = np.maximum(end, start + 1)
    for number in np.unique(lane[candidates]).tolist():
        here = np.flatnonzero(lane == number)
        mine = here[candidates[here]]
        later_end = _largest(start[here], end[here], start[mine] + 1, end[mine])
        earlier_start = -_largest(end[here], -start[here], start[mine] + 1, end[mine])
        found[mine] = (later_end > end[mine]) | (earlier_start < start[mine])
    return found


def _largest(keys: Ints, values: Ints, first: Ints, last: Ints) -> Ints:
    """Return, for each range of keys, the last excluded, the largest of their values; the smallest number for none."""
    order = np.argsort(keys, kind="stable")
    keys, table = keys[order], [values[order]]
    while len(table[-1]) > 1 << (len(table) - 1):  # table[n][i] is the largest of the 2**n values from i on
        step = 1 << (len(table) - 1)
        table.append(np.maximum(table[-1][:-step], table[-1][step:]))
    begin, finish = np.searchsorted(keys, first), np.searchsorted(keys, last)
    length = finish - begin
    found = np.full(len(first), np.iinfo(np.int64).min + 1)
    for level, largest in enumerate(table):
        step = 1 << level
        fits = np.flatnonzero((length >= step) & (length < 2 * step))
        found[fits] = np.maximum(largest[begin[fits]], largest[finish[fits] - step])
    return found
