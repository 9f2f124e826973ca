"""`unified-profiler run` on real MindSpore scripts: which steps are found, and what is recorded of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from unified_profiler.model.records import Manifest
from unified_profiler.model.run import Run, read_run
from unified_profiler.presentation.texts import texts

SETUP = """
import sys
import mindspore as ms, numpy as np
from mindspore import dataset, nn
net = nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 2)).set_train()
loss_fn = nn.MSELoss()
x, y = ms.Tensor(np.ones((2, 4), np.float32)), ms.Tensor(np.ones((2, 2), np.float32))
def momentum(): return nn.Momentum(net.trainable_params(), 0.01, 0.9)
def forward(x, y): return loss_fn(net(x), y)
grad = ms.value_and_grad(forward, None, net.trainable_params())
data = {"x": np.ones((16, 4), np.float32), "y": np.ones((16, 2), np.float32)}
batches = dataset.NumpySlicesDataset(data, shuffle=False).batch(2)
"""


@dataclass
class Ran:
    """How a script under the launcher ended, and what it left."""

    code: int
    stdout: str
    stderr: str
    run: Run

    @property
    def manifest(self) -> Manifest:
        return self.run.manifests[0]

    @property
    def signal(self) -> tuple[str, int] | None:
        found = self.manifest.step_signal
        return None if found is None else (found.name, found.sources)

    def calls(self, name: str) -> dict[int | None, int]:
        """Return how often an operator ran in each step."""
        rows = [row for trace in self.run.traces for row in trace.events.select(["name", "step"]).to_pylist()]
        return dict(Counter(row["step"] for row in rows if row["name"] == name))


Launch = Callable[..., Ran]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    def run(text: str, *options: str, **variables: str) -> Ran:
        """Start the installed command: `python -m` is something that MindSpore's tracing cannot stand."""
        (tmp_path / "script.py").write_text(text)
        command = str(Path(sys.executable).with_name("unified-profiler"))
        done = subprocess.run(
            [command, "run", "-o", "profile", *options, "script.py"],
            cwd=tmp_path,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=900,
        )
        print(f"exit code {done.returncode}\n{done.stderr}")
        (path,) = (tmp_path / "profile").iterdir()
        ran = Ran(done.returncode, done.stdout, done.stderr, read_run(path))
        assert ran.manifest.failures == ()
        assert "Exception ignored" not in ran.stderr
        return ran

    return run


def test_a_loop_with_an_optimizer_in_pynative_mode(launch: Launch) -> None:
    text = SETUP + "optimizer = momentum()\nfor i in range(8):\n    loss, grads = grad(x, y)\n    optimizer(grads)\n"
    ran = launch(text + "print('end')\n")
    assert ran.code == 0
    assert ran.stdout.startswith("end\n\n")
    assert (ran.signal, ran.manifest.step_count) == (("optimizer", 1), 8)
    assert ran.calls("ApplyMomentum") == dict.fromkeys((2, 3, 4), 4)
    assert "ApplyMomentum" in ran.stdout
    assert "of 8 were recorded; each step was ended by optimizer" in ran.stderr


def test_api_calls_are_told_once_beside_the_hooks_that_see_steps(launch: Launch) -> None:
    text = SETUP + "optimizer = momentum()\nfor i in range(8):\n    loss, grads = grad(x, y)\n    optimizer(grads)\n"
    ran = launch(text, "--api", "--with-modules")
    assert (ran.signal, ran.manifest.step_count) == (("optimizer", 1), 8)
    for name in ("nn.SequentialCell", "nn.MSELoss", "grad", "nn.Momentum"):
        assert ran.calls(f"mindspore.{name}") == dict.fromkeys((2, 3, 4), 1), name
    assert ran.calls("Dense") == dict.fromkeys((2, 3, 4), 2)
    assert "mindspore.nn.Momentum" in ran.stdout
    assert "with_modules had no effect on mindspore" in ran.stderr
    assert ran.stderr.count("(`run --api-synchronize`)") == 2
    assert "API calls of mindspore that only queue work" in ran.stderr


def test_operators_carry_their_module_where_calls_wait_for_them(launch: Launch) -> None:
    text = SETUP + "optimizer = momentum()\nfor i in range(8):\n    loss, grads = grad(x, y)\n    optimizer(grads)\n"
    ran = launch(text, "--api-synchronize", "--with-modules", "--no-table")
    rows = ran.run.traces[0].events.select(["kind", "module"]).to_pylist()
    assert {"0", "1"} < {row["module"] for row in rows if row["kind"] == "op"}
    assert "hint:" not in ran.stderr


