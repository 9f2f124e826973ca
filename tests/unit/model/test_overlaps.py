from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.model.overlaps import overlapping

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 1), st.booleans()), max_size=40)


@given(SPANS)
def test_exactly_the_candidates_that_overlap_partly_are_found(spans: list[tuple[int, int, int, bool]]) -> None:
    start, end, lane, candidates = (
        (np.array(list(column)) for column in zip(*spans, strict=True)) if spans else [np.empty(0, np.int64)] * 4
    )
    end = end + start
    found = overlapping(start, end, lane, candidates.astype(bool))
    last = np.maximum(end, start + 1)
    for i in range(len(start)):
        cut = any(
            lane[i] == lane[j] and (start[i] < start[j] < last[i] < last[j] or start[j] < start[i] < last[j] < last[i])
            for j in range(len(start))
        )
        assert found[i] == (cut and bool(candidates[i]))
