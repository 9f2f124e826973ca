from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unified_profiler.comparison.noise import Noise, Times, noise_of, quartiles

QUIET: Times = np.array([100.0, 101, 99, 100, 102, 100, 98, 100, 101, 100])


def times(*values: float) -> Times:
    return np.array(values, np.float64)


def scaled(factor: float) -> Times:
    return np.multiply(QUIET, float(factor))


def test_a_clear_difference_counts() -> None:
    assert Noise(0.05, step_ns=200).is_exceeded(QUIET, scaled(1.2))
    assert Noise(0.05, step_ns=200).is_exceeded(QUIET, scaled(1 / 1.2))


def test_less_than_the_threshold_does_not() -> None:
    assert not Noise(0.05, step_ns=200).is_exceeded(QUIET, scaled(1.04))
    assert Noise(0.02, step_ns=200).is_exceeded(QUIET, scaled(1.04))


def test_nor_does_what_single_steps_do_not_show() -> None:
    noisy = times(60, 140, 70, 130, 100, 110, 90, 150, 50, 120)
    assert not Noise(0.05, step_ns=200).is_exceeded(noisy, noisy[::-1] * 1.2)


def test_nor_what_is_a_small_part_of_the_step() -> None:
    assert not Noise(0.05, step_ns=100_000).is_exceeded(QUIET, scaled(3))


def test_a_row_that_one_side_lacks_counts_if_it_is_worth_it() -> None:
    assert Noise(0.05, step_ns=200).is_exceeded(np.zeros(1), QUIET)
    assert not Noise(0.05, step_ns=100_000).is_exceeded(np.zeros(1), QUIET)


def test_a_machine_that_is_slower_throughout_is_no_difference_of_rows() -> None:
    rows = [(scaled(size), scaled(size * 1.15)) for size in range(1, 11)]
    total = (scaled(55), scaled(55 * 1.15))
    noise = noise_of(rows, total, threshold=0.05, alike=True)
    assert noise.drift == pytest.approx(np.log(1.15))
    assert not any(noise.is_exceeded(*row) for row in rows)
    assert noise.is_exceeded(scaled(5), scaled(5 * 1.6))
    other = noise_of(rows, total, threshold=0.05, alike=False)
    assert all(other.is_exceeded(*row) for row in rows[2:])


def test_twice_the_time_in_every_row_is_no_slow_machine() -> None:
    rows = [(scaled(size), scaled(size * 2)) for size in range(1, 11)]
    noise = noise_of(rows, (scaled(55), scaled(110)), threshold=0.05, alike=True)
    assert all(noise.is_exceeded(*row) for row in rows)


def test_one_slow_row_among_equal_ones_stands_out_however_large_it_is() -> None:
    rows = [(scaled(1000), scaled(1500)), *((scaled(size), scaled(size * 1.01)) for size in range(20, 30))]
    noise = noise_of(rows, (scaled(1245), scaled(1750)), threshold=0.05, alike=True)
    assert [noise.is_exceeded(*row) for row in rows] == [True, *[False] * 10]


@settings(max_examples=50)
@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=20), st.floats(0, 0.99))
def test_equal_times_never_differ(values: list[float], threshold: float) -> None:
    one = np.array(values)
    noise = noise_of([(one, one)], (one, one), threshold=threshold, alike=True)
    assert not noise.is_exceeded(one, one)


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=30))
def test_quartiles_are_those_of_numpy(values: list[float]) -> None:
    assert quartiles(np.array(values)) == pytest.approx(tuple(np.percentile(values, (25, 50, 75))))
