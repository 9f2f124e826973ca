"""Five models, the same in PyTorch, TensorFlow and MindSpore: what the diff of any two of them finds.

The models are those of examples/comparison. Shares are of the medians over the steps, which a machine that is busy for
a moment does not change.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import unified_profiler as up
from unified_profiler.comparison.records import DiffRow

EXAMPLES = Path(__file__).parents[2] / "examples" / "comparison"
RECORDING = """
import importlib, sys
from pathlib import Path
from record import record

framework, folder, *wanted = sys.argv[1:]
models = importlib.import_module(f"models_{framework}")
models.one_thread()
for name in wanted:
    model, _, slow = name.partition("+")
    record(models.training(model, slow or None), Path(folder) / name, steps=10)
"""
FRAMEWORKS = ("torch", "tensorflow", "mindspore")
PAIRS = [("torch", "tensorflow"), ("torch", "mindspore"), ("tensorflow", "mindspore")]
MODELS = ("cnn", "attention", "handwritten", "lstm", "mlp")
SLOW = ("kernel", "transpose", "loop")
PYTHON = "x:Python"
"""Time of the framework's own annotations, which are no operators."""

Recorded = Callable[..., up.Run]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Give the run of a framework and a model, such as `mlp`, or `mlp+loop` with a slow-down; or another try of it."""
    folder = tmp_path_factory.mktemp("comparison")

    def run(framework: str, model: str, attempt: int = 0) -> up.Run:
        place = folder / f"{framework}-{attempt}"
        if not place.is_dir():
            _record(framework, place)
        return up.read(place / model)

    return run


def _record(framework: str, folder: Path) -> None:
    """Record all models of one framework, in a process of its own."""
    folder.mkdir()
    wanted = [*MODELS, *(f"mlp+{slow}" for slow in SLOW)]
    command = [sys.executable, "-c", RECORDING, framework, str(folder), *wanted]
    environment = {"PYTHONPATH": str(EXAMPLES), "TF_CPP_MIN_LOG_LEVEL": "2", "KINETO_LOG_LEVEL": "6"}
    result = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def rows_of(found: up.Diff) -> list[DiffRow]:
    return [row for group in found.rows for row in group.rows if row.name != PYTHON]


def share(rows: Sequence[DiffRow], side: str, holds: Callable[[DiffRow], bool]) -> float:
    """Return the part of a side's time of a step that is in rows which a predicate holds for."""
    times = [(row, getattr(row, side).time_ns) for row in rows if getattr(row, side) is not None]
    return float(sum(time for row, time in times if holds(row)) / sum(time for _, time in times))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_nearly_all_time_is_named_and_has_a_counterpart(
    recorded: Recorded, model: str, first: str, second: str
) -> None:
    found = up.diff(recorded(first, model), recorded(second, model))
    assert found.by == "origin"
    rows = rows_of(found)
    for side in ("baseline", "candidate"):
        assert share(rows, side, lambda row: row.name is not None) >= 0.95
        assert share(rows, side, lambda row: row.baseline is not None and row.candidate is not None) >= 0.93


@pytest.mark.timeout(900)
@pytest.mark.parametrize("model", ["cnn", "lstm", "mlp"])
def test_torch_and_tensorflow_call_the_same_equally_often(recorded: Recorded, model: str) -> None:
    rows = rows_of(up.diff(recorded("torch", model), recorded("tensorflow", model)))
    assert min(share(rows, side, lambda row: bool(row.same_calls)) for side in ("baseline", "candidate")) >= 0.9


@pytest.mark.timeout(900)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_nothing_is_lost_and_a_run_equals_itself(recorded: Recorded, framework: str) -> None:
    for model in MODELS:
        run = recorded(framework, model)
        found = up.diff(run, run, by="origin")
        whole = sum(row.self_cpu_ns for row in up.op_table(run))
        assert found.baseline.total_ns + found.baseline.outside_steps_ns == whole
        assert (
            sum(row.baseline.total_ns for group in found.rows for row in group.rows if row.baseline)
            == found.baseline.total_ns
        )
        assert {row.difference_ns for row in (found.total, *found.rows)} == {0.0}
        assert not any(row.differs for row in found.rows)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("slow", SLOW)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_was_slowed_down_on_purpose_is_named_in_the_first_row(
    recorded: Recorded, framework: str, slow: str
) -> None:
    for attempt in range(2):  # another program may have slowed down one of the runs, and that is told as well
        found = up.diff(*(recorded(framework, model, attempt) for model in ("mlp", f"mlp+{slow}")))
        first = found.rows[0]
        if first.name in NAMED[framework][slow]:
            break
    assert found.by == "name"
    assert first.differs
    assert first.difference_ns > 0
    assert first.name in NAMED[framework][slow], [(row.name, row.difference_ns) for row in found.rows[:5]]


LOOP = {"StridedSlice", "StridedSliceGrad", "AddN", "Tanh"}
NAMED = {
    "torch": {
        "kernel": {"aten::mm", "aten::addmm"},
        "transpose": {"aten::copy_"},
        "loop": {"aten::select", "aten::tanh", "aten::fill_", "aten::add_"},
    },
    "tensorflow": {"kernel": {"MatMul", "_MklMatMul"}, "transpose": {"Transpose", "_MklTranspose"}, "loop": LOOP},
    "mindspore": {"kernel": {"MatMul", "Adam"}, "transpose": {"Transpose"}, "loop": LOOP},
}
"""Which operators the slow-downs consist of.

A larger layer has more parameters to update. A loop over rows takes each out, and its gradient puts each back.
"""


@pytest.mark.timeout(900)
def test_the_same_program_in_turns_shows_no_difference() -> None:
    """Odd cycles against even ones: whatever disturbs the machine for longer disturbs both."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(6)))
    batch = torch.randn(64, 256)
    with up.Profiler(schedule=up.schedule(wait=0, warmup=1, active=4, repeat=10), backend="torch") as prof:
        for _ in range(50):
            model(batch).relu().sum().backward()
            prof.step()
    found = up.diff(up.Run(traces=prof.traces[0::2]), up.Run(traces=prof.traces[1::2]))
    assert (found.baseline.step_count, found.candidate.step_count) == (20, 20)
    assert [row.name for row in found.rows if row.differs] == []
