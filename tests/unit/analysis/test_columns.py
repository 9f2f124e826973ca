from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.analysis.columns import coded, numbered, ranked
from unified_profiler.testing import timed_events

NUMBERS = st.integers(-5, 5) | st.integers(-(2**62), 2**62)


@given(st.lists(NUMBERS, max_size=30))
def test_a_rank_counts_the_smaller_distinct_values(values: list[int]) -> None:
    expected = [len({other for other in values if other < value}) for value in values]
    assert ranked(np.array(values, np.int64)).tolist() == expected


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 2)), min_size=1, max_size=30))
def test_combinations_are_numbered_in_their_order(rows: list[tuple[int, int, int]]) -> None:
    expected = [sorted(set(rows)).index(row) for row in rows]
    assert numbered([np.array(column, np.int64) for column in zip(*rows, strict=True)]).tolist() == expected


@given(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=200), st.integers(0, 200))
def test_few_rows_have_only_their_own_texts(texts: list[str | None], count: int) -> None:
    events = timed_events(*(("op", "op", row, row + 1) for row in range(len(texts))), module=texts)
    few = coded(events.slice(0, count), "module")
    assert [few.values[code] if code >= 0 else None for code in few.codes.tolist()] == texts[:count]
    assert set(few.values) >= set(texts[:count]) - {None}
    if count < len(few.values):
        assert set(few.values) == set(texts[:count]) - {None}
