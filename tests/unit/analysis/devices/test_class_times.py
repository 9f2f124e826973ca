from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.analysis.devices.class_times import MASKS, class_times

WORK = st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 2), st.integers(0, 2))


@given(st.lists(WORK, max_size=25))
def test_times_equal_those_counted_instant_by_instant(pieces: list[tuple[int, int, int, int]]) -> None:
    columns = np.array(pieces, np.int64).reshape(-1, 4).T
    times = class_times(columns[0], columns[0] + columns[1], columns[2], columns[3], groups=3)
    expected = np.zeros((3, MASKS), np.int64)
    for group, instant in product(range(3), range(50)):
        own = [piece for piece in pieces if piece[3] == group]
        if own and min(p[0] for p in own) <= instant < max(p[0] + p[1] for p in own):
            running = {p[2] for p in own if p[0] <= instant < p[0] + p[1]}
            expected[group, sum(1 << bit for bit in running)] += 1
    assert times.tolist() == expected.tolist()


def test_times_of_a_hundred_years_do_not_overflow() -> None:
    century = 100 * 365 * 86_400 * 10**9
    start = np.array([0, century // 2, 0])
    end = np.array([century, century, century])
    times = class_times(start, end, np.array([0, 1, 2]), np.array([0, 0, 1]), groups=2)
    assert times.sum(axis=1).tolist() == [century, century]
