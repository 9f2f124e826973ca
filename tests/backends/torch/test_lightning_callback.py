"""ProfilerCallback with a real Trainer of Lightning: which steps are recorded, and that a training is not disturbed."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import pytorch as pl
from torch.utils.data import DataLoader, TensorDataset

import unified_profiler as up
from unified_profiler.errors import ConfigurationError
from unified_profiler.integrations.lightning import ProfilerCallback
from unified_profiler.testing import FakeBackend

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # of torch, about Lightning
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*have no `val_dataloader`"),
]

TWO_CYCLES = up.schedule(wait=2, warmup=1, active=2, repeat=2)
QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "log_every_n_steps": 1,
}


class Steps:
    def __init__(self, *, fails_at: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 2)
        self.fails_at = fails_at
        self.losses: list[float] = []
        self.validated = 0

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if batch_idx == self.fails_at:
            raise ZeroDivisionError
        loss = self.layer(batch[0]).square().mean()
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.validated += 1

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.layer(batch[0])

    def predict_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.layer(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.layer.parameters(), 0.1)


class Net(Steps, pl.LightningModule):  # type: ignore[misc]
    pass


def batches(count: int = 12) -> DataLoader:
    return DataLoader(TensorDataset(torch.linspace(0, 1, 8 * count).reshape(-1, 4)), batch_size=2)


def callback(**options: Any) -> ProfilerCallback:
    """Make a callback on a backend that needs no native profiler."""
    return ProfilerCallback(backend=FakeBackend(), **options)


def trainer(*callbacks: Any, **options: Any) -> pl.Trainer:
    return pl.Trainer(callbacks=list(callbacks), **{"max_epochs": 1, **QUIET, **options})


def recorded(profiler: up.Profiler) -> list[tuple[int | None, int | None, bool]]:
    return [(trace.info.first_step, trace.info.last_step, trace.info.complete) for trace in profiler.traces]


def regions(profiler: up.Profiler) -> list[tuple[str, int]]:
    rows = [row for trace in profiler.traces for row in trace.events.select(["name", "kind", "step"]).to_pylist()]
    return [(row["name"], row["step"]) for row in rows if row["kind"] == "region"]


def signal(profiler: up.Profiler) -> set[str]:
    return {trace.info.step_signal.name for trace in profiler.traces if trace.info.step_signal is not None}


def test_the_scheduled_batches_of_a_fit_are_recorded_with_their_operators() -> None:
    profiling = ProfilerCallback(backend="torch", schedule=TWO_CYCLES, strict=True)
    trainer(profiling, max_epochs=2).fit(Net(), batches(6))
    assert recorded(profiling.profiler) == [(3, 4, True), (8, 9, True)]
    assert signal(profiling.profiler) == {"lightning batch"}
    rows = [row for trace in profiling.profiler.traces for row in trace.events.select(["name", "step"]).to_pylist()]
    assert Counter(row["step"] for row in rows if row["name"] == "aten::linear") == dict.fromkeys((3, 4, 8, 9), 1)


def test_every_batch_is_a_step_where_gradients_are_accumulated() -> None:
    profiling = callback()
    following = trainer(profiling, accumulate_grad_batches=4)
    following.fit(Net(), batches())
    assert (following.global_step, profiling.profiler.current_step) == (3, 12)


def test_validation_is_a_region_and_no_step_and_the_sanity_check_is_neither() -> None:
    profiling, net = callback(), Net()
    trainer(profiling, max_epochs=2, num_sanity_val_steps=2).fit(net, batches(), batches(5))
    assert net.validated == 2 + 2 * 5
    assert profiling.profiler.current_step == 24
    assert regions(profiling.profiler) == [("validate", 12), ("validate", 24)]


def test_the_sanity_check_is_not_recorded() -> None:
    profiling = callback()
    phases = []

    class Looking(pl.Callback):  # type: ignore[misc]
        def on_validation_batch_end(self, *_: Any) -> None:
            phases.append(profiling.profiler.running)

    trainer(profiling, Looking(), num_sanity_val_steps=2).fit(Net(), batches(), batches(3))
    assert phases == [False] * 2 + [True] * 3


def test_by_epoch() -> None:
    profiling = callback(by="epoch", steps=(1, 2))
    trainer(profiling, max_epochs=5).fit(Net(), batches(3), batches(1))
    assert recorded(profiling.profiler) == [(1, 2, True)]
    assert signal(profiling.profiler) == {"lightning epoch"}
    assert profiling.profiler.current_step == 5


@pytest.mark.parametrize(("by", "steps"), [("batch", 7), ("epoch", 1)])
def test_validate_test_and_predict_have_steps_of_their_own(by: Any, steps: int) -> None:
    profiling = callback(by=by)
    following = trainer(profiling)
    for count, run in enumerate((following.validate, following.test, following.predict), 1):
        run(Net(), batches(7))
        assert profiling.profiler.current_step == count * steps
        assert len(profiling.profiler.traces) == count


def test_a_fit_that_raises_is_delivered_incomplete_and_goes_on_raising() -> None:
    profiling = callback(schedule=up.schedule(wait=1, warmup=1, active=2, repeat=1))
    with pytest.raises(ZeroDivisionError):
        trainer(profiling).fit(Net(fails_at=3), batches())
    assert recorded(profiling.profiler) == [(2, 2, False)]
    assert not profiling.profiler.running


def test_a_fit_that_raised_in_the_users_own_block_ends_with_it() -> None:
    prof = up.Profiler(backend=FakeBackend())
    with pytest.raises(ZeroDivisionError), prof:
        trainer(ProfilerCallback(prof)).fit(Net(fails_at=3), batches())
    assert [complete for _, _, complete in recorded(prof)] == [False]


def test_a_profiler_of_the_users_own_block_goes_on_after_the_fit() -> None:
    with up.Profiler(backend=FakeBackend()) as prof:
        trainer(ProfilerCallback(prof)).fit(Net(), batches())
        prof.step()
    assert prof.current_step == 13


def test_a_trainer_that_is_used_twice_follows_the_schedule_twice() -> None:
    profiling, net = callback(steps=(1, 2)), Net()
    following = trainer(profiling)
    following.fit(net, batches(5))
    following.fit_loop.max_epochs = 2
    following.fit(net, batches(5))
    assert recorded(profiling.profiler) == [(1, 2, True), (6, 7, True)]


def test_the_training_gives_the_same_losses_with_and_without() -> None:
    def losses(*callbacks: Any) -> list[float]:
        net = Net()
        trainer(*callbacks, max_epochs=2).fit(net, batches(), batches(2))
        return net.losses

    assert losses(ProfilerCallback(backend="torch", schedule=TWO_CYCLES)) == losses()


def test_level_0_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FakeBackend()
    monkeypatch.setenv("UNIFIED_PROFILER_LEVEL", "0")
    profiling = ProfilerCallback(backend=backend, steps=(1, 2))
    trainer(profiling).fit(Net(), batches(), batches(2))
    assert (backend.calls, profiling.profiler.current_step, profiling.profiler.step_signal) == ([], 0, None)


def test_two_callbacks_of_one_trainer_and_its_checkpoint(tmp_path: Path) -> None:
    one, two = callback(), callback(by="epoch")
    following = trainer(one, two)
    following.fit(Net(), batches(3))
    following.save_checkpoint(tmp_path / "checkpoint")
    assert (one.profiler.current_step, two.profiler.current_step) == (3, 1)
    assert type(one) is type(two)
    assert torch.load(tmp_path / "checkpoint", weights_only=False)["callbacks"] == {}


def test_what_a_step_is_must_be_known() -> None:
    with pytest.raises(ConfigurationError, match='"batch" or "epoch"; found \'step\''):
        callback(by="step")


# --- the other name of Lightning, and none ----------------------------------------------------------------------


def test_one_callback_serves_lightning_by_either_name() -> None:
    other: Any = importlib.import_module("pytorch_lightning")

    class OtherNet(Steps, other.LightningModule):  # type: ignore[misc]
        pass

    profiling = callback()
    other.Trainer(callbacks=profiling, max_epochs=1, **QUIET).fit(OtherNet(), batches(3))
    trainer(profiling).fit(Net(), batches(3))
    assert profiling.profiler.current_step == 6


PROGRAM = """
import sys
from unified_profiler.errors import UsageError
from unified_profiler.integrations.lightning import ProfilerCallback
try:
    ProfilerCallback()
except UsageError as error:
    print(error)
print([name for name in ("lightning", "pytorch_lightning", "torch") if name in sys.modules])
"""


def test_nothing_is_imported_and_the_error_explains_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    message, loaded = done.stdout.splitlines()
    assert "import it first" in message
    assert loaded == "[]"
