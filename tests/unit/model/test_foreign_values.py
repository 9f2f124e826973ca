"""Values of foreign files: what a column cannot hold is refused or unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from unified_profiler.model.foreign_values import (
    LARGEST,
    bounded,
    checked_events,
    checked_nesting,
    int_or_none,
    nanoseconds,
)
from unified_profiler.model.nesting import with_column
from unified_profiler.model.schema import EventTable, empty_table
from unified_profiler.testing import TraceBuilder


@pytest.fixture
def events() -> EventTable:
    return TraceBuilder().op("outer", 0, 100).op("inner", 10, 50).build().events


@pytest.mark.parametrize("value", [1 << 63, -(1 << 63), 1.0, True, "1", None, [1]])
def test_what_is_no_integer_of_64_bits_is_unknown(value: Any) -> None:
    assert int_or_none(value) is None


def test_the_largest_integers_are_known() -> None:
    assert int_or_none((1 << 63) - 1) == -int_or_none(1 - (1 << 63)) == (1 << 63) - 1  # type: ignore[operator]


def test_microseconds_with_three_decimals_are_exact() -> None:
    moments = np.array([1_790_857_026_123_456.789, -0.001, 0.1, 12345.678])
    assert nanoseconds(moments).tolist() == [1_790_857_026_123_456_750, -1, 100, 12_345_678]


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), -float("inf"), 1e300, 4.7e15])
def test_moments_that_no_column_holds_are_refused_without_a_warning(moment: float) -> None:
    with pytest.raises(ValueError, match="event 1 has a time of"):
        nanoseconds(np.array([0.0, moment]))


@pytest.mark.parametrize("value", [1 << 62, -(1 << 62), 10**400])
def test_times_that_cannot_be_added_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="start 0 is"):
        bounded(value, "start")
    assert bounded(np.array([LARGEST, -LARGEST]), "start").tolist() == [LARGEST, -LARGEST]


@pytest.mark.parametrize(
    ("name", "value"), [("start_ns", 1 << 62), ("duration_ns", -1), ("duration_ns", 1 << 62), ("tid", -(1 << 62))]
)
def test_an_event_out_of_range_is_named(name: str, value: int, events: EventTable) -> None:
    with pytest.raises(ValueError, match=f"event 1, 'inner', has {name} {value}"):
        checked_events(with_column(events, name, pa.array([1, value])))


def test_an_event_without_what_every_event_has_is_refused(events: EventTable) -> None:
    with pytest.raises(ValueError, match=r"events lack \['name'\]"):
        checked_events(with_column(events, "name", pa.array(["outer", None])))


def test_events_in_order_are_given_back(events: EventTable) -> None:
    assert checked_nesting(checked_events(events)) is events
    assert len(checked_nesting(checked_events(empty_table()))) == 0


@pytest.mark.parametrize("parents", [[0, None], [1, 0]])
def test_events_that_enclose_each_other_are_refused(parents: list[int | None], events: EventTable) -> None:
    with pytest.raises(ValueError, match="event 0 encloses itself"):
        checked_nesting(with_column(events, "parent_id", pa.array(parents)))


def test_a_parent_that_is_not_there_is_none(events: EventTable) -> None:
    checked_nesting(with_column(events, "parent_id", pa.array([99, 0])))
