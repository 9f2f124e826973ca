"""`run` on small programs that have the shape of public training scripts: how many steps, and what is recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unified_profiler.launch.launcher import LaunchOptions, Outcome, launch
from unified_profiler.launch.program import Program
from unified_profiler.model.run import Run, read_run
from unified_profiler.presentation.texts import render_hint
from unified_profiler.schedule import schedule

Launch = Callable[..., Outcome]

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
x = torch.randn(4, 8)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Run a script in this process, as its `__main__`."""

    def start(text: str, options: LaunchOptions | None = None, **profiler: object) -> Outcome:
        script = tmp_path / "script.py"
        script.write_text(text)
        monkeypatch.setattr(sys, "argv", list(sys.argv))
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        options = options or LaunchOptions()
        keywords = {"output_dir": tmp_path / "profile", "hardware_hz": 0, **profiler}
        outcome = launch(
            Program(str(script)),
            LaunchOptions(schedule=options.schedule, step_signal=options.step_signal, profiler=keywords),
        )
        assert (outcome.exit_code, outcome.failures, outcome.error) == (0, (), None)
        assert not [hint for hint in outcome.hints if render_hint(hint, language="zh") == hint]
        return outcome

    return start


def stored(outcome: Outcome) -> Run:
    """Return the run as it is on disk, having checked that what is printed is what is stored."""
    assert outcome.run is not None
    assert outcome.run.path is not None
    run = read_run(outcome.run.path)
    assert run.manifests[0].step_count == outcome.steps
    assert run.steps is not None
    assert len(run.steps) == outcome.steps
    return run


def signal(outcome: Outcome) -> str:
    assert outcome.signal is not None
    return outcome.signal.name


def calls(run: Run, name: str) -> dict[int | None, int]:
    """Return how often each recorded step has an event of a name."""
    rows = [row for trace in run.traces for row in trace.events.select(["name", "step", "kind"]).to_pylist()]
    steps: dict[int | None, int] = {row["step"]: 0 for row in rows if row["kind"] == "step"}
    for row in rows:
        if row["name"] == name:
            steps[row["step"]] = steps.get(row["step"], 0) + 1
    return steps


IMAGES = """
class Scale(nn.Module):
    def forward(self, a): return a * 2
class Shift(nn.Module):
    def forward(self, a): return a + 1
transforms = [Scale(), Shift(), nn.Identity()]
def transformed(a):
    for transform in transforms: a = transform(a)
    return a
class Images(Dataset):
    def __len__(self): return 1280
    def __getitem__(self, i): return transformed(torch.full((8,), float(i)))
loader = DataLoader(Images(), batch_size=80)
"""


def test_transforms_that_are_modules_make_no_steps_in_training(run: Launch) -> None:
    outcome = run(
        SETUP + IMAGES + "opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for batch in loader:\n    opt.zero_grad(); model(batch).square().mean().backward(); opt.step()\n"
    )
    assert (outcome.steps, signal(outcome)) == (16, "optimizer")
    assert calls(stored(outcome), "aten::addmm") == {2: 2, 3: 2, 4: 2}


def test_transforms_that_are_modules_make_no_steps_in_inference(run: Launch) -> None:
    outcome = run(SETUP + IMAGES + "model.eval()\nwith torch.no_grad():\n    for batch in loader: model(batch)\n")
    assert (outcome.steps, signal(outcome)) == (16, "dataloader")
    assert list(calls(stored(outcome), "aten::addmm").values()) == [2, 2, 2]


def test_transforms_that_are_modules_make_no_steps_without_a_loader(run: Launch) -> None:
    text = "model.eval()\nwith torch.no_grad():\n    for i in range(12): model(transformed(x + i))\n"
    outcome = run(SETUP + IMAGES + text)
    assert (outcome.steps, signal(outcome)) == (12, "forward")
    assert list(calls(stored(outcome), "aten::addmm").values()) == [2, 2, 2]


