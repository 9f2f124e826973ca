"""Five models, the same in PyTorch, TensorFlow and MindSpore: what the diff of any two of them finds.

The models are those of examples/comparison. They are recorded for real, on a machine that may be busy with other
programs: these lengthen some steps of any operator, so shares are of the times that a quarter of the steps stay below;
and they lengthen all steps of large operators, so what is slowed down on purpose has many times the work of the rest.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import unified_profiler as up
from unified_profiler.comparison.records import DiffRow

EXAMPLES = Path(__file__).parents[2] / "examples" / "comparison"
RECORDING = """
import importlib, json, sys
from pathlib import Path
import sizes
from record import record

framework, folder, wanted, slowed = sys.argv[1:]
models = importlib.import_module(f"models_{framework}")
models.one_thread()
for name in json.loads(wanted):
    record(models.training(name), Path(folder, name), steps=10)
for slow, changed in json.loads(slowed).items():
    vars(sizes).update(changed)
    record(models.training("mlp"), Path(folder, slow, "before"), steps=10)
    record(models.training("mlp", slow), Path(folder, slow, "after"), steps=10)
"""
FRAMEWORKS = ("torch", "tensorflow", "mindspore")
PAIRS = [("torch", "tensorflow"), ("torch", "mindspore"), ("tensorflow", "mindspore")]
MODELS = ("cnn", "attention", "handwritten", "lstm", "mlp")
SLOWED = {
    "kernel": {"ROWS": 512, "COLUMNS": 64, "HIDDEN": 256, "WIDER": 32},
    "transpose": {"ROWS": 8192, "COLUMNS": 16, "HIDDEN": 64, "TURNS": 200},
    "loop": {"ROWS": 128, "COLUMNS": 16, "HIDDEN": 64},
}
"""Sizes of the mlp with which a slow-down has at least ten times the work of all the rest, or ten times the calls."""
PYTHON = "x:Python"
"""Time of the framework's own annotations, which are no operators."""

Recorded = Callable[..., up.Run]
ByCounts = Callable[[up.Run], up.Run]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Give the run of a framework and a model, such as `mlp`, or of a slow-down, such as `loop/before`."""
    folder = tmp_path_factory.mktemp("comparison")

    def run(framework: str, name: str) -> up.Run:
        place = folder / framework
        if not place.is_dir():
            _record(framework, place)
        return up.read(place / name)

    return run


def _record(framework: str, folder: Path) -> None:
    """Record everything of one framework, in a process of its own."""
    folder.mkdir()
    command = [sys.executable, "-c", RECORDING, framework, str(folder), json.dumps(MODELS), json.dumps(SLOWED)]
    environment = {"PYTHONPATH": str(EXAMPLES), "TF_CPP_MIN_LOG_LEVEL": "2"}
    result = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def rows_of(found: up.Diff) -> list[DiffRow]:
    return [row for group in found.rows for row in group.rows if row.name != PYTHON]


def share(rows: Sequence[DiffRow], side: str, holds: Callable[[DiffRow], bool]) -> float:
    """Return the part of a side's time of an undisturbed step that is in rows which a predicate holds for."""
    times = [(row, getattr(row, side).low_ns) for row in rows if getattr(row, side) is not None]
    return float(sum(time for row, time in times if holds(row)) / sum(time for _, time in times))


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


@pytest.mark.parametrize("model", ["cnn", "lstm", "mlp"])
def test_torch_and_tensorflow_call_the_same_equally_often(recorded: Recorded, model: str) -> None:
    rows = rows_of(up.diff(recorded("torch", model), recorded("tensorflow", model)))
    assert min(share(rows, side, lambda row: bool(row.same_calls)) for side in ("baseline", "candidate")) >= 0.9


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


@pytest.mark.parametrize("slow", ["kernel", "transpose"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_operator_with_many_times_the_work_is_named_in_the_first_row(
    recorded: Recorded, framework: str, slow: str
) -> None:
    found = up.diff(*(recorded(framework, f"{slow}/{when}") for when in ("before", "after")))
    first = found.rows[0]
    assert found.by == "name"
    assert first.differs
    assert first.difference_ns > 0
    assert first.name in SLOW[framework][slow], [(row.name, row.difference_ns) for row in found.rows[:5]]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_loop_over_small_operators_is_named_in_the_first_rows(
    recorded: Recorded, by_counts: ByCounts, framework: str
) -> None:
    found = up.diff(*(by_counts(recorded(framework, f"loop/{when}")) for when in ("before", "after")))
    assert found.by == "name"
    differing = [row.name for row in found.rows if row.differs]
    assert SLOW[framework]["loop"] <= set(differing), differing
    assert differing[0] in SLOW[framework]["loop"], differing


LOOP = {"StridedSlice", "StridedSliceGrad", "Tanh", "TanhGrad"}
SLOW = {
    "torch": {
        "kernel": {"aten::mm", "aten::addmm"},
        "transpose": {"aten::copy_"},
        "loop": {"aten::select", "aten::select_backward", "aten::tanh", "aten::tanh_backward"},
    },
    "tensorflow": {"kernel": {"MatMul", "_MklMatMul"}, "transpose": {"Transpose", "_MklTranspose"}, "loop": LOOP},
    "mindspore": {"kernel": {"MatMul"}, "transpose": {"Transpose"}, "loop": LOOP},
}
"""Which operators the slow-downs consist of. A loop over rows takes each out, and its gradient puts each back."""


def test_the_same_program_shows_no_difference() -> None:
    """Single steps of it are dealt out to both sides at random: whatever disturbs the machine disturbs both alike."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(6)))
    batch = torch.randn(64, 256)
    with up.Profiler(schedule=up.schedule(wait=0, warmup=1, active=1, repeat=60), backend="torch") as prof:
        for _ in range(120):
            model(batch).relu().sum().backward()
            prof.step()
    chosen = set(random.Random(0).sample(range(60), 30))  # noqa: S311  no secret
    sides = [[trace for trace in prof.traces if (trace.info.cycle in chosen) is side] for side in (True, False)]
    found = up.diff(*(up.Run(traces=traces) for traces in sides))
    assert (found.baseline.step_count, found.candidate.step_count) == (30, 30)
    assert [row.name for row in found.rows if row.differs] == []
