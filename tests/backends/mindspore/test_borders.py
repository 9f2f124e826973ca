"""Borders of forward, backward and update in PyNative mode: exact, only while recording, and in nobody's way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint, nn, ops
from mindspore.experimental.optim.optimizer import Optimizer as NewerOptimizer

from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_mindspore.read.note import read_note
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.recorder import MindSporeRecorder
from unified_profiler_mindspore.steps.hooks import STEP_HOOKS

Rows = list[dict[str, Any]]
Events = Callable[..., Any]

IMAGES = ms.Tensor(np.random.default_rng(0).random((2, 1, 8, 8), np.float32))
WANTED = ms.Tensor(np.ones((2, 3), np.float32))


class Net(nn.Cell):  # type: ignore[misc]
    """What PyNative mode runs as kernels that say nothing of their direction, and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.up = nn.Conv2d(1, 4, 3), nn.Conv2dTranspose(4, 2, 2, stride=2)
        self.gelu, self.head = nn.GELU(approximate=False), nn.Dense(2, 3)

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        inner = self.gelu(self.up(self.conv(images))).mean((2, 3))
        return self.head(inner * ops.ones_like(inner) + ops.ones((2,), ms.float32))


class Work:
    """A net in training, in the ways in which gradients can be asked for."""

    def __init__(self) -> None:
        self.net, self.loss = Net().set_train(), nn.MSELoss()
        parameters = self.net.trainable_params()
        self.optimizer = nn.Adam(parameters, 0.01)
        self.other = mint.optim.SGD(parameters[-1:], lr=0.01)
        self.value_and_grad = ms.value_and_grad(self.forward, None, self.optimizer.parameters)
        self.grad = ms.grad(self.forward, None, self.optimizer.parameters)
        self.cell = nn.TrainOneStepCell(nn.WithLossCell(self.net, self.loss), self.optimizer).set_train()

    def forward(self, images: ms.Tensor, wanted: ms.Tensor) -> ms.Tensor:
        return self.loss(self.net(images), wanted)

    def with_value_and_grad(self) -> None:
        _, gradients = self.value_and_grad(IMAGES, WANTED)
        self.optimizer(gradients)

    def with_grad(self) -> None:
        self.optimizer(self.grad(IMAGES, WANTED))

    def with_cell(self) -> None:
        self.cell(IMAGES, WANTED)

    def with_two_optimizers(self) -> None:
        _, gradients = self.value_and_grad(IMAGES, WANTED)
        self.optimizer(gradients)
        self.other(gradients[-1:])


@pytest.fixture(scope="module")
def work() -> Work:
    made = Work()
    for step in (made.with_value_and_grad, made.with_grad, made.with_cell, made.with_two_optimizers):
        step()
    native.wait_for_kernels()
    return made


def kernels(events: Any) -> Rows:
    return [row for row in events.to_pylist() if row["kind"] == "op"]


def of(rows: Rows, direction: str | None) -> list[str]:
    return [row["name"] for row in rows if row["direction"] == direction]


