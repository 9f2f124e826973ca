"""All frameworks in one process under `backend="auto"`: one trace per cycle, one clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import mindspore as ms
import pytest
import tensorflow as tf
import torch
from mindspore import nn, ops

import unified_profiler as up
from unified_profiler.model.trace import Trace

FRAMEWORKS = {"torch", "tensorflow", "mindspore"}


@pytest.fixture(scope="module")
def work() -> dict[str, Callable[[], object]]:
    """A step in each framework, each with a matrix multiplication of its own size."""
    linear = torch.nn.Linear(8, 4)
    weight = tf.Variable(tf.ones([16, 4]))
    dense = nn.Dense(32, 4)
    gradient = ms.value_and_grad(lambda x: dense(x).sum(), None, dense.trainable_params())
    compiled = tf.function(lambda x: tf.reduce_sum(x @ weight), autograph=False)
    return {
        "torch": lambda: linear(torch.ones(2, 8)).sum().backward(),
        "tensorflow": lambda: compiled(tf.ones([2, 16])),
        "mindspore": lambda: gradient(ops.ones((2, 32), ms.float32)),
    }


@pytest.fixture(scope="module")
def recorded(work: dict[str, Callable[[], object]]) -> tuple[list[Trace], dict[tuple[str, int], tuple[int, int]]]:
    """The traces of two cycles, and when each framework worked in each step."""
    worked: dict[tuple[str, int], tuple[int, int]] = {}
    schedule = up.schedule(wait=1, warmup=1, active=2, repeat=2)
    with up.Profiler(schedule=schedule, backend="auto", strict=True) as prof:
        for step in range(8):
            for framework, call in work.items():
                start = time.time_ns()
                call()
                worked[framework, step] = start, time.time_ns()
            prof.step()
    return list(prof.traces), worked


def ops_of(trace: Trace) -> list[dict[str, object]]:
    columns = ["framework", "name", "kind", "step", "start_ns", "duration_ns"]
    return [row for row in trace.events.select(columns).to_pylist() if row["kind"] == "op"]


def test_each_cycle_is_one_trace_with_all_frameworks(recorded: tuple[list[Trace], object]) -> None:
    traces, _ = recorded
    assert [{(row["framework"], row["step"]) for row in ops_of(trace)} for trace in traces] == [
        {(framework, step) for framework in FRAMEWORKS for step in steps} for steps in ((2, 3), (6, 7))
    ]
    assert all(set(trace.info.frameworks) == FRAMEWORKS for trace in traces)


def test_every_step_holds_the_same_operators(recorded: tuple[list[Trace], object]) -> None:
    counts = [
        Counter((row["framework"], row["name"]) for row in ops_of(trace) if row["step"] == step)
        for trace, steps in zip(recorded[0], ((2, 3), (6, 7)), strict=True)
        for step in steps
    ]
    assert counts[0]["tensorflow", "MatMul"] == counts[0]["torch", "aten::addmm"] == 1
    assert counts[0]["mindspore", "MatMul"] >= 1
    assert all(count == counts[0] for count in counts)


def test_events_lie_where_their_framework_worked_by_the_common_clock(
    recorded: tuple[list[Trace], dict[tuple[str, int], tuple[int, int]]],
) -> None:
    traces, worked = recorded
    slack_ns = 100_000  # clocks of the frameworks are read at other moments than ours
    for row in (row for trace in traces for row in ops_of(trace)):
        if (
            row["framework"] == "mindspore"
        ):  # it only queues its kernels: they run at the end of the step, at the latest
            continue
        first, last = worked[row["framework"], row["step"]]  # type: ignore[index]
        assert first - slack_ns <= row["start_ns"], row  # type: ignore[operator]
        assert row["start_ns"] + row["duration_ns"] <= last + slack_ns, row  # type: ignore[operator]


def test_the_run_holds_what_each_native_profiler_wrote(work: dict[str, Callable[[], object]], tmp_path: Path) -> None:
    with up.Profiler(output_dir=tmp_path, keep_native=True, strict=True) as prof:
        for call in work.values():
            call()
        prof.step()
    assert prof.run.path is not None
    native = prof.run.path / "rank-00000" / "native" / "cycle-00000"
    assert {folder.name for folder in native.iterdir()} == FRAMEWORKS
    again = [
        up.read(path).traces[0]
        for path in (native / "mindspore", native / "tensorflow", native / "torch" / "torch.pt.trace.json")
    ]
    assert [set(trace.events.column("framework").to_pylist()) for trace in again] == [{f} for f in sorted(FRAMEWORKS)]
