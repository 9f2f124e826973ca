from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unified_profiler as up
from unified_profiler.analysis import rank_table
from unified_profiler.delivery.run_writer import save_clocks
from unified_profiler.model.clocks import CLOCKS, Clocks
from unified_profiler.model.nesting import Ints
from unified_profiler.model.run import Run
from unified_profiler.testing.fleets import Fleet, HostClock

OFF = {1: HostClock(offset_ns=2_500_000_000, drift=4e-5), 2: HostClock(offset_ns=-1_700_000_000, drift=-3e-5)}


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of three machines whose clocks differ by seconds, and more and more."""
    return Fleet(ranks=3, steps=100, clocks=OFF).write(tmp_path_factory.mktemp("apart"))


@pytest.fixture(scope="module")
def true(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the same run by one clock."""
    return up.read(Fleet(ranks=3, steps=100).write(tmp_path_factory.mktemp("true")))


def _moments(run: Run, rank: int) -> Ints:
    moments: Ints = run.traces[rank].events.column("start_ns").to_numpy()
    return moments


def test_offset_and_drift_are_recovered_from_the_ends_of_collectives(apart: Path, true: Run) -> None:
    aligned = up.align_clocks(replace(up.read(apart), path=None))
    assert aligned.clocks is not None
    assert (aligned.clocks.method, aligned.clocks.compared_count) == ("collectives", 100)
    for rank in OFF:
        assert np.abs(_moments(aligned, rank) - _moments(true, rank)).max() < 50_000


def test_the_uncertainty_that_is_told_covers_the_error(apart: Path, true: Run) -> None:
    aligned = up.align_clocks(replace(up.read(apart), path=None))
    assert aligned.clocks is not None
    for clock in aligned.clocks.ranks[1:]:
        error = np.abs(_moments(aligned, clock.rank) - _moments(true, clock.rank)).max()
        assert 100 < clock.uncertainty_ns < 50_000
        assert error < 4 * clock.uncertainty_ns


def align_and_save(path: Path) -> None:
    run = up.read(path)
    save_clocks(run, up.align_clocks(run).clocks)


def test_what_was_estimated_is_kept_in_the_run_and_applied_when_it_is_read(tmp_path: Path, true: Run) -> None:
    path = Fleet(ranks=3, steps=100, clocks=OFF).write(tmp_path)
    align_and_save(path)
    again = up.read(path)
    assert isinstance(again.clocks, Clocks)
    assert np.abs(_moments(again, 1) - _moments(true, 1)).max() < 50_000
    assert again.steps is not None
    assert true.steps is not None
    ends = [run.steps.column("end_ns").to_numpy() for run in (again, true)]  # type: ignore[union-attr]
    assert np.abs(ends[0] - ends[1]).max() < 50_000
    assert abs(again.traces[1].info.start_ns - true.traces[1].info.start_ns) < 50_000


def test_clocks_that_do_not_know_all_traces_are_estimated_again(tmp_path: Path) -> None:
    path = Fleet(ranks=3, steps=60, clocks=OFF).write(tmp_path)
    align_and_save(path)
    kept = Clocks.model_validate_json((path / CLOCKS).read_text())
    (path / CLOCKS).write_text(kept.model_copy(update={"traces": kept.traces[:2]}).model_dump_json())
    assert up.read(path).clocks is None


def test_aligning_writes_nothing(tmp_path: Path) -> None:
    path = Fleet(ranks=2, steps=60, clocks={1: OFF[1]}).write(tmp_path)
    assert up.align_clocks(up.read(path)).clocks is not None
    assert not (path / CLOCKS).exists()


def test_clocks_that_cannot_be_saved_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Fleet(ranks=2, steps=60, clocks={1: OFF[1]}).write(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unified_profiler.delivery.run_writer.write_text", full)
    align_and_save(path)
    assert not (path / CLOCKS).exists()


def test_ranks_of_one_machine_share_its_clock(tmp_path: Path) -> None:
    run = up.read(Fleet(ranks=3, steps=60, clocks=OFF).write(tmp_path))
    manifests = {rank: m.model_copy(update={"machine": "the same"}) for rank, m in run.manifests.items()}
    together = replace(run, manifests=manifests)
    assert up.align_clocks(together) is together
    table = rank_table(together)
    assert table.clocks is not None
    assert table.clocks.method == "host"


def test_without_collectives_the_ends_of_steps_tell_the_clocks(tmp_path: Path) -> None:
    run = up.read(Fleet(ranks=2, steps=60, clocks={1: OFF[1]}).write(tmp_path))
    traces = tuple(
        up.Trace(trace.events.filter(np.array(trace.events.column("kind").to_pylist()) != "collective"), trace.info)
        for trace in run.traces
    )
    aligned = up.align_clocks(Run(traces=traces, manifests=run.manifests))
    assert aligned.clocks is not None
    assert aligned.clocks.method == "steps"
    assert abs(aligned.clocks.ranks[1].ahead_ns - OFF[1].offset_ns) < 1_000_000


def test_waiting_is_told_by_the_corrected_clocks(apart: Path, true: Run) -> None:
    by_estimate = rank_table(replace(up.read(apart), path=None)).ranks.rows
    by_truth = rank_table(
        replace(true, manifests={r: m.model_copy(update={"machine": "one"}) for r, m in true.manifests.items()})
    )
    for found, expected in zip(by_estimate, by_truth.ranks.rows, strict=True):
        assert abs(found.waiting_ns - expected.waiting_ns) < 50_000
