from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
import pytest

from unified_profiler.model.overhead import overhead_of
from unified_profiler.model.records import Overhead
from unified_profiler.model.steps import phase_codes, step_table
from unified_profiler.schedule import Phase


def _overhead(unrecorded: Iterable[float], recorded: Iterable[float], *, recorded_first: bool = False) -> Overhead:
    groups = [(Phase.WARMUP, [10_000.0]), (Phase.IDLE, [*unrecorded]), (Phase.RECORD, [*recorded])]
    ordered = groups[:1] + (groups[:0:-1] if recorded_first else groups[1:])
    durations = np.array([1000 * value for _, values in ordered for value in values], np.int64)
    phases = phase_codes([phase for phase, values in ordered for _ in values])
    ends = np.cumsum(durations)
    return overhead_of(step_table(rank=0, first=0, start_ns=ends - durations, end_ns=ends, phase=phases))


def test_one_unrecorded_step_at_the_end_of_a_warm_up_shows_no_cost() -> None:
    overhead = _overhead([200], [700, 430, 400], recorded_first=True)
    assert (overhead.ratio, overhead.unrecorded_step_count, overhead.unclear) == (2.15, 1, "few_steps")


def test_recorded_steps_that_fall_to_the_level_of_unrecorded_ones_show_no_cost() -> None:
    assert _overhead([100, 99, 101, 100, 100], [500, 300, 150], recorded_first=True).unclear == "falling"


@pytest.mark.parametrize("spike", [3, 250, 400, 498])
def test_a_single_slow_step_does_not_hide_a_cost(spike: int) -> None:
    unrecorded = np.random.default_rng(0).normal(100, 2, 500)
    unrecorded[spike] = 10_000
    assert _overhead(unrecorded, [150, 151, 149]).unclear is None


def test_a_warm_up_long_past_does_not_hide_a_cost() -> None:
    assert _overhead([800, 400, 200, 120, *[100] * 50], [150, 151, 149]).unclear is None


def test_equal_steps_that_scatter_do_not_count_as_falling() -> None:
    random = np.random.default_rng(1)
    reasons = [_overhead(random.normal(100, 5, 20), random.normal(100, 5, 5)).unclear for _ in range(200)]
    assert reasons.count("scatter") > 160
    assert reasons.count(None) < 4


def test_long_runs_are_judged_in_little_time() -> None:
    random = np.random.default_rng(2)
    before = time.process_time()
    assert _overhead(random.normal(100, 5, 200_000), random.normal(150, 5, 1000)).unclear is None
    assert time.process_time() - before < 5


def test_the_step_from_which_a_warm_up_is_over_is_named() -> None:
    warm_up = [900, 800, 700, 600, 500, 400, 300, 200]
    overhead = _overhead([*warm_up, *[100] * 20], [5000, 4000, 3000], recorded_first=True)
    assert overhead.unclear == "falling"
    first_unrecorded = 4  # after a warm-up step and three recorded ones
    assert overhead.steady_step == first_unrecorded + len(warm_up)


def test_a_single_slow_step_is_no_warm_up() -> None:
    overhead = _overhead([*[300] * 6, *[100] * 8, 900, *[100] * 8], [5000, 4000, 3000], recorded_first=True)
    assert overhead.steady_step == 4 + 6


@pytest.mark.parametrize(
    ("unrecorded", "recorded"),
    [
        (range(2900, 100, -100), [5000, 4000, 3000]),  # never steady
        ([100] * 20, [150, 151, 149]),  # steady from the beginning
    ],
)
def test_without_a_warm_up_that_ends_no_step_is_named(unrecorded: Iterable[float], recorded: list[float]) -> None:
    assert _overhead(unrecorded, recorded, recorded_first=True).steady_step is None
