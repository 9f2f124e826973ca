"""What `rank_table` says about real jobs: torchrun, DistributedDataParallel and gloo, with two and four processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import unified_profiler as up

PROGRAM = Path(__file__).with_name("train_torch.py")
SLOW_RANK, SLOW_FROM = 1, 20


@pytest.fixture(scope="module", params=[2, 4], ids=["two ranks", "four ranks"])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={request.param}"]
    command = [*torchrun, str(PROGRAM), str(folder), "equal", "work", "data"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_ranks_that_do_the_same_are_not_blamed(job: Path, by_counts: Callable[[up.Run], up.Run]) -> None:
    """Told by counts: by its clock, other programs may have made one of them really slower."""
    table = up.rank_table(by_counts(up.read(job / "equal")))
    assert [statement.code for statement in table.verdict] == ["equal"]
    assert len({row.own_ns for row in table.ranks.rows}) == 1


def test_a_rank_with_more_work_is_found_with_its_operator(job: Path) -> None:
    (slow,) = up.rank_table(up.read(job / "work")).stragglers
    assert (slow.rank, slow.cause) == (SLOW_RANK, "compute")
    assert abs(slow.since - SLOW_FROM) <= 2
    assert slow.names[0][0] == "aten::mm"


def test_a_rank_whose_samples_take_longer_is_found(job: Path) -> None:
    (slow,) = up.rank_table(up.read(job / "data")).stragglers
    assert (slow.rank, slow.cause) == (SLOW_RANK, "data")
    assert abs(slow.since - SLOW_FROM) <= 2
    assert "DataLoader" in slow.names[0][0]


def test_the_others_wait_for_the_slow_rank(job: Path) -> None:
    table = up.rank_table(up.read(job / "data"))
    waiting = {row["rank"]: row["waiting_ns"] for row in table.ranks.table.to_pylist()}
    assert min(waited for rank, waited in waiting.items() if rank != SLOW_RANK) > waiting[SLOW_RANK]


def test_ranks_of_one_machine_have_one_clock(job: Path) -> None:
    clocks = up.rank_table(up.read(job / "equal")).clocks
    assert clocks is not None
    assert clocks.method == "host"
