"""Steps of every framework keep their borders and their operators, whenever the annotation of a step is closed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore as ms
import pytest
import tensorflow as tf
import torch
from mindspore import nn, ops

import unified_profiler as up
from unified_profiler.model.borders import largest_move_ns
from unified_profiler.recording.cycle import Cycle

Work = dict[str, Callable[[], object]]
BACKENDS = [["torch"], ["tensorflow"], ["mindspore"], ["torch", "tensorflow", "mindspore"]]


@pytest.fixture(scope="module")
def work() -> Work:
    """A step in each framework."""
    linear = torch.nn.Linear(64, 64)
    weight = tf.Variable(tf.ones([64, 64]))
    dense = nn.Dense(64, 64)
    gradient = ms.value_and_grad(lambda x: dense(x).sum(), None, dense.trainable_params())
    compiled = tf.function(lambda x: tf.reduce_sum(x @ weight), autograph=False)
    steps: Work = {
        "torch": lambda: linear(torch.ones(64, 64)).sum().backward(),
        "tensorflow": lambda: compiled(tf.ones([64, 64])).numpy(),
        "mindspore": lambda: float(gradient(ops.ones((64, 64), ms.float32))[0]),
    }
    for step in steps.values():
        step()
    return steps


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass between the end of a step and the moment when recorders hear of it."""

    def delayed(verb: Any) -> Callable[..., None]:
        def call(self: Cycle, *arguments: int) -> None:
            time.sleep(0.01)
            verb(self, *arguments)

        return call

    for name in ("mark_step", "stop"):
        monkeypatch.setattr(Cycle, name, delayed(getattr(Cycle, name)))


def recorded(work: Work, folder: Path, *, backend: list[str], active: int, **options: Any) -> up.Run:
    schedule = up.schedule(wait=1, warmup=1, active=active, repeat=2)
    profiler = up.Profiler(schedule=schedule, backend=backend, output_dir=folder, strict=True, **options)
    with profiler:
        for _ in range(2 * (2 + active)):
            for name in backend:
                work[name]()
            profiler.step()
    return profiler.run


def check_borders(run: up.Run) -> None:
    """Check that each recorded step is where it was, by the clock of the facade."""
    assert run.steps is not None
    timed = {row["step"]: row for row in run.steps.to_pylist()}
    steps = [row for trace in run.traces for row in trace.events.to_pylist() if row["kind"] == "step"]
    assert [row["step"] for row in steps] == [step for step, row in timed.items() if row["phase"] == "record"]
    for row in steps:
        was = timed[row["step"]]
        largest = largest_move_ns(was["end_ns"] - was["start_ns"])
        assert abs(row["start_ns"] + row["duration_ns"] - was["end_ns"]) <= largest
        if timed[row["step"] - 1]["phase"] == "record":  # a first one begins when recording does
            assert abs(row["start_ns"] - was["start_ns"]) <= largest


def check_operators(run: up.Run, frameworks: list[str]) -> None:
    """Check that every step of a cycle has the same operators of all frameworks, and that no operator lies outside."""
    for trace in run.traces:
        rows = [row for row in trace.events.to_pylist() if row["kind"] == "op"]
        steps = {row["step"] for row in trace.events.to_pylist() if row["kind"] == "step"}
        counts = {step: Counter((r["framework"], r["name"]) for r in rows if r["step"] == step) for step in steps}
        assert {row["step"] for row in rows} == steps
        assert {framework for count in counts.values() for framework, _ in count} == set(frameworks)
        assert len({tuple(sorted(count.items())) for count in counts.values()}) == 1


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("active", [1, 3])
@pytest.mark.parametrize("keep_native", [False, True])
@pytest.mark.parametrize("backend", BACKENDS, ids="+".join)
def test_steps_keep_their_borders_and_operators(
    work: Work, tmp_path: Path, backend: list[str], keep_native: bool, active: int
) -> None:
    run = recorded(work, tmp_path, backend=backend, active=active, keep_native=keep_native)
    check_borders(run)
    check_operators(run, backend)


@pytest.mark.parametrize("backend", BACKENDS, ids="+".join)
def test_deferred_steps_with_native_files_keep_their_borders_and_operators(
    work: Work, tmp_path: Path, backend: list[str]
) -> None:
    run = recorded(work, tmp_path, backend=backend, active=2, keep_native=True, deliver="deferred")
    check_borders(run)
    check_operators(run, backend)


@pytest.mark.parametrize("keep_native", [False, True])
@pytest.mark.parametrize("backend", BACKENDS[:3], ids="+".join)
def test_keeping_native_files_adds_no_step(work: Work, tmp_path: Path, backend: list[str], keep_native: bool) -> None:
    with up.Profiler(backend=backend, output_dir=tmp_path, keep_native=keep_native, strict=True) as prof:
        for _ in range(2):
            work[backend[0]]()
            prof.step()
    assert [row["step"] for row in prof.traces[0].events.to_pylist() if row["kind"] == "step"] == [0, 1]
