"""How readings become values of counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.recording.hardware.counters import COUNTERS, Counter
from unified_profiler.recording.hardware.readings import CounterValue, CounterValues, Reading

MS = 1_000_000
LEVEL = Counter(name="level bytes", meaning="")
TOTAL = Counter(name="rate bytes/s", meaning="", factor=1)
TICKS = Counter(name="busy %", meaning="", factor=100, shortest_ns=50 * MS, at_most=100)


def values(counter: Counter, *readings: tuple[int, float]) -> list[CounterValue | None]:
    """Return the values of readings at some milliseconds."""
    converter = CounterValues()
    return [converter.value(Reading(counter, amount), ms * MS) for ms, amount in readings]


def test_a_level_holds_from_the_moment_it_was_read() -> None:
    assert values(LEVEL, (1, 5), (2, 4)) == [(1 * MS, "level bytes", None, 5), (2 * MS, "level bytes", None, 4)]


def test_a_total_gives_its_growth_per_second_from_the_beginning_of_the_interval_on() -> None:
    assert values(TOTAL, (100, 7), (200, 7), (400, 9)) == [
        None,
        (100 * MS, "rate bytes/s", None, 0),
        (200 * MS, "rate bytes/s", None, 10),
    ]


def test_an_interval_too_short_for_its_unit_is_joined_with_the_next() -> None:
    assert values(TICKS, (0, 0), (30, 0.03), (60, 0.03), (100, 0.07)) == [None, None, (0, "busy %", None, 50), None]


def test_rounding_to_ticks_gives_no_more_than_all() -> None:
    assert values(TICKS, (0, 0), (100, 0.11))[1] == (0, "busy %", None, 100)


def test_a_total_that_began_anew_gives_nothing_once() -> None:
    assert values(TOTAL, (0, 100), (100, 0), (200, 1)) == [None, None, (100 * MS, "rate bytes/s", None, 10)]


def test_devices_have_totals_of_their_own() -> None:
    converter = CounterValues()
    for ms, first, second in ((0, 0, 1000), (1000, 5, 1007)):
        found = [
            converter.value(Reading(TOTAL, first, "cpu:0"), ms * MS),
            converter.value(Reading(TOTAL, second, "cpu:1"), ms * MS),
        ]
    assert [(value.device, value.value) for value in found if value] == [("cpu:0", 5), ("cpu:1", 7)]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10**12)), max_size=20), st.sampled_from([TOTAL, TICKS]))
def test_rates_are_never_negative_and_follow_each_other(steps: list[tuple[int, int]], counter: Counter) -> None:
    readings, ms, amount = [], 0, 0
    for pause, growth in steps:
        ms, amount = ms + pause, amount + growth
        readings.append((ms, float(amount)))
    found = [value for value in values(counter, *readings) if value is not None]
    assert all(value.value >= 0 for value in found)
    starts = [value.start_ns for value in found]
    assert starts == sorted(set(starts))


def test_the_counter_of_a_framework_has_its_name() -> None:
    (counter,) = [counter for counter in COUNTERS if "<framework>" in counter.name]
    assert counter.of("torch").name == "torch memory bytes"


def test_names_are_unique_and_end_in_their_unit() -> None:
    names = [counter.name for counter in COUNTERS]
    assert len(set(names)) == len(names)
    assert {name.rsplit(" ", 1)[1] for name in names} == {"%", "bytes", "bytes/s"}


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_what_is_measured_by_the_second_is_a_total(counter: Counter) -> None:
    assert (counter.factor == 1) == counter.name.endswith("/s")
