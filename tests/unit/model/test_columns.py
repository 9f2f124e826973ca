from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.model.columns import look_up

NEAR, ANY = st.integers(-4, 12), st.integers(-(2**63), 2**63 - 1)


@given(st.lists(NEAR | ANY, max_size=20), st.lists(NEAR, max_size=20) | st.lists(NEAR | ANY, max_size=20))
def test_values_are_found_at_their_first_occurrence(values: list[int], keys: list[int]) -> None:
    expected = [keys.index(value) if value in keys else -1 for value in values]
    assert look_up(np.array(values, np.int64), np.array(keys, np.int64)).tolist() == expected