def repeated(function: Callable[[], None], times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            function()

    return run


# --- where borders are ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["with_value_and_grad", "with_grad", "with_cell", "with_two_optimizers"])
def test_forward_is_what_a_forward_run_by_itself_is(way: str, work: Work, events: Events) -> None:
    alone = kernels(events(lambda: work.forward(IMAGES, WANTED), folder="forward"))
    rows = kernels(events(getattr(work, way), folder="training"))
    assert of(rows, "forward") == [row["name"] for row in alone]
    assert of(rows, None) == []
    assert of(alone, "forward") == [row["name"] for row in alone]
    assert {"MatMul", "Conv2DBackpropFilter", "Mul"} <= set(of(rows, "backward"))
    assert not {"Adam", "Assign"} & set(of(rows, "backward"))


def test_the_forward_of_a_transposed_convolution_is_forward_and_its_gradient_is_not(work: Work, events: Events) -> None:
    rows = kernels(events(work.with_value_and_grad))
    found = Counter((row["name"], row["direction"], row["origin"]) for row in rows if row["op"] == "Conv")
    assert found == {
        ("Conv2D", "forward", "Conv"): 1,
        ("Conv2DBackpropInput", "forward", "ConvTranspose"): 1,
        ("Conv2D", "backward", "ConvTranspose"): 1,
        ("Conv2DBackpropFilter", "backward", None): 2,  # of either: the name does not tell, and nothing else does
    }


def test_each_optimizer_is_told_by_its_class(work: Work, events: Events) -> None:
    rows = kernels(events(work.with_two_optimizers))
    update = [row["origin"] for row in rows if row["direction"] == "update"]
    assert list(dict.fromkeys(update)) == ["Adam", "Momentum"]
    assert "x:Optimizer" not in {row["origin"] for row in rows}


def test_steps_one_after_another_do_not_run_into_each_other(work: Work, events: Events) -> None:
    once = kernels(events(work.with_value_and_grad, folder="once"))
    thrice = kernels(events(repeated(work.with_value_and_grad, 3), folder="thrice"))
    assert [(row["name"], row["direction"]) for row in thrice] == 3 * [(row["name"], row["direction"]) for row in once]


def test_gradients_within_a_forward_run_are_backward(events: Events) -> None:
    """A second derivative: the inner gradient is computed in what the outer one differentiates."""
    value = ms.Tensor(2.0)
    inner = ms.grad(lambda x: ops.exp(x) * x)
    outer = ms.grad(inner)
    outer(value)
    rows = kernels(events(lambda: outer(value)))
    assert of(rows, "forward").count("Exp") == 1
    assert len(of(rows, "backward")) > len(of(rows, "forward"))


def test_an_update_that_computes_gradients_has_them_inside(events: Events) -> None:
    weight = ms.Parameter(ms.Tensor(np.ones(3, np.float32)), name="weight")

    def squared() -> ms.Tensor:
        return (weight * weight).sum()

    gradient = ms.grad(squared, None, [weight])

    class Searching(nn.Optimizer):  # type: ignore[misc]
        def construct(self, gradients: Any) -> None:
            ops.assign_sub(self.parameters[0], gradients[0] + gradient()[0])

    optimizer = Searching(0.1, [weight])
    gradients = (ms.Tensor(np.ones(3, np.float32)),)
    optimizer(gradients)
    rows = kernels(events(lambda: optimizer(gradients)))
    assert [way for way, _ in groupby(row["direction"] for row in rows)] == ["update", "backward", "update"]
    assert {row["origin"] for row in rows if row["direction"] == "update"} == {"x:Optimizer"}


def test_functions_in_graph_mode_with_the_optimizer_called_from_python(events: Events) -> None:
    """The graph of an optimizer that is called by itself has no Cell of that name in its paths."""
    net, loss_of = nn.Dense(4, 2), nn.MSELoss()
    optimizer = nn.Adam(net.trainable_params(), 0.01)
    rows_in, wanted = ms.Tensor(np.ones((2, 4), np.float32)), ms.Tensor(np.ones((2, 2), np.float32))

    def forward(rows: ms.Tensor, wanted: ms.Tensor) -> ms.Tensor:
        return loss_of(net(rows), wanted)

    gradients_of = ms.value_and_grad(forward, None, optimizer.parameters)

    def step() -> None:
        _, gradients = gradients_of(rows_in, wanted)
        optimizer(gradients)

    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        step()
        rows = kernels(events(step))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert {"Adam", "Mul", "Assign", "AssignAdd"} == set(of(rows, "update"))
    assert "MatMul" in of(rows, "forward")
    assert "MatMul" in of(rows, "backward")


# --- where there are none ---------------------------------------------------------------------------------------------


def in_a_thread(function: Callable[[], Any]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_training_in_another_thread_than_the_recorders_has_borders(work: Work, events: Events) -> None:
    rows = kernels(events(lambda: in_a_thread(work.with_value_and_grad)))
    assert of(rows, None) == []


def test_gradients_from_two_threads_leave_directions_open(work: Work, events: Events) -> None:
    def both() -> None:
        work.with_value_and_grad()
        in_a_thread(work.with_value_and_grad)

    rows = kernels(events(both))
    assert None in {row["direction"] for row in rows if row["name"] == "MatMul"}
    assert "forward" not in {row["direction"] for row in rows}


def test_an_error_of_the_program_goes_on_and_leaves_directions_open(tmp_path: Path, work: Work) -> None:
    recorder = started(tmp_path)
    work.forward(IMAGES, WANTED)
    with pytest.raises(ValueError, match="Own error"):
        Failing([ms.Parameter(ms.Tensor(1.0), name="one")])(())
    note = read_note(recorder.stop().files[-1])
    assert note.spans is None


class Failing(nn.Optimizer):  # type: ignore[misc]
    def __init__(self, parameters: Any) -> None:
        super().__init__(0.1, parameters)

    def construct(self, gradients: Any) -> None:
        msg = "Own error"
        raise ValueError(msg)


class Idle(nn.Optimizer):  # type: ignore[misc]
    def construct(self, gradients: Any) -> None:
        """Do nothing: kernels that are queued behind one that fails can crash MindSpore."""


def test_kernels_that_failed_before_a_border_are_told_to_the_program(tmp_path: Path) -> None:
    """MindSpore tells it to whoever waits first, which is the border."""
    optimizer = Idle(0.1, [ms.Parameter(ms.Tensor(1.0), name="one")])
    values, index = ms.Tensor(np.ones((4, 4), np.float32)), ms.Tensor(np.full((4, 4), 77, np.int64))
    recorder = started(tmp_path)
    ops.gather_elements(values, 1, index)
    with pytest.raises(RuntimeError, match="GatherD"):
        optimizer(())
    recorder.stop()


# --- nothing remains --------------------------------------------------------------------------------------------------


def places() -> list[Any]:
    """Return what is wrapped while recording."""
    owners = [(native.executor_class(), "grad"), (native.executor_class(), "set_jit_compile_phase")]
    owners += [(native.graph_class(), "__call__"), (nn.Optimizer, "__call__"), (NewerOptimizer, "__call__")]
    return [vars(owner).get(name) for owner, name in owners]


def started(folder: Path) -> MindSporeRecorder:
    recorder = MindSporeRecorder(RecordOptions(), folder)
    recorder.arm()
    recorder.start()
    return recorder


@pytest.mark.parametrize("verb", ["stop", "discard"])
def test_everything_is_as_it_was_once_recording_has_ended(verb: str, tmp_path: Path, work: Work) -> None:
    before = places()
    recorder = started(tmp_path)
    work.with_value_and_grad()
    during = places()
    getattr(recorder, verb)()
    assert all(old is not new for old, new in zip(before, during, strict=True))
    assert all(old is new for old, new in zip(before, places(), strict=True))


@pytest.mark.parametrize("first_to_go", ["hooks", "recorder"])
@pytest.mark.parametrize("first_to_come", ["hooks", "recorder"])
def test_hooks_that_see_steps_come_and_go_beside_it(
    first_to_come: str, first_to_go: str, tmp_path: Path, work: Work
) -> None:
    before = places()
    seen: list[int] = []
    undo: list[Callable[[], None]] = []
    recorders: list[MindSporeRecorder] = []
    captures: list[NativeCapture] = []
    hooks = [hook for hook in STEP_HOOKS if hook.signal == "optimizer"]

    def install() -> None:
        undo.extend(hook.install(import_module(hook.module), seen.append) for hook in hooks)

    def start() -> None:
        recorders.append(started(tmp_path))

    for come in (install, start) if first_to_come == "hooks" else (start, install):
        come()
    work.with_value_and_grad()

    def remove() -> None:
        while undo:
            undo.pop()()

    def stop() -> None:
        captures.append(recorders.pop().stop())

    for go in (remove, stop) if first_to_go == "hooks" else (stop, remove):
        go()
    assert seen == [id(work.optimizer)]
    spans = read_note(captures[0].files[-1]).spans
    assert [span.direction for span in spans or ()] == ["backward", "update"]
    assert all(old is new for old, new in zip(before, places(), strict=True))


def test_borders_are_in_the_capture_in_the_order_in_which_they_ended(record: Any, work: Work) -> None:
    capture = record(work.with_two_optimizers)
    spans = read_note(capture.files[-1]).spans or ()
    assert [(span.direction, span.optimizer) for span in spans] == [
        ("backward", None),
        ("update", "Adam"),
        ("update", "SGD"),
    ]
    assert all(capture.start_ns < span.start_ns < span.stop_ns < capture.stop_ns for span in spans)
