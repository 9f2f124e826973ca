"""ProfilerCallback with a real Hugging Face Trainer: which steps are recorded, and that a training is not disturbed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import unified_profiler as up
from unified_profiler.errors import ConfigurationError
from unified_profiler.integrations.transformers import ProfilerCallback
from unified_profiler.testing import FakeBackend

TWO_CYCLES = up.schedule(wait=2, warmup=1, active=2, repeat=2)
TINY = {"n_layer": 1, "n_head": 1, "n_embd": 8, "vocab_size": 16, "n_positions": 8, "loss_type": "ForCausalLM"}

Make = Callable[..., Trainer]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Several threads that wait for each other make a small model on a busy machine slow."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Model(GPT2LMHeadModel):  # type: ignore[misc]
    """Fails at the given call, if any."""

    fails_at: int | None = None
    calls = 0

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> Any:
        self.calls += 1
        if self.calls - 1 == self.fails_at:
            raise ZeroDivisionError
        return super().forward(input_ids, labels=labels)


@pytest.fixture
def trainer(tmp_path: Path) -> Make:
    """Makes a Trainer of 12 training and 5 evaluation batches."""

    def make(*callbacks: Any, evaluated: Any = None, **options: Any) -> Trainer:
        quiet = {"use_cpu": True, "report_to": [], "save_strategy": "no", "disable_tqdm": True, "num_train_epochs": 1}
        batch = {"per_device_train_batch_size": 2, "per_device_eval_batch_size": 2}
        arguments = TrainingArguments(str(tmp_path), **{**quiet, **batch, **options})
        torch.manual_seed(0)
        model = Model(GPT2Config(**TINY, bos_token_id=0, eos_token_id=0))
        data = examples(12)
        return Trainer(
            model, arguments, train_dataset=data, eval_dataset=evaluated or examples(5), callbacks=list(callbacks)
        )

    return make


def examples(batches: int) -> list[dict[str, torch.Tensor]]:
    tokens = [torch.arange(first, first + 8) % 16 for first in range(2 * batches)]
    return [{"input_ids": row, "labels": row} for row in tokens]


def callback(**options: Any) -> ProfilerCallback:
    """Make a callback on a backend that needs no native profiler."""
    return ProfilerCallback(backend=FakeBackend(), **options)


def recorded(profiler: up.Profiler) -> list[tuple[int | None, int | None, bool]]:
    return [(trace.info.first_step, trace.info.last_step, trace.info.complete) for trace in profiler.traces]


def regions(profiler: up.Profiler) -> list[tuple[str, int]]:
    rows = [row for trace in profiler.traces for row in trace.events.select(["name", "kind", "step"]).to_pylist()]
    return [(row["name"], row["step"]) for row in rows if row["kind"] == "region"]


def signals(profiler: up.Profiler) -> list[str]:
    return [trace.info.step_signal.name for trace in profiler.traces if trace.info.step_signal is not None]


def lookups(profiler: up.Profiler) -> Counter[int]:
    rows = [row for trace in profiler.traces for row in trace.events.select(["name", "step"]).to_pylist()]
    return Counter(row["step"] for row in rows if row["name"] == "aten::embedding")


def test_the_scheduled_steps_of_a_training_are_recorded_with_their_operators(trainer: Make) -> None:
    profiling = ProfilerCallback(backend="torch", schedule=TWO_CYCLES, strict=True)
    trainer(profiling).train()
    assert recorded(profiling.profiler) == [(3, 4, True), (8, 9, True)]
    assert signals(profiling.profiler) == ["transformers step"] * 2
    assert lookups(profiling.profiler) == dict.fromkeys((3, 4, 8, 9), 2)


@pytest.mark.parametrize(
    ("by", "steps", "signal"), [("step", 3, "transformers step of 4 batches"), ("batch", 12, "transformers batch")]
)
def test_accumulated_gradients(trainer: Make, by: Any, steps: int, signal: str) -> None:
    profiling = callback(by=by)
    following = trainer(profiling, gradient_accumulation_steps=4)
    following.train()
    assert (following.state.global_step, profiling.profiler.current_step) == (3, steps)
    assert signals(profiling.profiler) == [signal]


@pytest.mark.parametrize(
    ("options", "at"), [({"eval_strategy": "epoch"}, [12]), ({"eval_strategy": "steps", "eval_steps": 5}, [5, 10, 12])]
)
def test_evaluation_is_a_region_and_no_step(trainer: Make, options: dict[str, Any], at: list[int]) -> None:
    profiling = callback()
    trainer(profiling, **options).train()
    assert profiling.profiler.current_step == 12
    assert regions(profiling.profiler) == [("evaluate", step) for step in at]


def test_the_whole_of_an_evaluation_is_in_its_region(trainer: Make) -> None:
    profiling = ProfilerCallback(backend="torch", strict=True)
    trainer(profiling, eval_strategy="epoch", max_steps=2, eval_steps=2).train()
    rows = profiling.profiler.traces[0].events.select(["name", "kind", "start_ns", "duration_ns", "step"]).to_pylist()
    (region,) = [row for row in rows if (row["name"], row["kind"]) == ("evaluate", "region")]
    after = [row["start_ns"] for row in rows if row["name"] == "aten::embedding" and row["step"] == 2]
    assert len(after) == 2 * 5
    assert all(region["start_ns"] <= start <= region["start_ns"] + region["duration_ns"] for start in after)


def test_each_of_several_evaluations_is_a_region(trainer: Make) -> None:
    profiling = callback()
    trainer(profiling, evaluated={"one": examples(3), "two": examples(3)}, eval_strategy="epoch").train()
    assert regions(profiling.profiler) == [("evaluate", 12)] * 2


class CallingOff(TrainerCallback):  # type: ignore[misc]
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_evaluate = False


def test_an_evaluation_that_was_called_off_does_not_stay_open(trainer: Make) -> None:
    profiling = callback(steps=(5, 6))
    trainer(profiling, CallingOff(), eval_strategy="steps", eval_steps=5).train()
    (trace,) = profiling.profiler.traces
    rows = {row["name"]: row for row in trace.events.select(["name", "start_ns", "duration_ns"]).to_pylist()}
    assert rows["evaluate"]["duration_ns"] < rows["step 5"]["duration_ns"]


def test_by_epoch(trainer: Make) -> None:
    profiling = callback(by="epoch", steps=(1, 2))
    trainer(profiling, num_train_epochs=4, eval_strategy="epoch").train()
    assert recorded(profiling.profiler) == [(1, 2, True)]
    assert signals(profiling.profiler) == ["transformers epoch"]
    assert profiling.profiler.current_step == 4


# --- evaluate and predict by themselves ---------------------------------------------------------------------------


@pytest.mark.parametrize(("by", "steps"), [("step", 4), ("batch", 4), ("epoch", 1)])
def test_evaluate_and_predict_have_steps_of_their_own_from_the_second_batch(trainer: Make, by: Any, steps: int) -> None:
    profiling = callback(by=by)
    following = trainer(profiling)
    following.evaluate()
    assert profiling.profiler.current_step == steps
    following.predict(examples(5))
    assert profiling.profiler.current_step == 2 * steps
    assert signals(profiling.profiler) == ["transformers epoch" if by == "epoch" else "transformers batch"] * 2


def test_under_a_profiler_that_is_running_every_batch_of_an_evaluation_is_a_step(trainer: Make) -> None:
    with up.Profiler(backend="torch", strict=True) as prof:
        trainer(ProfilerCallback(prof)).evaluate()
    assert prof.current_step == 5
    assert lookups(prof) == dict.fromkeys(range(5), 2)


# --- trainings that raise, and several ----------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["train", "other"])
def test_a_training_that_raised_is_delivered_incomplete_before_the_next(trainer: Make, again: str) -> None:
    profiling = callback(schedule=up.schedule(wait=1, warmup=1, active=2, repeat=1))
    raising = trainer(profiling)
    raising.model.fails_at = 3
    with pytest.raises(ZeroDivisionError):
        raising.train()
    assert profiling.profiler.traces == ()
    (raising if again == "train" else trainer(profiling)).train()
    assert recorded(profiling.profiler) == [(2, 2, False), (5, 6, True)]


@pytest.mark.parametrize(("again", "steps"), [("evaluate", 4), ("train", 12)])
def test_an_evaluation_that_raised_is_not_part_of_what_comes_next(trainer: Make, again: str, steps: int) -> None:
    profiling = callback()
    following = trainer(profiling)
    following.model.fails_at = 2
    with pytest.raises(ZeroDivisionError):
        following.evaluate()
    getattr(following, again)()
    assert [complete for _, _, complete in recorded(profiling.profiler)] == [False, True]
    assert profiling.profiler.current_step == 1 + steps


def test_a_training_that_raised_in_the_users_own_block_ends_with_it(trainer: Make) -> None:
    prof = up.Profiler(backend=FakeBackend())
    raising = trainer(ProfilerCallback(prof))
    raising.model.fails_at = 3
    with pytest.raises(ZeroDivisionError), prof:
        raising.train()
    assert [complete for _, _, complete in recorded(prof)] == [False]


def test_a_profiler_of_the_users_own_block_goes_on_after_the_training(trainer: Make) -> None:
    with up.Profiler(backend=FakeBackend()) as prof:
        trainer(ProfilerCallback(prof)).train()
        prof.step()
    assert prof.current_step == 13


def test_a_trainer_that_is_used_twice_follows_the_schedule_twice(trainer: Make) -> None:
    profiling = callback(steps=(1, 2))
    following = trainer(profiling)
    following.train()
    following.train()
    assert recorded(profiling.profiler) == [(1, 2, True), (13, 14, True)]


def test_the_training_gives_the_same_losses_with_and_without(trainer: Make) -> None:
    def losses(*callbacks: Any) -> list[Any]:
        following = trainer(*callbacks, logging_steps=1, eval_strategy="epoch", num_train_epochs=2)
        following.train()
        return [{key: log[key] for key in log if key in {"loss", "eval_loss"}} for log in following.state.log_history]

    assert losses(ProfilerCallback(backend="torch", schedule=TWO_CYCLES)) == losses()


def test_level_0_does_nothing(trainer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend()
    monkeypatch.setenv("UNIFIED_PROFILER_LEVEL", "0")
    profiling = ProfilerCallback(backend=backend, steps=(1, 2))
    following = trainer(profiling, eval_strategy="epoch")
    following.train()
    following.evaluate()
    assert (backend.calls, profiling.profiler.current_step, profiling.profiler.step_signal) == ([], 0, None)


def test_the_callback_can_be_taken_out_by_its_class(trainer: Make) -> None:
    profiling = callback()
    following = trainer(profiling)
    following.remove_callback(ProfilerCallback)
    following.train()
    assert profiling.profiler.current_step == 0


def test_what_a_step_is_must_be_known() -> None:
    with pytest.raises(ConfigurationError, match='"step", "batch" or "epoch"; found \'token\''):
        callback(by="token")


PROGRAM = """
import sys
from unified_profiler.errors import UsageError
from unified_profiler.integrations.transformers import ProfilerCallback
try:
    ProfilerCallback()
except UsageError as error:
    print(error)
print([name for name in ("transformers", "torch") if name in sys.modules])
"""


def test_nothing_is_imported_and_the_error_explains_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    message, loaded = done.stdout.splitlines()
    assert "import it first" in message
    assert loaded == "[]"
