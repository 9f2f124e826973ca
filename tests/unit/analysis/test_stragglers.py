from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from unified_profiler.analysis.stragglers import Floats, StepMatrix, Straggler, stragglers

STEP = 10_000_000


def _table(own: Floats, *, part: str = "compute_ns") -> pa.Table:
    """Make a rank table of own times by step and rank; what exceeds a usual step is in one part."""
    steps, ranks = own.shape
    columns = {"rank": np.tile(np.arange(ranks), steps), "step": np.repeat(np.arange(steps), ranks)}
    flat = own.ravel().astype(np.int64)
    wall = np.repeat(own.max(axis=1), ranks).astype(np.int64)
    names = ("compute_ns", "data_ns", "copy_ns", "collective_ns", "uncovered_ns")
    parts = {name: np.full(len(flat), STEP // 10) for name in names}
    parts[part] = flat - 4 * (STEP // 10)
    parts["collective_ns"] = parts["collective_ns"] + wall - flat
    return pa.table({**columns, "wall_ns": wall, "own_ns": flat, "waiting_ns": wall - flat, **parts})


def _noisy(steps: int, ranks: int, *, spread: float = 0.05, seed: int = 0) -> Floats:
    """Return times of ranks that are equally fast, with bursts as busy machines have them."""
    random = np.random.default_rng(seed)
    times = STEP * random.normal(1, spread, (steps, ranks))
    times *= np.where(random.random((steps, ranks)) < 0.05, random.uniform(1.5, 4, (steps, ranks)), 1)
    return times


def _found(own: Floats, **options: str) -> list[Straggler]:
    return stragglers(StepMatrix.of(_table(own, **options)))


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
@pytest.mark.parametrize("seed", range(10))
def test_equal_ranks_are_not_slow(ranks: int, seed: int) -> None:
    assert _found(_noisy(60, ranks, spread=0.1, seed=seed)) == []


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
@pytest.mark.parametrize("since", [10, 20, 41])
def test_the_rank_the_step_and_the_size_are_found(ranks: int, since: int) -> None:
    own = _noisy(60, ranks)
    own[since:, 1] += STEP // 2
    (found,) = _found(own)
    assert (found.rank, found.changed) == (1, True)
    assert abs(found.since - since) <= 2
    assert found.extra_ns == pytest.approx(STEP / 2, rel=0.15)
    assert found.step_share > 0.9
    assert found.p_value < 0.001


def test_a_rank_that_is_slow_from_the_beginning() -> None:
    own = _noisy(40, 4)
    own[:, 2] *= 1.4
    (found,) = _found(own)
    assert (found.rank, found.since, found.changed) == (2, 0, False)


def test_several_slow_ranks_the_slowest_first() -> None:
    own = _noisy(80, 8)
    own[30:, 3] += STEP // 4
    own[50:, 6] += STEP
    assert [each.rank for each in _found(own)] == [6, 3]


def test_one_terrible_step_makes_no_slow_rank() -> None:
    own = _noisy(40, 4, spread=0.02)
    own[25, 1] *= 100
    assert _found(own) == []


def test_a_difference_below_a_tenth_makes_no_slow_rank() -> None:
    own = _noisy(200, 4, spread=0.01)
    own[:, 1] *= 1.05
    assert _found(own) == []


def test_too_few_steps_tell_nothing() -> None:
    own = _noisy(4, 2, spread=0.01)
    own[:, 1] *= 3
    assert _found(own) == []


@pytest.mark.parametrize("part", ["compute_ns", "data_ns", "copy_ns", "uncovered_ns"])
def test_the_part_that_grew_is_the_cause(part: str) -> None:
    own = _noisy(60, 4)
    own[20:, 2] += STEP
    (found,) = _found(own, part=part)
    assert found.cause == part.removesuffix("_ns")
    assert found.cause_ns == pytest.approx(STEP, rel=0.2)


def test_a_rank_that_has_fewer_steps_is_compared_in_those() -> None:
    own = _noisy(60, 3)
    own[10:, 1] += STEP
    table = _table(own)
    died = np.array(table.column("rank")) == 1
    table = table.filter(pa.array(~(died & (np.array(table.column("step")) >= 40))))
    (found,) = stragglers(StepMatrix.of(table))
    assert (found.rank, found.step_count) == (1, 30)


def test_the_excess_over_the_others_leaves_the_rank_itself_out() -> None:
    table = _table(np.array([[10.0, 20.0, 60.0]]) * float(STEP))
    assert (StepMatrix.of(table).excess("own_ns") / STEP).tolist() == [[-30.0, -15.0, 45.0]]
