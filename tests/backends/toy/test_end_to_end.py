"""From a training in toy_framework to tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import toy_framework
import train_toy
import unified_profiler as up
from unified_profiler.errors import BackendBusyError
from unified_profiler_toy import backend

STEPS = 3


@pytest.fixture(scope="module")
def trace() -> up.Trace:
    training = train_toy.Training()
    with up.Profiler(backend=backend, record_shapes=True, strict=True) as prof:
        for _ in range(STEPS):
            training.step()
            prof.step()
    return prof.traces[0]


def test_the_op_table_has_every_operator_once_per_step(trace: up.Trace) -> None:
    counts = {row.name: row.call_count for row in up.op_table(trace)}
    operators = ("matmul", "relu", "add", "relu_backward", "matmul_backward", "sgd_step")
    assert counts == dict.fromkeys(operators, STEPS)


def test_events_have_canonical_operators(trace: up.Trace) -> None:
    rows = up.query(trace, "select distinct name, op, origin, direction from events where kind = 'op'").to_arrow()
    assert {row.pop("name"): tuple(row.values()) for row in rows.to_pylist()} == {
        "matmul": ("MatMul", "MatMul", "forward"),
        "relu": ("Relu", "Relu", "forward"),
        "add": ("Add", "Add", "forward"),
        "relu_backward": ("Mul", "Relu", "backward"),
        "matmul_backward": ("MatMul", "MatMul", "backward"),
        "sgd_step": ("x:Optimizer", "x:Optimizer", "update"),
    }


def test_events_have_their_step_and_their_shapes(trace: up.Trace) -> None:
    rows = up.query(trace, "select step, input_shapes from events where name = 'matmul' order by start_ns").to_arrow()
    assert rows.to_pylist() == [{"step": step, "input_shapes": "[[6,4],[4,2]]"} for step in range(STEPS)]


def test_a_native_file_is_read(tmp_path: Path) -> None:
    profiler = toy_framework.Profiler()
    profiler.start()
    train_toy.Training().step()
    profiler.stop()
    profiler.save(tmp_path / "native.json")
    assert {row.name for row in up.op_table(up.read(tmp_path / "native.json"))} >= {"matmul", "sgd_step"}


def test_a_profiler_of_somebody_else_is_left_alone() -> None:
    theirs = toy_framework.Profiler()
    theirs.start()
    try:
        with pytest.raises(BackendBusyError, match="stop it"), up.Profiler(backend=backend, strict=True):
            pass
        assert toy_framework.Profiler.running is theirs
    finally:
        theirs.stop()


def test_run_finds_the_steps_of_a_script(tmp_path: Path) -> None:
    script = Path(train_toy.__file__)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "unified_profiler",
        "run",
        "--output",
        tmp_path / "profile",
        script,
    ]
    subprocess.run(command, check=True, cwd=tmp_path)
    run = up.read(tmp_path / "profile")
    assert {row.name: row.call_count for row in up.op_table(run)}["sgd_step"] == STEPS