@pytest.mark.parametrize("options", [{}, {"keep_native": True}, {"deliver": "deferred"}], ids=str)
def test_rollouts_before_the_first_update_make_no_steps(run: Launch, options: dict[str, Any]) -> None:
    text = """
actor, critic = nn.Linear(8, 2), nn.Linear(8, 1)
opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
for update in range(4):
    with torch.no_grad():
        for t in range(100): actor(x); critic(x)
    for minibatch in range(4):
        opt.zero_grad(); (actor(x).square().mean() + critic(x).square().mean()).backward(); opt.step()
"""
    outcome = run(SETUP + text, **options)
    assert (outcome.steps, signal(outcome)) == (16, "optimizer")
    recorded = stored(outcome)
    assert [trace.info.cycle for trace in recorded.traces] == [0]
    assert calls(recorded, "Optimizer.step#Adam.step") == {2: 1, 3: 1, 4: 1}
    assert outcome.signal is not None
    assert "forward gave way to backward" in outcome.signal.switches[0]
    assert "backward gave way to optimizer" in outcome.signal.switches[-1]
    assert recorded.manifests[0].step_signal == outcome.signal


@pytest.mark.parametrize("critic_steps", [2, 5])
def test_two_optimizers_of_which_one_steps_seldom(run: Launch, critic_steps: int) -> None:
    text = f"""
critic = nn.Linear(8, 1)
opt_g, opt_d = torch.optim.Adam(model.parameters()), torch.optim.RMSprop(critic.parameters())
for i in range(15):
    opt_d.zero_grad(); critic(x).mean().backward(); opt_d.step()
    opt_g.zero_grad()
    if i % {critic_steps} == 0:
        model(x).mean().backward(); opt_g.step()
"""
    outcome = run(SETUP + text)
    assert (outcome.steps, signal(outcome)) == (15, "optimizer")
    assert list(calls(stored(outcome), "Optimizer.step#RMSprop.step").values()) == [1, 1, 1]


def test_updates_that_a_gradient_scaler_skips_are_steps(run: Launch) -> None:
    text = """
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for i in range(10):
    opt.zero_grad()
    loss = model(x).square().mean() * (float("inf") if i in (0, 3) else 1)
    scaler.scale(loss).backward(); scaler.step(opt); scaler.update()
"""
    outcome = run(SETUP + text)
    assert (outcome.steps, signal(outcome)) == (10, "optimizer")
    recorded = stored(outcome)
    assert calls(recorded, "aten::addmm") == {2: 2, 3: 2, 4: 2}
    assert calls(recorded, "Optimizer.step#SGD.step") == {2: 1, 3: 0, 4: 1}


def test_parameters_that_the_script_updates_itself(run: Launch) -> None:
    text = """
for i in range(17):
    model.zero_grad(); model(x).square().mean().backward()
    for p in model.parameters(): p.data.add_(p.grad, alpha=-0.1)
"""
    outcome = run(SETUP + text)
    assert (outcome.steps, signal(outcome)) == (17, "backward")
    assert list(calls(stored(outcome), "aten::addmm").values()) == [2, 2, 2]


def test_without_a_wait_the_recording_begins_anew_when_the_end_of_a_step_is_clear(run: Launch) -> None:
    text = "second = torch.optim.SGD(model.parameters(), lr=0.1)\nfirst = torch.optim.Adam(model.parameters())\n"
    text += "for i in range(8):\n    model(x).mean().backward(); first.step(); second.step()\n"
    outcome = run(SETUP + text, LaunchOptions(schedule=schedule(wait=0, warmup=0, active=3, repeat=1)))
    assert outcome.steps == 8
    assert calls(stored(outcome), "aten::addmm") == {2: 2, 3: 2, 4: 2}


