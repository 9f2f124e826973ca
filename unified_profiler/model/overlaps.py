"""Finds events that overlap others of their lane partly, which a tree cannot represent."""

from __future__ import annotations

import numpy as np

from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags


def overlapping(start: Ints, end: Ints, lane: Ints, candidates: Flags) -> Flags:
    """Flag the candidates that overlap partly with another event of their lane."""
    flags = np.zeros(len(start), np.bool_)
    end = np.maximum(end, start + 1)
    for number in np.unique(lane[candidates]).tolist():
        rows = np.flatnonzero(lane == number)
        tested = rows[candidates[rows]]
        latest_end = _range_maximum(start[rows], end[rows], start[tested] + 1, end[tested])
        earliest_start = -_range_maximum(end[rows], -start[rows], start[tested] + 1, end[tested])
        flags[tested] = (latest_end > end[tested]) | (earliest_start < start[tested])
    return flags


def _range_maximum(keys: Ints, values: Ints, first: Ints, last: Ints) -> Ints:
    """Return the largest value for each half-open range of keys, by a sparse table; the smallest integer for none."""
    order = np.argsort(keys, kind="stable")
    keys, table = keys[order], [values[order]]
    while len(table[-1]) > 1 << (len(table) - 1):  # table[n][i] is the largest of the 2**n values from i on
        step = 1 << (len(table) - 1)
        table.append(np.maximum(table[-1][:-step], table[-1][step:]))
    begin, finish = np.searchsorted(keys, first), np.searchsorted(keys, last)
    length = finish - begin
    maximum = np.full(len(first), np.iinfo(np.int64).min + 1)
    for level, largest in enumerate(table):
        step = 1 << level
        fits = np.flatnonzero((length >= step) & (length < 2 * step))
        maximum[fits] = np.maximum(largest[begin[fits]], largest[finish[fits] - step])
    return maximum
