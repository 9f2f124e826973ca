"""The hooks that tell steps in MindSpore: how often each fires per kind of loop, and that nothing of them remains."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import dataset, nn, ops
from mindspore.experimental import optim
from mindspore.train.callback._callback import CallbackManager

from unified_profiler.spi import HookRole, StepHook
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.steps.hooks import STEP_HOOKS

STEPS = 6
BEGINNINGS = (HookRole.LOOP_BEGIN, HookRole.CALL_BEGIN)
X = ms.Tensor(np.ones((2, 4), np.float32))
Y = ms.Tensor(np.ones((2, 2), np.float32))
compiles_bytecode = pytest.mark.skipif(sys.version_info >= (3, 12), reason="MindSpore does so up to Python 3.11")


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

    def forget(self) -> None:
        for sources in self.sources.values():
            sources.clear()

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


@pytest.fixture(params=[ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["pynative", "graph"])
def mode(request: pytest.FixtureRequest) -> Iterator[int]:
    """Both modes, for loops that must count the same in each."""
    ms.set_context(mode=request.param)
    yield request.param
    ms.set_context(mode=ms.PYNATIVE_MODE)


class Net(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 4)
        self.second = nn.Dense(4, 2)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.second(ops.relu(self.first(x)))


def momentum(net: nn.Cell) -> nn.Optimizer:
    return nn.Momentum(net.trainable_params(), 0.01, 0.9)


def gradient(net: nn.Cell, weights: Any = None) -> Callable[..., Any]:
    loss_fn = nn.MSELoss()

    def forward(x, y):  # type: ignore[no-untyped-def]
        return loss_fn(net(x), y)

    grad: Callable[..., Any] = ms.value_and_grad(forward, None, weights or net.trainable_params())
    return grad


def batches(size: int = STEPS) -> dataset.Dataset:
    data = {"x": np.ones((2 * size, 4), np.float32), "y": np.ones((2 * size, 2), np.float32)}
    return dataset.NumpySlicesDataset(data, shuffle=False).batch(2)


# --- Model ------------------------------------------------------------------------------------------------------------


def test_the_steps_of_a_model_are_told_by_its_callbacks_alone(fires: Fires, mode: int) -> None:
    net = Net()
    model = ms.train.Model(net, nn.MSELoss(), momentum(net), metrics={"mae"})
    model.train(2, batches(), dataset_sink_mode=False)
    assert fires.counts == {"optimizer made": 1, "model": 2 * STEPS}
    fires.forget()
    model.train(1, batches(), dataset_sink_mode=True)
    model.eval(batches(3))
    assert fires.counts == {"model": STEPS, "model in evaluation": 3, "evaluation": 2}  # its beginning and its end
    assert len(fires.sources["model"]) == 1
    fires.forget()
    model.fit(2, batches(), batches(3))
    assert fires.counts == {"model": 2 * STEPS, "model in evaluation": 2 * 3, "evaluation": 2 * 2}


def test_predictions_of_a_model_are_evaluation(fires: Fires, mode: int) -> None:
    model = ms.train.Model(Net())
    for _ in range(STEPS):
        model.predict(X)
    assert fires.counts == {"forward in evaluation": STEPS}


class Breaking(ms.train.Callback):  # type: ignore[misc]
    def on_train_step_end(self, run_context: Any) -> None:
        raise ArithmeticError


def test_a_training_that_raises_does_not_spoil_what_follows(fires: Fires) -> None:
    net = Net()
    model = ms.train.Model(net, nn.MSELoss(), momentum(net))
    with pytest.raises(ArithmeticError):
        model.train(1, batches(), callbacks=[Breaking()])
    net(X)
    assert fires.counts == {"optimizer made": 1, "forward": 1}


# --- loops of one's own -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        momentum,
        lambda net: nn.AdamWeightDecay(net.trainable_params()),
        lambda net: optim.SGD(net.trainable_params(), 0.01),
    ],
    ids=["nn.Momentum", "nn.AdamWeightDecay", "experimental.optim.SGD"],
)
def test_an_optimizer_that_is_called_ends_steps(fires: Fires, mode: int, make: Callable[[nn.Cell], Any]) -> None:
    net = Net()
    optimizer = make(net)
    grad = gradient(net)
    for _ in range(STEPS):
        _, grads = grad(X, Y)
        optimizer(grads)
    assert fires.sources["optimizer"] == {id(optimizer): STEPS}
    assert fires.counts["optimizer made"] == 1


def test_a_cell_that_holds_an_optimizer_is_a_training_step_and_others_are_not(fires: Fires, mode: int) -> None:
    net = Net()
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), momentum(net))
    for _ in range(STEPS):
        step(X, Y)
        net(X)
    assert fires.sources["optimizer"] == {id(step): STEPS}
    assert fires.counts["forward in evaluation"] == 2 * STEPS


class Accumulating(nn.Cell):  # type: ignore[misc]
    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.optimizer = momentum(net)
        self.grad = gradient(net)
        self.calls = 0

    def construct(self, x, y):  # type: ignore[no-untyped-def]
        self.calls += 1
        _, grads = self.grad(x, y)
        if self.calls % 3 == 0:
            self.optimizer(grads)
        return grads[0]


def test_gradient_accumulation_within_a_cell_ends_steps_where_the_optimizer_ran(fires: Fires) -> None:
    step = Accumulating(Net())
    for _ in range(STEPS):
        step(X, Y)
    assert fires.counts["optimizer"] == 2


class Nested(nn.Momentum):  # type: ignore[misc]
    def construct(self, gradients):  # type: ignore[no-untyped-def]
        return super().construct(gradients)


def test_an_optimizer_that_calls_its_parent_fires_once(fires: Fires) -> None:
    net = Net()
    optimizer, grad = Nested(net.trainable_params(), 0.01, 0.9), gradient(net)
    for _ in range(STEPS):
        optimizer(grad(X, Y)[1])
    assert fires.counts["optimizer"] == STEPS


def test_two_optimizers_are_two_sources(fires: Fires) -> None:
    net = Net()
    first, second, grad = momentum(net), momentum(net), gradient(net)
    for _ in range(STEPS):
        grads = grad(X, Y)[1]
        first(grads)
        second(grads)
    assert fires.sources["optimizer"] == {id(first): STEPS, id(second): STEPS}


def test_without_an_optimizer_cells_tell_steps_and_evaluation_apart(fires: Fires) -> None:
    net = Net()
    net(X)
    net.set_train()
    net(X)
    net(X)
    assert fires.counts == {"forward in evaluation": 1, "forward": 2}


class Failing(nn.Cell):  # type: ignore[misc]
    def construct(self, x):  # type: ignore[no-untyped-def]
        raise ArithmeticError


def test_a_cell_that_raises_does_not_spoil_the_later_ones(fires: Fires) -> None:
    for _ in range(3):
        with pytest.raises(ArithmeticError):
            Failing()(X)
    Net()(X)
    assert fires.counts == {"forward in evaluation": 1}


# --- compiled functions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capture", ["ast", pytest.param("bytecode", marks=compiles_bytecode)])
def test_a_compiled_training_step_is_told_from_a_compiled_evaluation(fires: Fires, mode: int, capture: str) -> None:
    net = Net()
    optimizer, grad = momentum(net), gradient(net)

    @ms.jit(capture_mode=capture)
    def train(x, y):  # type: ignore[no-untyped-def]
        loss, grads = grad(x, y)
        optimizer(grads)
        return loss

    @ms.jit(capture_mode=capture)
    def evaluate(x):  # type: ignore[no-untyped-def]
        return net(x)

    for _ in range(STEPS):
        train(X, Y)
        evaluate(X)
    assert list(fires.sources["optimizer"].values()) == [STEPS]
    assert sorted(fires.sources["jit"].values()) == [STEPS, STEPS]
    assert "forward" not in fires.counts


TRACED = """
import sys
from importlib import import_module
import mindspore as ms, numpy as np
from mindspore import nn
from unified_profiler_mindspore.steps.hooks import STEP_HOOKS
fires = []
for hook in STEP_HOOKS:
    hook.install(import_module(hook.module), lambda source, hook=hook: fires.append((hook.signal, source)))
