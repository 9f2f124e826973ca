"""What `rank_table` says about two TensorFlow workers: recorded ones that train together, live ones that train apart.

Together they are no sound test: TensorFlow's own profiler often crashes in worker 1 of such a job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import unified_profiler as up
from unified_profiler.analysis.stragglers import Straggler

PROGRAM = Path(__file__).with_name("train_tensorflow.py")
RECORDED = Path(__file__).parents[1] / "golden" / "ranks" / "tensorflow"
SLOW_RANK, SLOW_FROM = 1, 20


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensorflow")
    command = [sys.executable, str(PROGRAM), str(folder), "apart", "work", "data"]
    with ExitStack() as stack:
        workers = [stack.enter_context(started(command, index)) for index in range(2)]
        said = [worker.communicate(timeout=900)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(said)
    return folder


def started(command: list[str], index: int) -> subprocess.Popen[str]:
    cluster = {"worker": ["localhost:1", "localhost:2"]}  # names only: nobody listens
    config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
    environment = {**os.environ, "TF_CONFIG": config, "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(params=["together", "apart"])
def runs(request: pytest.FixtureRequest) -> Path:
    return RECORDED if request.param == "together" else Path(request.getfixturevalue("apart"))


def slow_worker(run: Path) -> Straggler:
    (slow,) = up.rank_table(up.read(run)).stragglers
    assert slow.rank == SLOW_RANK
    assert abs(slow.since - SLOW_FROM) <= 2
    return slow


def test_a_worker_with_more_work_is_found_with_its_operator(runs: Path) -> None:
    slow = slow_worker(runs / "work")
    assert slow.cause == "compute"
    assert "MatMul" in slow.names[0][0]


def test_a_worker_whose_batches_take_longer_is_found(runs: Path) -> None:
    slow = slow_worker(runs / "data")
    assert slow.cause == "data"
    assert "Iterator" in slow.names[0][0]


def test_workers_that_do_the_same_are_not_blamed() -> None:
    table = up.rank_table(up.read(RECORDED / "equal"))
    assert [statement.code for statement in table.verdict] == ["equal"]


@pytest.mark.parametrize("scenario", ["work", "data"])
def test_the_other_worker_waits_in_collectives_for_the_slow_one(scenario: str) -> None:
    rows = up.rank_table(up.read(RECORDED / scenario)).table.to_pylist()
    waiting = {rank: [row["waiting_ns"] for row in rows if row["rank"] == rank] for rank in range(2)}
    assert min(waiting[0][SLOW_FROM:]) > max(waiting[SLOW_RANK][SLOW_FROM:])


def test_workers_without_collectives_wait_for_nobody(apart: Path) -> None:
    rows = up.rank_table(up.read(apart / "data")).table.to_pylist()
    assert {row["waiting_ns"] for row in rows} == {0}
