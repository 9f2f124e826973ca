from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.model.nesting import FIRST_LANE, Nesting, find_nesting, nest
from unified_profiler.model.schema import event_table
from unified_profiler.testing import TraceBuilder

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(1, 2)), max_size=40)


def nesting(*events: tuple[int, int]) -> Nesting:
    start = np.array([start for start, _ in events], np.int64)
    end = np.array([end for _, end in events], np.int64)
    ones = np.ones(len(events), np.int64)
    return find_nesting(start, end - start, ones, ones)


def test_a_child_lies_within_its_parent() -> None:
    found = nesting((0, 100), (10, 30), (12, 20), (40, 50))
    assert found.parent.tolist() == [-1, 0, 1, 0]
    assert found.depth.tolist() == [0, 1, 2, 1]
    assert found.self_ns.tolist() == [70, 12, 8, 10]


def test_order_of_rows_does_not_matter() -> None:
    found = nesting((12, 20), (0, 100), (10, 30))
    assert found.parent.tolist() == [2, -1, 1]


def test_an_event_that_starts_where_another_ends_is_its_sibling() -> None:
    assert nesting((0, 10), (10, 20)).parent.tolist() == [-1, -1]


def test_of_two_equal_events_the_first_is_the_parent() -> None:
    assert nesting((0, 10), (0, 10)).parent.tolist() == [-1, 0]


def test_an_instant_within_an_event_is_its_child() -> None:
    assert nesting((0, 10), (0, 0), (5, 5)).parent.tolist() == [-1, 0, 0]


def test_events_that_overlap_partly_go_to_lanes_of_their_own() -> None:
    found = nesting((0, 10), (5, 15), (6, 8))
    assert found.tid.tolist() == [1, FIRST_LANE, 1]
    assert found.parent.tolist() == [-1, -1, 0]


def test_an_event_goes_to_the_first_lane_in_which_it_nests() -> None:
    found = nesting((0, 10), (5, 15), (6, 20), (7, 14), (12, 13), (16, 25), (21, 30), (22, 24))
    assert found.tid.tolist() == [1, FIRST_LANE, FIRST_LANE + 1, FIRST_LANE, 1, 1, FIRST_LANE, 1]
    assert found.parent.tolist() == [-1, -1, -1, 1, -1, -1, -1, 5]
    assert found.depth.tolist() == [0, 0, 0, 1, 0, 0, 0, 1]


def test_threads_do_not_nest_in_each_other() -> None:
    one = np.array([0, 1], np.int64)
    found = find_nesting(one, np.array([10, 5]), np.array([1, 1]), np.array([1, 2]))
    assert found.parent.tolist() == [-1, -1]


def test_counters_stay_outside_the_tree() -> None:
    trace = TraceBuilder().op("outer", 0, 100).op("load", 10, 50, kind="counter", value=0.5).build()
    assert trace.events.column("parent_id").to_pylist() == [None, None]
    assert trace.events.column("self_ns").to_pylist() == [100, 50]


def test_counters_stay_on_no_thread_if_events_move_to_lanes_of_their_own() -> None:
    counter = {"kind": "counter", "value": 0.5, "tid": None}
    events = TraceBuilder().op("a", 0, 100).op("b", 50, 100).op("load", 60, 0, **counter).build().events
    tids = events.column("tid").to_pylist()
    assert tids[0] != tids[1]
    assert tids[2] is None


def test_an_empty_table_nests() -> None:
    assert len(nest(event_table({}, rows=0))) == 0


@given(spans)
def test_every_lane_nests_and_self_times_add_up(rows: list[tuple[int, int, int]]) -> None:
    start, length, tid = (np.array([row[i] for row in rows], np.int64) for i in range(3))
    found = find_nesting(start, length, np.ones_like(start), tid)
    end = start + np.maximum(length, 1)
    for i in range(len(rows)):
        assert found.depth[i] == len(_ancestors(found.parent, i))
        for j in range(len(rows)):
            if found.tid[i] == found.tid[j] and start[i] < start[j] < end[i]:
                assert end[j] <= end[i]
    assert found.self_ns.sum() == length[found.parent < 0].sum()


def _ancestors(parent: npt.NDArray[np.int64], row: int) -> list[int]:
    found = []
    while parent[row] >= 0:
        row = int(parent[row])
        found.append(row)
    return found
