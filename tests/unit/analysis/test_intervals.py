from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.analysis.intervals import EMPTY, IntervalSet

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=12)


def _spans(pairs: list[tuple[int, int]]) -> IntervalSet:
    start = np.array([start for start, _ in pairs], np.int64)
    length = np.array([length for _, length in pairs], np.int64)
    return IntervalSet.of(start, start + length)


def _moments(pairs: list[tuple[int, int]]) -> set[int]:
    return {moment for start, length in pairs for moment in range(start, start + length)}


def _held(spans: IntervalSet) -> set[int]:
    return {
        moment
        for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True)
        for moment in range(start, end)
    }


@given(SPANS)
def test_spans_hold_the_moments_of_what_they_were_made_of_and_are_apart(pairs: list[tuple[int, int]]) -> None:
    spans = _spans(pairs)
    assert _held(spans) == _moments(pairs)
    assert (spans.start[1:] > spans.end[:-1]).all()


@given(SPANS, SPANS)
def test_together_and_without(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    assert _held(_spans(first) | _spans(second)) == _moments(first) | _moments(second)
    assert _held(_spans(first) - _spans(second)) == _moments(first) - _moments(second)


@given(SPANS, st.tuples(st.integers(0, 70), st.integers(0, 30)))
def test_time_within_a_frame(pairs: list[tuple[int, int]], frame: tuple[int, int]) -> None:
    start, end = frame[0], frame[0] + frame[1]
    spent = _spans(pairs).within(np.array([start]), np.array([end]))
    assert spent.tolist() == [len(_moments(pairs) & set(range(start, end)))]


@given(SPANS, st.lists(st.integers(1, 15), min_size=1, max_size=5))
def test_pieces_cut_at_the_borders_of_frames(pairs: list[tuple[int, int]], lengths: list[int]) -> None:
    ends = np.cumsum(lengths)
    starts = ends - np.array(lengths)
    frame, start, end = _spans(pairs).cut(starts, ends)
    found = {
        (int(number), moment)
        for number, first, last in zip(frame, start, end, strict=True)
        for moment in range(int(first), int(last))
    }
    expected = {
        (number, moment)
        for number, (first, last) in enumerate(zip(starts, ends, strict=True))
        for moment in _moments(pairs) & set(range(int(first), int(last)))
    }
    assert found == expected


def test_never_holds_nothing() -> None:
    assert EMPTY.within(np.array([0]), np.array([10])).tolist() == [0]
    assert _held(EMPTY | _spans([(3, 2)])) == {3, 4}
