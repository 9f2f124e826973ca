from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.spi.lanes import assign_lanes, lane_number

SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.booleans()), max_size=40)


def _assigned(spans: list[tuple[int, int, bool]]) -> tuple[list[range], list[int]]:
    start, duration = (np.array([span[part] for span in spans], np.int64) for part in range(2))
    lanes = assign_lanes(start, start + duration, np.array([is_call for *_, is_call in spans], np.bool_))
    return [range(begin, begin + max(length, 1)) for begin, length, _ in spans], lanes.tolist()


@given(SPANS)
def test_in_a_lane_events_follow_each_other_or_are_inside_a_call(spans: list[tuple[int, int, bool]]) -> None:
    times, lanes = _assigned(spans)
    for one in range(len(spans)):
        for other in range(one):
            if lanes[one] == lanes[other] and _overlap(times[one], times[other]):
                assert _is_inside(one, other, times, spans) or _is_inside(other, one, times, spans)


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _is_inside(inner: int, outer: int, times: list[range], spans: list[tuple[int, int, bool]]) -> bool:
    fits = times[outer].start <= times[inner].start and times[inner].stop <= times[outer].stop
    return spans[outer][2] and fits


@given(SPANS)
def test_without_calls_there_are_as_many_lanes_as_events_run_at_once(spans: list[tuple[int, int, bool]]) -> None:
    times, lanes = _assigned([(start, duration, False) for start, duration, _ in spans])
    at_once = max((sum(moment in time for time in times) for moment in range(80)), default=0)
    assert len(set(lanes)) == at_once


@given(SPANS)
def test_a_later_call_does_not_change_the_lanes_of_other_events(spans: list[tuple[int, int, bool]]) -> None:
    plain = [(start, duration, False) for start, duration, _ in spans]
    assert _assigned([*plain, (100, 1, True)])[1][:-1] == _assigned(plain)[1]


def test_numbers_of_lanes_are_stable_and_differ() -> None:
    numbers = [lane_number(name, lane) for name in ("/device:CPU:0", "/device:CPU:1", "a") for lane in (0, 1, 99)]
    assert len(set(numbers)) == len(numbers)
    assert numbers[0] == lane_number("/device:CPU:0") < 1 << 53
