from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unified_profiler.gating import Verdict, gate
from unified_profiler.gating.intervals import (
    _mann_whitney_counts,
    _signed_rank_counts,
    paired_interval,
    unpaired_interval,
)
from unified_profiler.model.run import Run

Times = npt.NDArray[np.float64]
RunOf = Callable[..., Run]
MS = 1e6


def noisy(random: np.random.Generator, count: int, *, level: float = 5 * MS, bursts: float = 0.1) -> Times:
    """Return steps as a shared machine gives them: slow waves, small noise that only adds, and bursts of load."""
    wave = np.zeros(count)
    for i in range(1, count):
        wave[i] = 0.9 * wave[i - 1] + 0.003 * random.normal()
    times = level * np.exp(wave) * (1 + 0.01 * random.exponential(size=count))
    at = 0
    while at < count:
        at += int(random.exponential(20 / max(bursts, 1e-9)))
        length = int(random.exponential(20))
        times[at : at + length] *= 1 + random.exponential()
        at += length
    return times


# --- exact distributions ----------------------------------------------------------------------------------------------


def test_signed_ranks_are_counted_exactly() -> None:
    sums = [
        sum(rank for rank, sign in zip(range(1, 6), signs, strict=True) if sign) for signs in product((0, 1), repeat=5)
    ]
    assert _signed_rank_counts(5).tolist() == np.bincount(sums).tolist()


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 3), (4, 3), (5, 5)])
def test_rank_sums_are_counted_exactly(first: int, second: int) -> None:
    places = combinations(range(first + second), first)
    inversions = [
        sum(other < place for place in chosen for other in range(place) if other not in chosen) for chosen in places
    ]
    assert _mann_whitney_counts(first, second).tolist() == np.bincount(inversions).tolist()


# --- intervals --------------------------------------------------------------------------------------------------------


@given(shift=st.floats(0.5, 2), seed=st.integers(0, 2**31))
@settings(max_examples=30)
def test_a_factor_moves_the_interval_by_exactly_itself(shift: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    before, after = (noisy(random, 100) for _ in range(2))
    plain = unpaired_interval([before], [after], [np.median], run_deviation=0.01)
    moved = unpaired_interval([before], [after * shift], [np.median], run_deviation=0.01)
    assert moved.estimate - plain.estimate == pytest.approx(np.log(shift))
    assert moved.low - plain.low == pytest.approx(np.log(shift))
    assert moved.high - plain.high == pytest.approx(np.log(shift))


def in_turn(seed: int, *, factor: float, pairs: int = 20) -> tuple[list[Times], list[Times]]:
    """Return runs of two sides on a machine that is busy now and then, for both runs of a pair or for one."""
    random = np.random.default_rng(seed)
    speed = np.where(random.random(pairs) < 0.3, random.uniform(1.3, 2, pairs), 1)
    once = np.where(random.random((2, pairs)) < 0.15, 1.5, 1)
    before, after = ([noisy(random, 10) * speed[i] * once[side, i] for i in range(pairs)] for side in range(2))
    return before, [run * factor for run in after]


def quartile(steps: Times) -> float:
    return float(np.percentile(steps, 25))


def test_a_machine_that_is_busy_now_and_then_raises_no_alarm() -> None:
    alarms = sum(paired_interval(*in_turn(seed, factor=1), [quartile]).low > np.log(1.01) for seed in range(60))
    assert alarms <= 3


def test_a_small_slow_down_is_found_on_such_a_machine() -> None:
    found = sum(paired_interval(*in_turn(seed, factor=1.05), [quartile]).low > np.log(1.01) for seed in range(60))
    assert found >= 50


def test_the_interval_holds_the_true_factor_nearly_always() -> None:
    intervals = [paired_interval(*in_turn(seed, factor=1.1, pairs=8), [quartile]) for seed in range(60)]
    assert sum(each.low <= np.log(1.1) <= each.high for each in intervals) >= 52


def test_fewer_pairs_make_the_interval_wider() -> None:
    before, after = in_turn(1, factor=1)
    assert paired_interval(before[:6], after[:6], [quartile]).width > paired_interval(before, after, [quartile]).width


def test_blocks_that_follow_each_other_make_the_interval_wider() -> None:
    random = np.random.default_rng(0)
    steps = MS * np.exp(np.repeat(random.normal(size=10) * 0.05, 20))
    drifting = np.sort(steps)
    shuffled = unpaired_interval([steps], [steps], [np.median], run_deviation=0)
    assert unpaired_interval([drifting], [drifting], [np.median], run_deviation=0).width > 1.5 * shuffled.width


def test_runs_of_a_side_that_differ_make_the_interval_wider() -> None:
    alike = [np.full(50, 5 * MS) for _ in range(3)]
    differing = [run * factor for run, factor in zip(alike, (0.9, 1, 1.1), strict=True)]
    assert (
        unpaired_interval(differing, differing, [np.median], run_deviation=0.01).between_runs
        > unpaired_interval(alike, alike, [np.median], run_deviation=0.01).between_runs
    )


# --- how often it is wrong --------------------------------------------------------------------------------------------


def verdicts(run_of: RunOf, *, factor: float, limit: float, pairs: int, seeds: int, count: int = 200) -> list[Verdict]:
    """Judge made-up sides: one run each, or several in turn whose pairs have speeds of their own."""
    found = []
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        before, after = [], []
        for pair in range(pairs):
            speed = 1 if pairs == 1 else random.uniform(1, 2)
            steps = int(count * 1.1) // pairs
            before.append(run_of(noisy(random, steps) * speed, started=int((2 * pair) * 1e12)))
            after.append(run_of(noisy(random, steps) * speed * factor, started=int((2 * pair + 1) * 1e12)))
        found.append(gate(before, after, max_regression=limit).verdict)
    return found


@pytest.mark.parametrize(("pairs", "limit"), [(1, 0.02), (1, 0.05), (10, 0.02), (10, 0.05)])
def test_a_program_against_itself_is_hardly_ever_a_regression(run_of: RunOf, pairs: int, limit: float) -> None:
    found = verdicts(run_of, factor=1, limit=limit, pairs=pairs, seeds=40)
    assert found.count(Verdict.REGRESSION) <= 1
    assert found.count(Verdict.WITHIN) >= 20 * (limit == 0.05)


@pytest.mark.parametrize("pairs", [1, 10])
def test_a_slow_down_of_a_tenth_is_found(run_of: RunOf, pairs: int) -> None:
    found = verdicts(run_of, factor=1.1, limit=0.02, pairs=pairs, seeds=20)
    assert found.count(Verdict.REGRESSION) >= 16
    assert Verdict.WITHIN not in found


def test_a_slow_down_of_five_percent_is_found_by_runs_in_turn(run_of: RunOf) -> None:
    found = verdicts(run_of, factor=1.05, limit=0.02, pairs=10, seeds=20)
    assert found.count(Verdict.REGRESSION) >= 16


@given(seed=st.integers(0, 2**31), share=st.floats(0.3, 0.75))
@settings(max_examples=25)
def test_load_that_leaves_some_steps_alone_is_no_regression(run_of: RunOf, seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    before, after = (5 * MS * (1 + 0.01 * random.exponential(size=220)) for _ in range(2))
    loaded = np.repeat(random.permutation(11) < 11 * share, 20)
    after[loaded] *= 1.6
    assert gate(run_of(before), run_of(after)).verdict is not Verdict.REGRESSION
