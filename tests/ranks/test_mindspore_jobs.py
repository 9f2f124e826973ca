"""What `rank_table` says about a real job of two MindSpore processes, started by msrun, with collectives on CPUs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import unified_profiler as up

PROGRAM = Path(__file__).with_name("train_mindspore.py")
MSRUN = "from mindspore.parallel.cluster.run import main; main()"
SLOW_RANK, SLOW_FROM = 1, 20


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mindspore")
    options = ["--worker_num=2", "--local_worker_num=2", f"--master_port={free_port()}", "--join=True", "--log_dir=log"]
    command = [sys.executable, "-c", MSRUN, *options, str(PROGRAM), str(folder), "work", "data"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # msrun starts what is called python
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_both_ranks_meet_in_one_run_named_by_their_scheduler(job: Path) -> None:
    run = up.read(job / "work")
    assert run.ranks == [0, 1]
    assert {manifest.job for manifest in run.manifests.values()} != {"job-"}


def test_collectives_are_recorded(job: Path) -> None:
    rows = up.rank_table(up.read(job / "work")).table.to_pylist()
    assert min(row["collective_ns"] for row in rows) > 0


def test_a_rank_with_more_work_is_found_with_its_operator(job: Path) -> None:
    (slow,) = up.rank_table(up.read(job / "work")).stragglers
    assert (slow.rank, slow.cause) == (SLOW_RANK, "compute")
    assert abs(slow.since - SLOW_FROM) <= 2
    assert slow.names[0][0] == "MatMul"


def test_a_rank_whose_batches_take_longer_is_found(job: Path) -> None:
    (slow,) = up.rank_table(up.read(job / "data")).stragglers
    assert (slow.rank, slow.cause) == (SLOW_RANK, "data")
    assert abs(slow.since - SLOW_FROM) <= 2
    assert slow.names[0][0] == "load_data"


def test_the_other_rank_waits(job: Path) -> None:
    rows = up.rank_table(up.read(job / "data")).ranks.table.to_pylist()
    waiting = {row["rank"]: row["waiting_ns"] for row in rows}
    assert waiting[0] > waiting[SLOW_RANK]
