"""What `rank_table` says about a real job of two TensorFlow workers that reduce their gradients in each step."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import unified_profiler as up

PROGRAM = Path(__file__).with_name("train_tensorflow.py")
SLOW_RANK, SLOW_FROM = 1, 20


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensorflow")
    addresses = free_addresses(2)
    command = [sys.executable, str(PROGRAM), str(folder), "equal", "work", "data"]
    with ExitStack() as stack:
        workers = [stack.enter_context(started(command, addresses, index)) for index in range(2)]
        said = [worker.communicate(timeout=200)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(said)
    return folder


def free_addresses(count: int) -> list[str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]


def started(command: list[str], addresses: list[str], index: int) -> subprocess.Popen[str]:
    config = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
    environment = {**os.environ, "TF_CONFIG": config, "TF_CPP_MIN_LOG_LEVEL": "2"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_workers_that_do_the_same_are_not_blamed(job: Path) -> None:
    table = up.rank_table(up.read(job / "equal"))
    assert [statement.code for statement in table.verdict] == ["equal"]


def test_a_worker_with_more_work_is_found_with_its_operator(job: Path) -> None:
    (slow,) = up.rank_table(up.read(job / "work")).stragglers
    assert (slow.rank, slow.cause) == (SLOW_RANK, "compute")
    assert abs(slow.since - SLOW_FROM) <= 2
    assert "MatMul" in slow.names[0][0]


def test_a_worker_whose_batches_take_longer_is_found(job: Path) -> None:
    (slow,) = up.rank_table(up.read(job / "data")).stragglers
    assert (slow.rank, slow.cause) == (SLOW_RANK, "data")
    assert abs(slow.since - SLOW_FROM) <= 2
    assert "Iterator" in slow.names[0][0]


def test_the_other_worker_waits(job: Path) -> None:
    table = up.rank_table(up.read(job / "data"))
    waiting = {row["rank"]: row["waiting_ns"] for row in table.ranks.table.to_pylist()}
    assert waiting[0] > waiting[SLOW_RANK]
