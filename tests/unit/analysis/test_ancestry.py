from __future__ import annotations

import pyarrow as pa

from unified_profiler.analysis.ancestry import parent_rows
from unified_profiler.model.nesting import with_column
from unified_profiler.testing import TraceBuilder

EVENTS = TraceBuilder().op("outer", 0, 100).op("middle", 10, 50).op("inner", 20, 5).build().events


def test_parents_are_found_among_some_of_the_events() -> None:
    assert parent_rows(EVENTS).tolist() == [-1, 0, 1]
    assert parent_rows(EVENTS.take([2, 1, 0])).tolist() == [1, 2, -1]


def test_an_event_whose_parent_is_not_there_is_an_outermost_one() -> None:
    assert parent_rows(EVENTS.slice(1)).tolist() == [-1, 0]
    elsewhere = with_column(EVENTS, "parent_id", pa.array([None, 99, -7]))
    assert parent_rows(elsewhere).tolist() == [-1, -1, -1]