def test_totals_of_memory_are_counters_and_a_hint_states_that_in_chinese_too(launch: Launch) -> None:
    text = SETUP + "optimizer = momentum()\nfor i in range(8):\n    loss, grads = grad(x, y)\n    optimizer(grads)\n"
    ran = launch(text, "--profile-memory", "--no-table", LANG="zh_CN.UTF-8", LC_ALL="zh_CN.UTF-8")
    names = ran.run.traces[0].events.select(["name"])["name"].to_pylist()
    assert "Total Allocated(Byte)" in names
    assert texts("zh")["advice.memory_totals"].format(framework="mindspore") in ran.stderr


def test_a_model_in_graph_mode_with_the_options_of_the_environment(launch: Launch, tmp_path: Path) -> None:
    text = (
        SETUP
        + "ms.set_context(mode=ms.GRAPH_MODE)\nmodel = ms.train.Model(net, loss_fn, momentum(), metrics={'mae'})\n"
    )
    options = '{"start": true, "activities": ["CPU"], "schedule": {"wait": 7, "warmup": 0, "active": 2, "repeat": 1}}'
    ran = launch(text + "model.fit(2, batches, batches)\n", "--no-table", UNIFIED_PROFILER_OPTIONS=options)
    assert (ran.code, ran.stdout) == (0, "")
    assert (ran.signal, ran.manifest.step_count) == (("model", 1), 16)
    assert ran.calls("ApplyMomentum") == {7: 4, 8: 4}
    assert ran.calls("evaluation") == {None: 1}  # between the two
    names = {name for name in ran.run.traces[0].events["name"].to_pylist() if "MatMul" in name}
    assert any(ran.calls(name).get(None) for name in names)
    assert all(ran.calls(name).get(7) == ran.calls(name).get(8) for name in names)


def test_a_compiled_step_then_a_traced_one(launch: Launch) -> None:
    text = SETUP + "optimizer = momentum()\n"
    text += "def step(x, y):\n    loss, grads = grad(x, y)\n    optimizer(grads)\n    return loss\n"
    text += "compiled, traced = ms.jit(step), ms.jit(net.construct, capture_mode='trace')\n"
    text += "for i in range(8):\n    compiled(x, y)\n    traced(x)\n"
    ran = launch(text, "--no-table")
    assert (ran.code, ran.signal, ran.manifest.step_count) == (0, ("optimizer", 1), 8)
    assert ran.calls("ApplyMomentum") == dict.fromkeys((2, 3, 4), 4)


def test_inference_waits_for_a_surer_signal_and_then_goes_by_the_cell(launch: Launch) -> None:
    ran = launch(SETUP + "net.set_train(False)\nfor i in range(12): net(x)\n", "--no-table")
    assert ran.signal == ("forward", 1)
    assert "of 12 were recorded; each step was ended by forward" in ran.stderr
    assert ran.calls("MatMul") == dict.fromkeys((5, 6, 7), 2)


def test_a_script_that_profiles_itself_gets_its_own_results(launch: Launch, tmp_path: Path) -> None:
    text = SETUP + (
        "net(x)\nhandler = ms.profiler.tensorboard_trace_handler('own', analyse_flag=False)\n"
        "with ms.profiler.profile(activities=[ms.profiler.ProfilerActivity.CPU], on_trace_ready=handler):\n"
        "    for i in range(8): net(x)\n"
    )
    ran = launch(text, "--no-table")
    assert ran.code == 0
    assert ran.stderr.count("hint:") == ran.stderr.count("uses a native profiler itself") == 1
    (own,) = (tmp_path / "own").glob("*/FRAMEWORK/cpu_op_execute_timestamp_*.txt")
    events = [line.split(";")[2].split() for line in own.read_text().splitlines() if "MatMul" in line]
    assert sum(map(len, events)) == 8 * 2
    assert sum(ran.calls("MatMul").values()) == 2


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(8):\n    loss, grads = grad(x, y)\n    optimizer(grads)\n",
        "ms.train.Model(net, loss_fn, optimizer).train(1, batches)\n",
    ],
    ids=["loop", "model"],
)
def test_the_first_step_begins_after_the_start_up(launch: Launch, loop: str) -> None:
    text = (
        "import time\nnet.set_train(False)(x)\nnet.set_train()\noptimizer = momentum()\nprint('LOOP', time.time_ns())\n"
    )
    ran = launch(SETUP + text + loop)
    began = int(next(line for line in ran.stdout.splitlines() if line.startswith("LOOP ")).split()[1])
    assert ran.run.steps is not None
    first = ran.run.steps["start_ns"][0].as_py()
    assert began <= first < ran.run.steps["end_ns"][0].as_py()
    assert ran.manifest.start_up_ns == first - ran.manifest.started_ns
