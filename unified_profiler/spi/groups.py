"""Numbers the distinct lists of codes that belong to events: the stats of each event, the outputs of each node."""

from __future__ import annotations

import numpy as np

from unified_profiler.model.columns import Index, encode
from unified_profiler.model.nesting import Ints


def group_codes(owner: Ints, code: Ints, count: int, groups: Index) -> Ints:
    """Return the number of each owner's list of codes in `groups`, whose keys are tuples of codes.

    Args:
        owner: The owner of each code, in ascending order.
        code: The codes.
        count: The number of owners, some of which may have no codes.
        groups: Numbers the distinct lists.
    """
    edges = np.searchsorted(owner, np.arange(count + 1))
    first, size = edges[:-1], np.diff(edges)
    numbers: Ints = np.full(count, groups[()], np.int64)
    single = np.flatnonzero(size == 1)
    of_single, distinct = encode(code[first[single]])
    numbers[single] = groups.codes((each,) for each in distinct.tolist())[of_single]
    several = np.flatnonzero(size > 1)
    codes = code.tolist()
    bounds = zip(first[several].tolist(), edges[1:][several].tolist(), strict=True)
    numbers[several] = groups.codes(tuple(codes[begin:end]) for begin, end in bounds)
    return numbers


def distinct_rows(*columns: Ints) -> tuple[Ints, list[tuple[int, ...]]]:
    """Number the distinct rows of several columns; return the number of each row, and the rows."""
    codes: Ints = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if len(column) and np.any(column != column[0]):  # one that is constant, as many are, distinguishes no rows
            value, distinct = encode(column)
            codes, _ = encode(codes * len(distinct) + value)
    # numbers ascend in order of first appearance
    first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
    return codes, list(zip(*(column[first].tolist() for column in columns), strict=True))
