"""What kernels of graphs are for, compared with a graph of the forward part alone and with the model's layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

Rows = list[dict[str, Any]]
Events = Callable[..., Any]

IMAGES = ms.Tensor(np.random.default_rng(0).random((2, 3, 8, 8), np.float32))
WORDS = ms.Tensor(np.random.default_rng(0).random((2, 6, 8), np.float32))
LABELS = ms.Tensor(np.array([0, 1], np.int32))


@pytest.fixture
def graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


class Convolutions(nn.Cell):  # type: ignore[misc]
    """Two layers of each kind, so that the paths of gradients name the wrong one, and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, has_bias=True), nn.Conv2d(4, 4, 3, stride=2)
        self.first_norm, self.second_norm = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.up, self.relu, self.head = nn.Conv2dTranspose(4, 2, 2, stride=2), nn.ReLU(), nn.Dense(2, 3)

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        inner = self.relu(self.first_norm(self.first(images)))
        inner = self.relu(self.second_norm(self.second(inner)))
        return self.head(self.up(inner).mean((2, 3)))


class Block(nn.Cell):  # type: ignore[misc]
    """A layer of attention and a GELU: both are taken apart, and so is the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.gelu = nn.MultiheadAttention(8, 2, batch_first=True), nn.GELU(approximate=False)
        self.inner, self.head = nn.Dense(8, 16), nn.Dense(16, 3)

    def construct(self, words: ms.Tensor) -> ms.Tensor:
        words = words + self.attention(words, words, words, need_weights=False)[0]
        return self.head(self.gelu(self.inner(words)).mean(1))


class Own(nn.Optimizer):  # type: ignore[misc]
    """An optimizer of the program's own."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(0.1, parameters)

    def construct(self, gradients: Any) -> bool:
        for parameter, gradient in zip(self.parameters, gradients):  # noqa: B905  not known to the compiler
            ops.assign_sub(parameter, gradient * 0.1)
        return True


class Faster(nn.Momentum):  # type: ignore[misc]
    """One of MindSpore's by another name."""


class Affine(nn.Dense):  # type: ignore[misc]
    """A layer of MindSpore's by another name."""


class OwnStep(nn.Cell):  # type: ignore[misc]
    """A step whose optimizer is not called `optimizer`."""

    def __init__(self, network: nn.Cell, tuner: nn.Cell) -> None:
        super().__init__()
        self.network, self.tuner, self.weights = network, tuner, tuner.parameters
        self.gradients = ops.GradOperation(get_by_list=True)

    def construct(self, inputs: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        loss = self.network(inputs, labels)
        return ops.depend(loss, self.tuner(self.gradients(self.network, self.weights)(inputs, labels)))


def kernels(events: Any) -> Rows:
    return [row for row in events.to_pylist() if row["kind"] == "op"]


def recorded(events: Events, folder: str, step: Callable[[], Any]) -> Rows:
    step()  # builds the graph
    return kernels(events(step, folder=folder, with_flops=True))


def names(rows: Rows, direction: str) -> Counter[str]:
    return Counter(row["name"] for row in rows if row["direction"] == direction)


def calls(rows: Rows, origin: str, direction: str, name: str) -> int:
    return sum((row["origin"], row["direction"], row["name"]) == (origin, direction, name) for row in rows)


def with_loss(net: nn.Cell) -> nn.Cell:
    return nn.WithLossCell(net.set_train(), nn.CrossEntropyLoss()).set_train()


# --- graphs of Cells --------------------------------------------------------------------------------------------------


@pytest.fixture
def convolutions(graph_mode: None, events: Events) -> tuple[Rows, Rows]:
    """A step of training, and its forward part by itself."""
    network = with_loss(Convolutions())
    train = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.01, 0.9)).set_train()
    training = recorded(events, "training", lambda: train(IMAGES, LABELS))
    return training, recorded(events, "forward", lambda: network(IMAGES, LABELS))


@pytest.fixture
def attention(graph_mode: None, events: Events) -> tuple[Rows, Rows]:
    network = with_loss(Block())
    train = nn.TrainOneStepCell(network, nn.Adam(network.trainable_params(), 0.01)).set_train()
    training = recorded(events, "training", lambda: train(WORDS, LABELS))
    return training, recorded(events, "forward", lambda: network(WORDS, LABELS))


def test_convolutions_have_the_directions_and_layers_that_they_are_made_of(convolutions: tuple[Rows, Rows]) -> None:
    training, forward = convolutions
    assert names(training, "forward") == names(forward, "forward")
    assert {row["direction"] for row in forward} == {"forward"}
    assert None not in {row["direction"] for row in training} | {row["origin"] for row in training}
    assert calls(training, "ConvTranspose", "forward", "Conv2DBackpropInput") == 1
    assert calls(training, "ConvTranspose", "backward", "Conv2D") == 1
    assert calls(training, "ConvTranspose", "backward", "Conv2DBackpropFilter") == 1
    assert calls(training, "Conv", "forward", "Conv2D") == 2
    assert calls(training, "Conv", "backward", "Conv2DBackpropFilter") == 2
    assert calls(training, "Conv", "backward", "Conv2DBackpropInput") == 1
    assert calls(training, "BatchNormalization", "backward", "BatchNormGrad") == 2
    assert {row["origin"] for row in training if row["direction"] == "update"} == {"Momentum"}
    assert {row["module"] for row in training if row["name"] == "Conv2DBackpropFilter"} == {
        "network._backbone.first",
        "network._backbone.second",
        "network._backbone.up",
    }
    assert {
        row["module"] for row in training if row["name"] == "Conv2DBackpropInput" and row["direction"] == "backward"
    } == {"network._backbone.second"}
    assert {row["module"] for row in training if row["name"] == "ReluGrad"} == {None}  # one Cell, called twice


