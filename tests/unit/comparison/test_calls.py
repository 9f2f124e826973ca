"""How often something was called: PyTorch's operators nest, those of graphs lie side by side."""

from __future__ import annotations

from typing import Any

import unified_profiler as up
from unified_profiler.testing.builders import TraceBuilder


def calls(builder: TraceBuilder) -> dict[tuple[str | None, str | None], float]:
    trace = builder.build()
    found = up.diff(trace, trace, by="origin")
    rows = [row for group in found.rows for row in group.rows]
    return {(row.name, row.direction): row.baseline.call_count for row in rows if row.baseline}


def nested() -> TraceBuilder:
    return TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=0).step(0, 0, 100_000)


class Graph(TraceBuilder):
    """Nodes one after the other, in one step."""

    def __init__(self) -> None:
        super().__init__(frameworks={"tensorflow": "1"}, first_step=0, last_step=0)
        self.step(0, 0, 100_000)
        self._at = 0

    def node(self, name: str, op: str, origin: str, direction: str, module: str | None) -> Graph:
        self.op(name, self._at, 10, op=op, origin=origin, direction=direction, module=module)
        self._at += 10
        return self


def forward(origin: str, **columns: Any) -> dict[str, Any]:
    return {"origin": origin, "op": origin, "direction": "forward", **columns}


def test_a_composite_and_all_inside_it_are_one_call() -> None:
    builder = nested()
    for at in (0, 1000):
        builder.op("aten::linear", at, 100, **forward("Gemm"))
        builder.op("aten::t", at + 10, 10, **forward("Gemm", op="Transpose"))
        builder.op("aten::addmm", at + 30, 50, **forward("Gemm"))
    assert calls(builder) == {("Gemm", "forward"): 2.0}


def test_the_gradients_of_one_forward_call_are_one_call() -> None:
    builder = nested()
    for at, number in ((0, 1), (1000, 3)):
        builder.op("aten::linear", at, 100, **forward("Gemm"))
        builder.op("aten::t", at + 10, 10, **forward("Gemm", op="Transpose", sequence_id=number))
        builder.op("aten::addmm", at + 30, 50, **forward("Gemm", sequence_id=number + 1))
    for at, number in ((5000, 4), (5200, 3), (6000, 2), (6200, 1)):
        gradient = {"origin": "Gemm", "direction": "backward", "sequence_id": number}
        builder.op("autograd::engine::evaluate_function", at, 100, **gradient)
    assert calls(builder) == {("Gemm", "forward"): 2.0, ("Gemm", "backward"): 2.0}


def test_changes_of_layout_for_an_operator_are_no_calls_of_it_nor_are_their_gradients() -> None:
    builder = nested()
    builder.op("aten::transpose", 0, 10, **forward("Attention", op="Transpose", sequence_id=1))
    builder.op("aten::scaled_dot_product_attention", 100, 100, **forward("Attention"))
    builder.op("aten::_scaled_dot_product", 110, 50, **forward("Attention", sequence_id=2))
    for at, number in ((5000, 2), (5200, 1)):
        gradient = {"origin": "Attention", "direction": "backward", "sequence_id": number}
        builder.op("autograd::engine::evaluate_function", at, 100, **gradient)
    assert calls(builder) == {("Attention", "forward"): 1.0, ("Attention", "backward"): 1.0}


def test_the_pieces_of_a_layer_in_a_graph_are_one_call() -> None:
    graph = Graph()
    for layer in ("bn_1", "bn_2"):
        for op in ("Mul", "Sub", "Add"):
            graph.node(op, op, "BatchNormalization", "forward", layer)
    assert calls(graph) == {("BatchNormalization", "forward"): 2.0}


def test_an_operator_that_a_graph_moved_into_the_next_layer_is_counted_once() -> None:
    graph = Graph()
    graph.node("ReadVariableOp", "x:ReadVariable", "Gemm", "forward", "dense")
    graph.node("_FusedMatMul", "MatMul", "Gemm", "forward", "re_lu")
    graph.node("MatMul", "MatMul", "Gemm", "forward", "dense_1")
    assert calls(graph) == {("Gemm", "forward"): 2.0}


def test_a_layer_that_is_used_again_is_called_again() -> None:
    graph = Graph()
    for _ in range(3):
        graph.node("ReLU", "Relu", "Relu", "forward", "relu")
    assert calls(graph) == {("Relu", "forward"): 3.0}


def test_the_two_kernels_of_a_convolutions_backward_are_one_call() -> None:
    graph = Graph()
    for layer in ("conv", "conv_1"):
        graph.node("Conv2DBackpropFilter", "Conv", "Conv", "backward", layer)
        graph.node("Conv2DBackpropInput", "Conv", "Conv", "backward", layer)
    assert calls(graph) == {("Conv", "backward"): 2.0}


def test_gradients_whose_layer_is_not_known_are_called_as_often_as_their_most_frequent_kernel() -> None:
    graph = Graph()
    for name in ("Filter", "Filter", "Filter", "Input", "Input"):
        graph.node(name, "Conv", "Conv", "backward", None)
    assert calls(graph) == {("Conv", "backward"): 3.0}


def test_operators_outside_of_layers_count_one_by_one() -> None:
    graph = Graph()
    for name in ("MatMul", "BatchMatMul", "MatMul"):
        graph.node(name, "MatMul", "MatMul", "forward", None)
    assert calls(graph) == {("MatMul", "forward"): 3.0}


def test_all_that_an_optimizer_does_in_a_step_is_one_call() -> None:
    graph = Graph()
    for _ in range(4):
        graph.node("Adam", "Adam", "Adam", "update", None)
    assert calls(graph) == {("Adam", "update"): 1.0}
