"""Processes that read cases: each may die or hang, which is a finding about the case that it had, not the end."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from tests.fuzz.outcomes import Outcome, Room, prepare_process

WALL_SECONDS = 300
"""A case that takes longer waits for something that does not come; a busy machine is given time."""
_CASES_PER_PROCESS = 4000
_SPAWN = multiprocessing.get_context("spawn")

Task = tuple[str, int]


@dataclass
class _Worker:
    process: multiprocessing.process.BaseProcess
    connection: Connection
    task: Task
    since: float
    done: int = 1


def judged(tasks: Iterable[Task], *, workers: int) -> Iterator[tuple[Task, Outcome]]:
    """Judge cases in several processes, in any order."""
    waiting = iter(tasks)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        busy = [_started(Path(folder), task) for task in _first(waiting, workers)]
        try:
            while busy:
                yield from _next_outcomes(busy, waiting, Path(folder))
        finally:
            for worker in busy:
                _end(worker)


def _first(tasks: Iterator[Task], count: int) -> list[Task]:
    return [task for _, task in zip(range(count), tasks, strict=False)]


def _next_outcomes(busy: list[_Worker], waiting: Iterator[Task], folder: Path) -> Iterator[tuple[Task, Outcome]]:
    wait([worker.connection for worker in busy], timeout=1)
    for worker in list(busy):
        outcome = _outcome_of(worker)
        if outcome is None:
            continue
        finished = worker.task
        busy.remove(worker)
        after = next(waiting, None)
        if after is not None:
            busy.append(_given(worker, after, folder))
        else:
            _end(worker)
        yield finished, outcome


def _outcome_of(worker: _Worker) -> Outcome | None:
    try:
        if worker.connection.poll():
            outcome: Outcome = worker.connection.recv()
            return outcome
    except (EOFError, OSError):
        worker.process.join()
        code = worker.process.exitcode or 0
        return Outcome("death", signal.Signals(-code).name if code < 0 else f"exit code {code}")
    if time.monotonic() - worker.since > WALL_SECONDS:
        _end(worker)
        return Outcome("hang", f"no end after {WALL_SECONDS} s")
    return None


def _given(worker: _Worker, task: Task, folder: Path) -> _Worker:
    if worker.process.is_alive() and worker.done < _CASES_PER_PROCESS:
        with suppress(OSError):
            worker.connection.send(task)
            return _Worker(worker.process, worker.connection, task, time.monotonic(), worker.done + 1)
    _end(worker)
    return _started(folder, task)


def _started(folder: Path, task: Task) -> _Worker:
    here, there = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(there, tempfile.mkdtemp(dir=folder)), daemon=True)
    process.start()
    there.close()
    here.send(task)
    return _Worker(process, here, task, time.monotonic())


def _end(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.kill()
    worker.process.join()


def _serve(connection: Connection, folder: str) -> None:
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    faulthandler.enable(sys.stderr)
    room = Room(Path(folder, "room"))
    prepare_process()
    with suppress(EOFError, OSError):  # the parent has ended
        while True:
            connection.send(room.judge(*connection.recv()))