def test_recorded_steps_without_any_model_are_reported(run: Launch) -> None:
    text = "class Rows(Dataset):\n    def __len__(self): return 48\n    def __getitem__(self, i): return x[0] + i\n"
    outcome = run(SETUP + text + "total = sum(batch.sum() for batch in DataLoader(Rows(), batch_size=4))\n")
    assert (outcome.steps, signal(outcome)) == (12, "dataloader")
    (hint,) = outcome.hints
    assert hint.startswith("No work of a model or an optimizer was seen in recorded steps 5, 6, 7.")
    assert stored(outcome).manifests[0].hints == (hint,)


def test_recorded_steps_that_hold_different_numbers_of_iterations_are_reported(run: Launch) -> None:
    text = """
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(8):
    for part in range(2 if i == 3 else 1): model(x).mean().backward()
    opt.step()
"""
    outcome = run(SETUP + text)
    assert outcome.hints == ("Recorded steps have different numbers of backward signals: step 3 2, the others 1.",)


def test_ordinary_steps_need_no_hint(run: Launch) -> None:
    text = "opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    outcome = run(SETUP + IMAGES + text + "for b in loader:\n    model(b).mean().backward(); opt.step()\n")
    assert outcome.hints == ()
    rows = stored(outcome).traces[0].events.select(["kind", "attributes"]).to_pylist()
    steps = [json.loads(row["attributes"]) for row in rows if row["kind"] == "step"]
    assert steps == [{"signals": {"backward": 1, "optimizer": 1, "dataloader": 1}, "model_seen": True}] * 3


WORKERS = """
import multiprocessing
def train(n):
    a = torch.randn(64, 64)
    for i in range(n): a = torch.tanh(a @ a)
if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=train, args=(n,), daemon={daemon}) for n in (0, 40000)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
"""


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of forks beside threads, in Python 3.12
@pytest.mark.parametrize("daemon", [False, True])
def test_work_in_child_processes_is_reported_but_not_that_of_helpers(run: Launch, *, daemon: bool) -> None:
    outcome = run(SETUP + "torch.set_num_threads(1)\n" + WORKERS.format(daemon=daemon))
    hints = [hint for hint in outcome.hints if "Child processes (2 of train) used" in hint]
    assert bool(hints) is not daemon
    assert all("torchrun" in hint and hint in stored(outcome).manifests[0].hints for hint in hints)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("owner", ["torch.writer", "writer"])
def test_processes_whose_class_is_a_frameworks_own_are_helpers(run: Launch, owner: str) -> None:
    text = f"""
import multiprocessing
class Writer(multiprocessing.get_context("fork").Process):
    __module__ = "{owner}"
    def run(self):
        a = torch.randn(64, 64)
        for i in range(40000): a = torch.tanh(a @ a)
if __name__ == "__main__":
    torch.set_num_threads(1)
    writer = Writer()
    writer.start(); writer.join()
"""
    hints = [hint for hint in run(SETUP + text).hints if hint.startswith("Child processes (1 of Writer) used")]
    assert bool(hints) is (owner == "writer")


def test_a_script_without_steps_is_recorded_cheaply_and_the_hint_names_what_is_missing(run: Launch) -> None:
    outcome = run(
        "import torch\na = torch.ones(4, 4)\nfor i in range(5): a = a @ a\n", record_shapes=True, with_stack=True
    )
    recorded = stored(outcome)
    assert calls(recorded, "aten::matmul")[0] == 5
    assert recorded.traces[0].events["input_shapes"].null_count == len(recorded.traces[0].events)
    (hint,) = outcome.hints
    assert "No end of a step was seen" in hint
    assert "without record_shapes, with_stack: give --wait 0 --warmup 0" in hint