x, net = ms.Tensor(np.ones((2, 4), np.float32)), nn.Dense(4, 2)
optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
grad = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
@ms.jit(capture_mode="trace")
def train(x):
    loss, grads = grad(x)
    optimizer(grads)
    return loss
@ms.jit(capture_mode="trace")
def evaluate(x):
    return net(x)
for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
    ms.set_context(mode=mode)
    fires.clear()
    for _ in range(6):
        train(x)
        evaluate(x)
    names = [name for name, _ in fires]
    print([(name, len({s for n, s in fires if n == name}), names.count(name)) for name in sorted(set(names))])
"""


def test_a_traced_training_step_is_told_from_a_traced_evaluation(tmp_path: Path) -> None:
    (tmp_path / "traced.py").write_text(
        TRACED
    )  # a file, started as a script: MindSpore reads the source of all callers
    done = subprocess.run([sys.executable, tmp_path / "traced.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[('call', 1, 12), ('jit', 2, 12), ('optimizer', 1, 6)]"] * 2


class Trainer:
    def __init__(self) -> None:
        self.net = Net()
        self.optimizer = momentum(self.net)
        self.grad = gradient(self.net)

    @ms.jit
    def train(self, x, y):  # type: ignore[no-untyped-def]
        return self.update(x, y)  # type: ignore[no-untyped-call]

    def update(self, x, y):  # type: ignore[no-untyped-def]
        loss, grads = self.grad(x, y)
        self.optimizer(grads)
        return loss

    @ms.jit
    def evaluate(self, x):  # type: ignore[no-untyped-def]
        return self.net(x)


def test_a_compiled_method_that_reaches_the_optimizer_through_another_is_a_training_step(fires: Fires) -> None:
    trainer = Trainer()
    for _ in range(STEPS):
        trainer.train(X, Y)
        trainer.evaluate(X)
    assert list(fires.sources["optimizer"].values()) == [STEPS]
    assert fires.counts["jit"] == 2 * STEPS


def test_compiled_functions_within_each_other_are_one_call(fires: Fires, mode: int) -> None:
    @ms.jit
    def inner(x):  # type: ignore[no-untyped-def]
        return x * 2

    @ms.jit
    def outer(x):  # type: ignore[no-untyped-def]
        return inner(x) + 1

    for _ in range(STEPS):
        outer(X)
    assert fires.counts == {"jit": STEPS}


class Compiled(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, 2)

    @ms.jit
    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.dense(x)


def test_a_cell_with_a_compiled_construct_is_one_call_of_the_cell(fires: Fires, mode: int) -> None:
    net = Compiled()
    for _ in range(STEPS):
        net(X)
    assert fires.counts == {"forward in evaluation": STEPS}


@compiles_bytecode
def test_a_whole_graph_can_still_be_demanded(fires: Fires) -> None:
    net = Net()

    @ms.jit(capture_mode="bytecode", fullgraph=True)
    def evaluate(x):  # type: ignore[no-untyped-def]
        return net(x)

    expected = net(X).asnumpy()
    assert np.allclose(evaluate(X).asnumpy(), expected)
    assert fires.counts["jit"] == 1


def test_a_graph_loaded_from_a_file_is_a_cell(fires: Fires, tmp_path: Path) -> None:
    ms.export(Net(), X, file_name=str(tmp_path / "net"), file_format="MINDIR")
    graph = nn.GraphCell(ms.load(str(tmp_path / "net.mindir")))
    fires.forget()
    for _ in range(STEPS):
        graph(X)
    assert fires.counts == {"forward in evaluation": STEPS}


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_threads_do_not_disturb_each_other(fires: Fires) -> None:
    nets = [Net().set_train() for _ in range(2)]
    threads = [threading.Thread(target=lambda net: [net(X) for _ in range(STEPS)], args=(net,)) for net in nets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fires.sources["forward"] == {id(net): STEPS for net in nets}


def test_the_profilers_of_mindspore_are_announced(fires: Fires, tmp_path: Path) -> None:
    handler = ms.profiler.tensorboard_trace_handler(str(tmp_path), analyse_flag=False)
    with ms.profiler.profile(activities=[ms.profiler.ProfilerActivity.CPU], on_trace_ready=handler):
        assert fires.counts == {"profiler": 1}
    legacy = ms.Profiler(output_path=str(tmp_path), start_profile=False)
    assert fires.counts == {"profiler": 1}
    legacy.start()
    assert fires.counts == {"profiler": 2}
    legacy.stop()
    native.reset_profiler()  # the older profiler lets go only in its analyse(), which takes seconds


def places() -> list[object]:
    owners = [
        (import_module("mindspore.nn.cell").Cell, "__call__"),
        (import_module("mindspore.nn.cell").GraphCell, "__call__"),
        (import_module("mindspore.graph.api")._JitExecutor, "__call__"),
        (import_module("mindspore.graph._utils.pijit_context").PIJitCaptureContext, "__enter__"),
        (import_module("mindspore.graph._utils.pijit_context").PIJitCaptureContext, "__exit__"),
        (import_module("mindspore.graph.jit_trace"), "_jit_trace_begin"),
        (import_module("mindspore.graph.jit_trace"), "_jit_trace_end"),
        (import_module("mindspore.profiler.profiler_interface").ProfilerInterface, "init"),
        *((CallbackManager, name) for name in ("__enter__", "__exit__", "on_train_step_end", "on_eval_step_end")),
        *((base, name) for base in (nn.Optimizer, optim.Optimizer) for name in ("__init__", "__call__")),
    ]
    return [vars(owner).get(name) for owner, name in owners]


def test_undoing_restores_the_identical_objects() -> None:
    before = places()
    fires = Fires()
    fires.install(*STEP_HOOKS)
    assert all(now is not then for now, then in zip(places(), before, strict=True))
    fires.remove()
    assert all(now is then for now, then in zip(places(), before, strict=True))


def test_hooks_may_be_undone_in_any_order() -> None:
    before = places()
    undo = [hook.install(import_module(hook.module), lambda _: None) for hook in STEP_HOOKS]
    for one in undo:
        one()
    assert all(now is then for now, then in zip(places(), before, strict=True))


def test_a_wrapper_that_somebody_put_over_ours_is_left_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    fires = Fires()
    fires.install(next(hook for hook in STEP_HOOKS if hook.module == "mindspore.nn.cell"))
    theirs = partial(nn.Cell.__call__)
    monkeypatch.setattr(nn.Cell, "__call__", theirs)
    fires.remove()
    assert nn.Cell.__call__ is theirs


def test_a_signal_that_is_listened_to_alone_counts_training_steps_too() -> None:
    net = Net()
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), momentum(net))
    fires = Fires()
    fires.install(*(hook for hook in STEP_HOOKS if hook.signal == "forward"))
    for _ in range(STEPS):
        step(X, Y)
    fires.remove()
    assert fires.sources["forward in evaluation"] == {id(step): STEPS}


def test_the_training_gives_the_same_numbers(mode: int) -> None:
    def weights() -> list[float]:
        ms.set_seed(0)
        net = Net()
        optimizer, grad = momentum(net), gradient(net)
        for _ in range(STEPS):
            optimizer(grad(X, Y)[1])
        return [float(p.asnumpy().sum()) for p in net.trainable_params()]

    plain = weights()
    fires = Fires()
    fires.install(*STEP_HOOKS)
    hooked = weights()
    fires.remove()
    assert hooked == plain


def test_no_model_is_kept_alive(fires: Fires) -> None:
    net = Net()
    nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), momentum(net))(X, Y)
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_every_signal_is_of_a_known_role() -> None:
    names = {hook.signal for hook in STEP_HOOKS if hook.role is HookRole.STEP_END}
    assert names == {"model", "optimizer", "jit", "forward"}


# --- where the first step may begin --------------------------------------------------------------------------------


def test_trainings_and_evaluations_of_a_model_begin_loops(fires: Fires, mode: int) -> None:
    net = Net()
    model = ms.train.Model(net, nn.MSELoss(), momentum(net), metrics={"mse"})
    model.eval(batches(2), dataset_sink_mode=False)
    model.train(1, batches(2), dataset_sink_mode=False)
    loops = [name for name in fires.began if name.startswith("loop")]
    assert loops == ["loop in evaluation", "loop"]


def test_a_cell_begins_a_call_before_it_ends_one(fires: Fires) -> None:
    net = Net()
    seen: list[int] = []
    net.register_forward_pre_hook(lambda *_: seen.append(len(fires.began)))
    net.set_train()(X)
    net.set_train(False)(X)
    assert fires.began == ["call", "call in evaluation"]
    assert seen == [1, 2]
