"""`unified-profiler run` on real scripts: their output and exit code, the steps found, the run that is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from unified_profiler.model.records import Manifest
from unified_profiler.model.run import Run, read_run
from unified_profiler.report import summarize

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
SETUP = """
import sys, os, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
x = torch.randn(4, 8)
"""
SGD = "opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
STEP = "    model(x).square().mean().backward(); opt.step(); opt.zero_grad()\n"


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
        signal = self.manifest.step_signal
        return None if signal is None else (signal.name, signal.sources)

    @property
    def recorded_steps(self) -> list[int]:
        steps = {step for trace in self.run.traces for step in trace.events.column("step").to_pylist()}
        return sorted(step for step in steps if step is not None)

    def calls(self, name: str) -> int:
        return sum(trace.events.column("name").to_pylist().count(name) for trace in self.run.traces)


Launch = Callable[..., Ran]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    def run(text: str, *options: str, args: tuple[str, ...] = (), file: str = "script.py") -> Ran:
        (tmp_path / file).write_text(text)
        target = () if "-m" in options else (file,)
        done = subprocess.run(
            [sys.executable, "-m", "unified_profiler", "run", *options, *target, *args],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=900,
        )
        print(f"exit code {done.returncode}\n{done.stderr}")
        (path,) = (tmp_path / "profile").iterdir()
        ran = Ran(done.returncode, done.stdout, done.stderr, read_run(path))
        assert ran.manifest.failures == ()
        return ran

    return run


def test_a_training_loop_with_arguments_and_settings_of_its_own(launch: Launch) -> None:
    text = (
        "import os\nos.environ['TORCH_SHOW_CPP_STACKTRACES'] = '1'\nimport sys\nassert 'torch' not in sys.modules\n"
        + SETUP
        + SGD
        + "for i in range(8):\n"
        + STEP
        + "    print('step', i)\nprint(sys.argv, __name__)\n"
    )
    ran = launch(text, args=("--", "--epochs", "-o", "1"))
    own = "".join(f"step {i}\n" for i in range(8)) + "['script.py', '--epochs', '-o', '1'] __main__\n"
    assert ran.code == 0
    assert ran.stdout.startswith(own + "\n")
    assert "aten::addmm" in ran.stdout.removeprefix(own)
    assert (ran.signal, ran.manifest.step_count) == (("optimizer", 1), 8)
    assert ran.recorded_steps == [2, 3, 4]
    assert ran.calls("aten::addmm") == 3 * 2
    assert "of 8 were recorded; each step was ended by optimizer" in ran.stderr
    assert f"run written to profile/{ran.manifest.run}\n" in ran.stderr


def test_steps_end_after_the_annotation_of_the_optimizer(launch: Launch) -> None:
    (trace,) = launch(SETUP + SGD + "for i in range(8):\n" + STEP, "--no-table").run.traces
    spans = trace.events.select(["kind", "name", "step", "tid", "start_ns", "duration_ns"]).to_pylist()
    steps = {span["step"]: span for span in spans if span["kind"] == "step"}
    updates = [span for span in spans if span["name"] == "Optimizer.step#SGD.step"]
    ends = [update["start_ns"] + update["duration_ns"] for update in updates]
    assert [update["step"] for update in updates] == sorted(steps) == [2, 3, 4]
    assert all(end <= step["start_ns"] + step["duration_ns"] for end, step in zip(ends, steps.values(), strict=True))
    assert {step["tid"] for step in steps.values()} == {update["tid"] for update in updates}


def test_api_calls_and_modules(launch: Launch) -> None:
    ran = launch(SETUP + SGD + "for i in range(8):\n" + STEP, "--api", "--with-modules")
    assert (ran.signal, ran.manifest.step_count, ran.recorded_steps) == (("optimizer", 1), 8, [2, 3, 4])
    wanted = ("torch.nn.Sequential", "torch.Tensor.backward", "torch.optim.SGD.step", "torch.optim.Optimizer.zero_grad")
    assert [ran.calls(name) for name in wanted] == [3, 3, 3, 3]
    assert ran.stdout.index("aten::") < ran.stdout.index("torch.nn.Sequential")  # the operators, then the calls
    kinds = ran.run.traces[0].events.select(["kind", "module"]).to_pylist()
    assert {row["module"] for row in kinds if row["kind"] == "op"} == {None, "0", "1", "2"}


def test_calls_that_the_framework_makes_itself(launch: Launch) -> None:
    ran = launch(SETUP + SGD + "for i in range(8):\n" + STEP, "--api-inside", "--no-table")
    assert ran.calls("torch.nn.functional.linear") == 3 * 2
    assert ran.stdout == ""


def test_gradient_accumulation_and_schedule_options(launch: Launch) -> None:
    text = SETUP + SGD + "for i in range(12):\n    model(x).sum().backward()\n    if i % 3 == 2: opt.step()\n"
    ran = launch(text, "--wait", "1", "--warmup", "0", "--active", "2", "--record-shapes", "--no-table")
    assert (ran.signal, ran.manifest.step_count) == (("optimizer", 1), 4)
    assert ran.recorded_steps == [1, 2]
    assert ran.calls("aten::addmm") == 2 * 3 * 2
    assert ran.stdout == ""
    shapes = ran.run.traces[0].events.column("input_shapes")
    assert shapes.null_count < len(shapes)


def test_optimizers_stepped_within_backward(launch: Launch) -> None:
    text = (
        SETUP
        + "optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}\n"
        + "for p in model.parameters():\n"
        + "    p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())\n"
        + "for i in range(8):\n    model(x).square().mean().backward()\n    print(float(model[0].weight.sum()))\n"
    )
    ran = launch(text, "--no-table")
    assert (ran.code, ran.signal, ran.manifest.step_count) == (0, ("optimizer", 4), 8)
    assert ran.recorded_steps == [2, 3, 4]
    assert ran.calls("aten::addmm") == 3 * 2
    plain = subprocess.run([sys.executable, "-c", text], env=ENVIRONMENT, capture_output=True, text=True)
    assert ran.stdout == plain.stdout


def test_two_optimizers_in_each_step(launch: Launch) -> None:
    text = (
        SETUP
        + SGD
        + "second = torch.optim.Adam(model.parameters())\nfor i in range(8):\n"
        + STEP
        + "    second.step()\n"
    )
    ran = launch(text)
    assert (ran.signal, ran.manifest.step_count) == (("optimizer", 2), 8)
    assert ran.calls("Optimizer.step#Adam.step") == ran.calls("Optimizer.step#SGD.step") == 3


def test_lbfgs(launch: Launch) -> None:
    text = (
        SETUP + "opt = torch.optim.LBFGS(model.parameters(), max_iter=3)\n"
        "def closure():\n    opt.zero_grad(); loss = model(x).square().mean(); loss.backward(); return loss\n"
        "for i in range(6): opt.step(closure)\n"
    )
    ran = launch(text)
    assert (ran.signal, ran.manifest.step_count) == (("optimizer", 1), 6)


def test_a_loop_without_an_optimizer(launch: Launch) -> None:
    text = (
        SETUP + "for i in range(12):\n    model(x).square().mean().backward()\n    with torch.no_grad():\n"
        "        for p in model.parameters(): p -= 0.1 * p.grad; p.grad = None\n"
    )
    ran = launch(text)
    assert ran.signal == ("backward", 1)
    assert "of 12 were recorded; each step was ended by backward" in ran.stderr
    assert ran.calls("aten::addmm") == 3 * 2


def test_inference_with_a_chosen_signal(launch: Launch) -> None:
    text = SETUP + "model.eval()\nwith torch.no_grad():\n    for i in range(8): model(x)\n"
    ran = launch(text, "--step-signal", "forward")
    assert (ran.signal, ran.manifest.step_count) == (("forward", 1), 8)
    assert ran.recorded_steps == [2, 3, 4]


def test_inference_over_a_loader_with_forked_workers(launch: Launch) -> None:
    text = (
        SETUP + "from torch.utils.data import DataLoader, TensorDataset\nmodel.eval()\n"
        "loader = DataLoader(TensorDataset(torch.randn(24, 8)), batch_size=2, num_workers=2)\n"
        "with torch.no_grad():\n    print(sum(len(model(b)) for (b,) in loader))\n"
    )
    ran = launch(text)
    assert ran.stdout.startswith("24\n\n")
    assert ran.signal == ("dataloader", 1)
    assert "of 12 were recorded; each step was ended by dataloader" in ran.stderr
    assert ran.calls("aten::addmm") == 3 * 2


def test_a_script_without_steps_is_recorded_from_the_import_on(launch: Launch) -> None:
    ran = launch("import torch\na = torch.randn(8, 8)\nfor _ in range(5): a = a @ a\nprint('done')\n")
    assert ran.code == 0
    assert ran.signal is None
    assert ran.calls("aten::matmul") == 5
    assert "aten::matmul" in ran.stdout
    assert any("No end of a step was seen" in hint for hint in ran.run.traces[0].info.hints)


def test_the_recording_from_the_import_on_ends_after_its_time(launch: Launch) -> None:
    text = "import time, torch\na, n = torch.randn(8, 8), 0\n"
    text += "while torch.autograd._profiler_enabled():\n    a @ a; n += 1; time.sleep(0.01)\n"
    text += "for _ in range(5): a @ a\nprint(n)\n"
    ran = launch(text, "--opening-limit", "2", "--no-table")
    assert 0 < ran.calls("aten::matmul") <= int(ran.stdout)


def test_work_before_the_first_operator_takes_none_of_the_opening(launch: Launch) -> None:
    text = "import time, torch\nuntil = time.monotonic() + 3\nwhile time.monotonic() < until: pass\n"
    ran = launch(text + "a = torch.randn(8, 8)\na @ a\n", "--opening-limit", "1", "--no-table")
    assert (ran.code, ran.calls("aten::matmul")) == (0, 1)


def test_a_script_that_stops_before_the_window_is_recorded_from_the_import_on(launch: Launch) -> None:
    ran = launch(SETUP + SGD + "for i in range(2):\n" + STEP)
    assert ran.manifest.step_count == 2
    assert ran.calls("aten::addmm") >= 2
    assert "ended after 2 steps" in ran.stderr


def test_a_script_that_raises_in_the_window(launch: Launch) -> None:
    text = SETUP + SGD + "for i in range(8):\n    if i == 4: model(x.T)\n" + STEP
    ran = launch(text)
    assert ran.code == 1
    assert ran.stderr.count("Traceback") == 1
    assert "in <module>\n    if i == 4: model(x.T)\n" in ran.stderr
    assert "unified_profiler" not in ran.stderr[ran.stderr.index("Traceback") : ran.stderr.index("RuntimeError")]
    assert ran.recorded_steps == [2, 3, 4]
    assert not ran.run.traces[0].info.complete


def test_a_script_that_exits_with_a_code(launch: Launch) -> None:
    ran = launch(SETUP + SGD + "for i in range(6):\n" + STEP + "sys.exit(3)\n")
    assert (ran.code, ran.manifest.step_count) == (3, 6)
    assert ran.manifest.ended_ns is not None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_script_that_is_terminated(launch: Launch, number: signal.Signals, code: int) -> None:
    ran = launch(SETUP + SGD + f"for i in range(8):\n    if i == 4: os.kill(os.getpid(), {int(number)})\n" + STEP)
    assert ran.code == code
    assert ran.recorded_steps[:2] == [2, 3]
    assert "aten::addmm" in ran.stdout


def test_a_script_that_is_terminated_in_the_import_of_the_framework_leaves_no_run(tmp_path: Path) -> None:
    text = (
        "import os, signal, sys, threading, time\n"
        "def terminate():\n"
        "    while 'unified_profiler_torch.record.recorder' not in sys.modules: time.sleep(0.001)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "threading.Thread(target=terminate, daemon=True).start()\n"
        "import torch\n"
        "print('goes on')\n"
    )
    (tmp_path / "script.py").write_text(text)
    command = [sys.executable, "-m", "unified_profiler", "run", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stdout) == (143, "")
    assert "failed" not in done.stderr
    assert not list(tmp_path.glob("profile/*"))


def test_a_script_with_its_own_handler_of_sigterm(launch: Launch) -> None:
    text = (
        "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: print('mine'))\n"
        + SETUP
        + "os.kill(os.getpid(), signal.SIGTERM)\nprint('goes on')\n"
    )
    ran = launch(text, "--no-table")
    assert (ran.code, ran.stdout) == (0, "mine\ngoes on\n")


def test_a_module(launch: Launch) -> None:
    text = SETUP + SGD + "for i in range(6):\n" + STEP + "print(sys.argv[1:], __spec__.name)\n"
    ran = launch(text, "-m", "trainer", "--", "--x", file="trainer.py")
    assert ran.stdout.startswith("['--x'] trainer\n\n")
    assert ran.manifest.step_count == 6


def test_a_script_that_profiles_itself_gets_its_own_results(launch: Launch) -> None:
    text = SETUP + SGD + "with torch.profiler.profile() as prof:\n    for i in range(8):\n    " + STEP
    text += "print(sum(e.count for e in prof.key_averages() if e.key == 'aten::addmm'))\n"
    ran = launch(text)
    assert ran.stdout.startswith("16\n\n")
    assert ran.stderr.count("hint:") == ran.stderr.count("uses a native profiler itself") == 1
    assert ran.calls("aten::randn") == 1


def test_a_script_without_a_framework(launch: Launch) -> None:
    ran = launch("import sys\nprint('plain', 'torch' in sys.modules, 'duckdb' in sys.modules)\n")
    assert (ran.code, ran.stdout) == (0, "plain False False\n")
    assert "imported no framework" in ran.stderr


def test_a_child_process_that_runs_on_to_the_end_of_the_script_leaves_the_run_alone(launch: Launch) -> None:
    text = SETUP + SGD + "child = os.fork()\nfor i in range(8 if child else 0):\n" + STEP
    text += "if not child: print('child'); sys.exit(5)\nprint(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    ran = launch(text)
    assert ran.stdout.startswith("child\n5\n\n")
    assert ran.stdout.count("aten::addmm") == 1
    assert ran.manifest.step_count == 8


def test_each_rank_of_a_job_writes_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        SETUP + SGD + "for i in range(24):\n" + STEP + "print('rank', os.environ['RANK'])\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "unified_profiler"]
    done = subprocess.run(
        [*torchrun, "run", "script.py"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert {"rank 0", "rank 1"} <= set(done.stdout.splitlines())
    assert done.stdout.count("aten::addmm ") == 1
    (path,) = (tmp_path / "profile").iterdir()
    run = read_run(path)
    assert run.ranks == [0, 1]
    assert [trace.info.rank for trace in run.traces] == [0, 1]
    assert [manifest.step_count for manifest in run.manifests.values()] == [24, 24]
    verdict = [statement.code for statement in summarize(run).ranks_verdict]
    assert verdict
    assert "ranks.too_few" not in verdict
    assert all(trace.info.last_step == 21 for trace in run.traces)


LOADER = """
import time
from torch.utils.data import DataLoader, TensorDataset
model(x)  # a look at the shapes
data = DataLoader(TensorDataset(torch.randn(24, 8)), batch_size=4)
print("LOOP", time.time_ns())
for (x,) in data:
"""


def loop_ns(ran: Ran) -> int:
    return int(next(line for line in ran.stdout.splitlines() if line.startswith("LOOP ")).split()[1])


def test_the_first_step_begins_with_the_loop_over_the_data(launch: Launch) -> None:
    ran = launch(SETUP + SGD + LOADER + STEP)
    assert ran.run.steps is not None
    first = ran.run.steps["start_ns"][0].as_py()
    assert loop_ns(ran) <= first < ran.run.steps["end_ns"][0].as_py()
    assert ran.manifest.start_up_ns == first - ran.manifest.started_ns


def test_what_ran_before_the_first_step_belongs_to_the_start_up(launch: Launch) -> None:
    ran = launch(SETUP + SGD + LOADER + STEP, "--wait", "0", "--warmup", "0", "--active", "2")
    rows = ran.run.traces[0].events.to_pylist()
    (start_up,) = (row for row in rows if row["name"] == "start-up")
    (first,) = (row for row in rows if row["name"] == "step 0")
    assert start_up["start_ns"] + start_up["duration_ns"] == first["start_ns"]
    before = [row for row in rows if row["start_ns"] < first["start_ns"] and row["layer"] == "framework"]
    assert {row["step"] for row in before} == {None}
    assert sum(row["name"] == "aten::addmm" and row["step"] == 0 for row in rows) == 2
    assert "hint" not in ran.stderr


def test_a_script_that_fails_before_its_framework_is_imported_leaves_no_run(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("raise SystemExit('no data')")
    command = [sys.executable, "-m", "unified_profiler", "run", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no data\n")
    assert not (tmp_path / "profile").exists()


def test_the_compiler_is_not_imported_to_record(launch: Launch) -> None:
    ran = launch(SETUP + "model(x)\nprint('torch._inductor' in sys.modules, 'torch._dynamo' in sys.modules)\n")
    assert ran.stdout.startswith("False False\n")
    assert ran.calls("aten::addmm") == 2


def test_pandas_is_not_imported_to_record_but_works_where_the_script_imports_it(launch: Launch) -> None:
    text = """
import pyarrow as pa
model(x)
print("pandas" in sys.modules)
import pandas as pd
print(pa.array(pd.Series([1.0, None])).null_count, pa.table({"a": [1]}).to_pandas().shape)
"""
    ran = launch(SETUP + text)
    assert ran.stdout.startswith("False\n1 (1, 1)\n")