def test_pieces_of_layers_and_of_their_gradients_are_the_layers(attention: tuple[Rows, Rows]) -> None:
    """Without the graph, the pieces have neither layer nor direction."""
    training, forward = attention
    assert names(training, "forward") == names(forward, "forward")
    assert None not in {row["direction"] for row in training} | {row["origin"] for row in training}
    pieces = [row for row in training if "Expand/" in (row["attributes"] or "")]
    assert {(row["origin"], row["direction"]) for row in pieces} >= {
        ("Attention", "forward"),
        ("Attention", "backward"),
        ("Gelu", "backward"),
        ("SoftmaxCrossEntropyLoss", "forward"),
        ("SoftmaxCrossEntropyLoss", "backward"),
    }
    power = [row for row in training if "PowTensorScalar" in (row["attributes"] or "")]
    assert {(row["origin"], row["direction"]) for row in power} == {("Gelu", "backward")}
    gelu = [row for row in training if (row["origin"], row["direction"]) == ("Gelu", "backward")]
    assert {row["module"] for row in gelu} == {"network._backbone.gelu"}
    products = [row["origin"] for row in training if row["name"] == "MatMul" and row["direction"] == "backward"]
    assert Counter(products)["Gemm"] == 2 * 2


def test_an_addition_in_the_wrong_layer_is_found_out(attention: tuple[Rows, Rows]) -> None:
    """MindSpore puts all additions into the Cell of the first: those of the loss into the attention."""
    training, _ = attention
    foreign = [
        row
        for row in training
        if row["name"] == "Add" and "MultiheadAttention" in row["attributes"] and row["input_shapes"] == "[[2,1],[2,1]]"
    ]
    assert [(row["origin"], row["module"]) for row in foreign] == [("SoftmaxCrossEntropyLoss", "network._loss_fn")]


@pytest.mark.parametrize(("kind", "origin"), [(Own, "x:Optimizer"), (Faster, "Momentum")])
def test_optimizers_of_the_program_under_any_name_are_updates(
    kind: type, origin: str, graph_mode: None, events: Events
) -> None:
    network = with_loss(nn.SequentialCell(Affine(8, 3), nn.ReLU()))
    more = (0.1, 0.9) if kind is Faster else ()
    step = OwnStep(network, kind(network.trainable_params(), *more)).set_train()
    rows = recorded(events, "work", lambda: step(WORDS[:, 0], LABELS))
    update = [row for row in rows if row["module"] == "tuner"]
    assert {(row["origin"], row["direction"]) for row in update} == {(origin, "update")}
    assert update
    assert calls(rows, "Gemm", "forward", "MatMul") == 1
    assert calls(rows, "Gemm", "backward", "MatMul") == 1


# --- graphs of functions ----------------------------------------------------------------------------------------------


def test_a_graph_of_a_function_tells_what_its_optimizer_does(events: Events) -> None:
    net, loss_of = nn.SequentialCell(nn.Dense(8, 4), nn.GELU(), nn.Dense(4, 3)), nn.CrossEntropyLoss()
    optimizer = nn.Adam(net.trainable_params(), 0.01)

    def forward(words: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        return loss_of(net(words), labels)

    gradients_of = ms.value_and_grad(forward, None, optimizer.parameters)
    only_forward = ms.jit(forward)

    @ms.jit  # type: ignore[untyped-decorator]
    def step(words: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        loss, gradients = gradients_of(words, labels)
        optimizer(gradients)
        return loss

    training = recorded(events, "training", lambda: step(WORDS[:, 0], LABELS))
    alone = recorded(events, "forward", lambda: only_forward(WORDS[:, 0], LABELS))
    assert names(training, "forward") == names(alone, "forward")
    update = {(row["name"], row["origin"]) for row in training if row["direction"] == "update"}
    assert update == {("Adam", "Adam"), ("Mul", "Adam"), ("Assign", "Adam")}
    unknown = {row["name"] for row in training if row["direction"] is None}
    assert unknown <= {"AssignAdd", "TensorMove"}  # counts steps; copies that come in when the graph has been built


def test_what_runs_in_branches_of_a_graph_is_recorded_with_what_its_name_tells(events: Events) -> None:
    """MindSpore does not write the graphs of branches and loops."""
    layer = nn.Dense(8, 8)

    @ms.jit  # type: ignore[untyped-decorator]
    def looping(words: ms.Tensor) -> ms.Tensor:
        while words.sum() < 100:
            words = layer(words) * words + 30
        return words.sum()

    rows = recorded(events, "work", lambda: looping(WORDS[:, 0]))
    assert rows
    assert {row["direction"] for row in rows} == {"forward"}