def test_a_limit_of_events_is_kept_and_mentioned(run: Launch) -> None:
    text = """
opt = torch.optim.LBFGS(model.parameters(), max_iter=20)
def closure():
    opt.zero_grad(); loss = model(x).square().mean(); loss.backward(); return loss
for i in range(6): opt.step(closure)
"""
    everything = stored(run(SETUP + text)).traces[0]
    outcome = run(SETUP + text, max_events=everything.info.event_count // 2)
    trace = stored(outcome).traces[0]
    assert trace.info.event_count < everything.info.event_count
    assert [hint for hint in outcome.hints if "more than max_events allows" in hint] == list(trace.info.hints)


def test_iterations_that_waited_in_vain_for_a_surer_signal_are_mentioned(run: Launch) -> None:
    text = "opt = torch.optim.SGD(model.parameters(), lr=0.1)\nmodel.eval()\nfor i in range(12): model(x)\n"
    outcome = run(SETUP + text)
    assert (outcome.steps, outcome.signal) == (0, None)
    assert "12 iterations were seen by forward (evaluation)" in outcome.hints[-1]
    assert "--step-signal forward" in outcome.hints[-1]
    chosen = run(SETUP + text, LaunchOptions(step_signal="forward"))
    assert (chosen.steps, signal(chosen)) == (12, "forward")


INFERENCE = """
rows = torch.randn(16, 8)
model.eval()
with torch.no_grad():
    for batch in DataLoader(rows, batch_size=4): model(batch)
"""


def test_a_short_inference_gets_a_hint_to_record_its_first_steps(run: Launch) -> None:
    outcome = run(SETUP + INFERENCE)
    (hint,) = outcome.hints
    assert hint.startswith("The script ended after 4 steps, before one was to be recorded;")
    assert "to the end of step 3. 4 of them passed before it was clear what ends a step" in hint
    assert "give --step-signal dataloader" in hint
    followed = run(SETUP + INFERENCE, LaunchOptions(step_signal="dataloader"))
    assert (followed.steps, followed.hints) == (4, ())
    recorded = stored(followed)
    assert calls(recorded, "aten::addmm") == {2: 2, 3: 2, 4: 0}
    rows = recorded.traces[0].events.select(["kind", "attributes"]).to_pylist()
    steps = [json.loads(row["attributes"]) for row in rows if row["kind"] == "step"]
    assert steps == [*[{"signals": {"dataloader": 1}, "model_seen": None}] * 2, {"finished": False}]


@pytest.mark.parametrize("warmup", [0, 1])
def test_without_a_wait_a_script_that_ends_before_its_steps_are_clear_gets_a_hint(run: Launch, warmup: int) -> None:
    plan = schedule(wait=0, warmup=warmup, active=3, repeat=1)
    outcome = run(SETUP + INFERENCE, LaunchOptions(schedule=plan))
    (hint,) = outcome.hints
    assert hint.startswith("The script ended after 4 steps, before one was to be recorded. 4 of them passed")
    assert stored(outcome).manifests[0].hints == (hint,)


@pytest.mark.parametrize(("steps", "count"), [(1, "1 step"), (2, "2 steps")])
def test_a_script_of_few_steps_and_two_optimizers_gets_a_hint_to_wait_less(run: Launch, steps: int, count: str) -> None:
    text = f"""
head = nn.Linear(2, 1)
optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (model, head)]
for i in range({steps}):
    head(model(x)).mean().backward()
    for optimizer in optimizers: optimizer.step()
"""
    outcome = run(SETUP + text)
    (hint,) = outcome.hints
    assert hint.startswith(f"The script ended after {count}, before one was to be recorded;")
    assert hint.endswith("to the end of the first step. Give a smaller --wait, --warmup or --skip-first.")


@pytest.mark.parametrize("keep_native", [False, True])
def test_the_optimizers_operators_are_updates_in_every_step(run: Launch, *, keep_native: bool) -> None:
    text = "opt = torch.optim.Adadelta(model.parameters())\n"
    text += "for i in range(8):\n    opt.zero_grad(); model(x).mean().backward(); opt.step()\n"
    events = stored(run(SETUP + text, keep_native=keep_native)).traces[0].events
    rows = events.select(["name", "step", "direction", "origin"]).to_pylist()
    updates = {(row["step"], row["direction"], row["origin"]) for row in rows if row["name"] == "aten::addcmul_"}
    assert updates == {(step, "update", "x:Optimizer") for step in (2, 3, 4)}
