"""Step hooks of torch: how often each fires per kind of loop, and that nothing of them remains."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from unified_profiler.spi import HookRole, StepHook
from unified_profiler_torch.steps.hooks import STEP_HOOKS

STEPS = 6
BEGINNINGS = (HookRole.LOOP_BEGIN, HookRole.CALL_BEGIN)


class Fires:
    """All hooks installed, and how often each source of each signal fired."""

    def __init__(self) -> None:
        self.sources: dict[str, Counter[int]] = {}
        self.began: list[str] = []
        """What may begin the first step, in the order in which it began."""
        self._undo: list[Callable[[], None]] = []

    def install(self, *hooks: StepHook) -> None:
        for hook in hooks:
            self._undo.append(hook.install(import_module(hook.module), self._listener(hook)))

    def _listener(self, hook: StepHook) -> Callable[[int], None]:
        if hook.role in BEGINNINGS:
            return lambda _source: self.began.append(name_of(hook))
        return partial(count, self.sources.setdefault(name_of(hook), Counter()))

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()

    @property
    def counts(self) -> dict[str, int]:
        return {name: sum(sources.values()) for name, sources in self.sources.items() if sources}


def count(counter: Counter[int], source: int) -> None:
    counter[source] += 1


def name_of(hook: StepHook) -> str:
    return hook.signal if hook.training else f"{hook.signal} in evaluation"


@pytest.fixture
def fires() -> Iterator[Fires]:
    fires = Fires()
    fires.install(*STEP_HOOKS)
    yield fires
    fires.remove()


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def loader(batches: int = STEPS, **options: object) -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(TensorDataset(torch.randn(2 * batches, 4)), batch_size=2, **options)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, *, every: int = 1) -> None:
    for i, (x,) in enumerate(loader()):
        model(x).square().mean().backward()
        if (i + 1) % every == 0:
            optimizer.step()
            optimizer.zero_grad()


def test_a_plain_training_loop_fires_each_signal_once_per_step(fires: Fires, model: nn.Module) -> None:
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert fires.counts == {"optimizer made": 1, "optimizer": 6, "backward": 6, "dataloader": 6, "forward": 6}


def test_gradient_accumulation_ends_steps_at_the_optimizer(fires: Fires, model: nn.Module) -> None:
    train(model, torch.optim.AdamW(model.parameters()), every=3)
    assert fires.counts["optimizer"] == 2


class Nested(torch.optim.SGD):  # type: ignore[misc]
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


def test_an_optimizer_that_calls_its_parent_fires_once(fires: Fires, model: nn.Module) -> None:
    torch.optim.SGD(model.parameters(), lr=0.1)  # only now does the parent's step carry a hook of its own
    train(model, Nested(model.parameters(), lr=0.1))
    assert fires.counts["optimizer"] == STEPS


class Wrapping(torch.optim.Optimizer):  # type: ignore[misc]
    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        super().__init__(inner.param_groups, {})

    def step(self, closure: Any = None) -> None:
        self.inner.step()
        self.inner.step()


def test_an_optimizer_that_wraps_another_fires_once(fires: Fires, model: nn.Module) -> None:
    train(model, Wrapping(torch.optim.SGD(model.parameters(), lr=0.1)))
    assert fires.counts["optimizer"] == STEPS


class Failing(torch.optim.SGD):  # type: ignore[misc]
    def step(self, closure: Any = None) -> None:
        raise ArithmeticError


def test_a_step_that_raises_does_not_spoil_the_later_ones(fires: Fires, model: nn.Module) -> None:
    failing = Failing(model.parameters(), lr=0.1)
    for _ in range(3):
        with pytest.raises(ArithmeticError):
            failing.step()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert fires.counts["optimizer"] == STEPS


def test_lbfgs_fires_once_per_step(fires: Fires, model: nn.Module) -> None:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 4)).square().mean()
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    assert fires.counts["optimizer"] == STEPS
    assert fires.counts["backward"] > STEPS


def test_two_optimizers_are_two_sources(fires: Fires, model: nn.Module) -> None:
    first, second = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
    for _ in range(STEPS):
        first.step()
        second.step()
    assert fires.sources["optimizer"] == {id(first): STEPS, id(second): STEPS}


def test_two_losses_are_two_sources_of_backward(fires: Fires, model: nn.Module) -> None:
    for _ in range(STEPS):
        model(torch.ones(1, 4)).sum().backward()
        torch.autograd.backward(model(torch.ones(1, 4)).mean())
    assert list(fires.sources["backward"].values()) == [STEPS, STEPS]


def test_checkpointing_does_not_add_backward_passes(fires: Fires, model: nn.Module) -> None:
    for _ in range(STEPS):
        checkpoint(model, torch.ones(1, 4, requires_grad=True), use_reentrant=True).sum().backward()
    assert fires.counts["backward"] == STEPS


def test_a_backward_pass_that_raises_does_not_spoil_the_later_ones(fires: Fires, model: nn.Module) -> None:
    with pytest.raises(RuntimeError):
        torch.ones(1).backward()
    model(torch.ones(1, 4)).sum().backward()
    assert fires.counts["backward"] == 1


def test_evaluation_is_distinguished_from_training(fires: Fires, model: nn.Module) -> None:
    model(torch.ones(1, 4))
    model.eval()
    model(torch.ones(1, 4))
    model(torch.ones(1, 4))
    assert fires.counts == {"forward": 1, "forward in evaluation": 2}


def test_a_forward_pass_that_raises_does_not_spoil_the_later_ones(fires: Fires, model: nn.Module) -> None:
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 99))
    model(torch.ones(1, 4))
    assert fires.counts == {"forward": 1}


def test_a_loader_is_one_source_over_several_epochs(fires: Fires) -> None:
    batches = loader()
    for _ in range(2):
        assert len(list(batches)) == STEPS
    assert list(fires.sources["dataloader"].values()) == [2 * STEPS]


def test_a_batch_taken_to_look_at_ends_no_step(fires: Fires) -> None:
    next(iter(loader()))
    assert "dataloader" not in fires.counts


def test_threads_do_not_disturb_each_other(fires: Fires) -> None:
    models = [nn.Linear(4, 2) for _ in range(2)]
    threads = [
        threading.Thread(target=train, args=(model, torch.optim.SGD(model.parameters(), lr=0.1))) for model in models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fires.counts["optimizer"] == fires.counts["backward"] == fires.counts["forward"] == 2 * STEPS


def test_both_profilers_of_torch_are_announced(fires: Fires) -> None:
    with torch.profiler.profile():
        pass
    with torch.autograd.profiler.profile():
        pass
    assert fires.counts == {"profiler": 2}


def patched_objects() -> list[object]:
    torch.optim.SGD([nn.Parameter(torch.ones(1))])  # its class is patched when an instance is made
    iterator = import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
    return [
        vars(torch.optim.SGD)["step"],
        vars(torch.optim.Optimizer)["__init__"],
        torch.autograd.backward,
        vars(iterator)["__next__"],
        vars(torch.autograd.profiler.profile)["_prepare_trace"],
        vars(nn.Module)["__call__"],
    ]


def test_undoing_restores_the_identical_objects() -> None:
    before = patched_objects()
    fires = Fires()
    fires.install(*STEP_HOOKS)
    assert all(now is not then for now, then in zip(patched_objects(), before, strict=True))
    fires.remove()
    assert all(now is then for now, then in zip(patched_objects(), before, strict=True))


def test_forward_hooks_may_be_undone_in_any_order() -> None:
    before = vars(nn.Module)["__call__"]
    module = import_module("torch.nn.modules.module")
    undo = [hook.install(module, lambda _: None) for hook in STEP_HOOKS if hook.signal == "forward"]
    for one in undo:
        one()
    assert vars(nn.Module)["__call__"] is before


def test_a_wrapper_around_ours_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    fires = Fires()
    fires.install(next(hook for hook in STEP_HOOKS if hook.signal == "backward"))
    ours = torch.autograd.backward
    monkeypatch.setattr(torch.autograd, "backward", partial(ours))
    theirs = torch.autograd.backward
    fires.remove()
    assert torch.autograd.backward is theirs


def test_the_training_gives_the_same_numbers(model: nn.Module) -> None:
    def losses() -> list[float]:
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(net.parameters())
        train(net, optimizer)
        return [float(p.detach().sum()) for p in net.parameters()]

    plain = losses()
    fires = Fires()
    fires.install(*STEP_HOOKS)
    hooked = losses()
    fires.remove()
    assert hooked == plain


def test_a_compiled_model_is_compiled_once_and_counted(fires: Fires, model: nn.Module) -> None:
    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        compiled(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    assert len(graphs) == 1
    assert fires.counts["optimizer"] == fires.counts["forward"] == fires.counts["backward"] == STEPS


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler imports its own deprecated parts
def test_a_compiled_training_step_is_counted(fires: Fires, model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()

    compiled = torch.compile(step, backend="eager")
    for _ in range(STEPS):
        compiled()
    assert fires.counts["optimizer"] == STEPS
    assert fires.counts["backward"] == STEPS


# --- where the first step may begin --------------------------------------------------------------------------------


def test_each_epoch_begins_a_loop_and_each_call_of_a_model_begins(fires: Fires, model: nn.Module) -> None:
    model.eval()(torch.randn(2, 4))
    model.train()
    for _ in range(2):
        for (x,) in loader(2):
            model(x)
    assert fires.began == ["call in evaluation", *["loader", "call", "call"] * 2]


def test_losses_and_transforms_begin_no_step(fires: Fires) -> None:
    nn.MSELoss()(torch.randn(2), torch.randn(2))
    assert fires.began == []
