from __future__ import annotations

import numpy as np
import pytest

from unified_profiler_mindspore.canonical.assignment import lookup
from unified_profiler_mindspore.canonical.execution_order import directions, innermost_spans
from unified_profiler_mindspore.canonical.kernel_names import Cell, Node, parse
from unified_profiler_mindspore.read.lanes import KERNEL_LANE, lanes_of
from unified_profiler_mindspore.read.note import DirectionSpan


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MatMul", Node("MatMul")),
        ("Default/Conv2D-op12", Node("Conv2D", top="Default", number=12)),
        (
            "Default/network-WithLossCell/_backbone-Net/0-Dense/MatMul-op0",
            Node(
                "MatMul",
                (Cell("network", "WithLossCell"), Cell("_backbone", "Net"), Cell("0", "Dense")),
                top="Default",
            ),
        ),
        (
            "Gradients/Default/fc-Dense/Grad_MatMul/MatMul-op1",
            Node("MatMul", (Cell("fc", "Dense"),), top="Gradients", gradient_of="MatMul", number=1),
        ),
        (
            "Expand/_SoftmaxBackward/Mul-op3",
            Node("Mul", top="Expand", expanded_from="SoftmaxBackward", number=3),
        ),
    ],
)
def test_a_name_is_taken_apart(name: str, expected: Node) -> None:
    assert parse(name) == expected


def test_the_module_is_the_path_of_attributes() -> None:
    assert parse("Default/network-WithLossCell/_backbone-Net/fc-Dense/MatMul-op0").module == "network._backbone.fc"
    assert parse("Default/MatMul-op0").module is None


def test_kernels_that_update_are_those_of_optimizers() -> None:
    table = lookup()
    optimizers = {"Adam", "Momentum", "Adagrad", "x:Optimizer"}
    of_optimizers = {name for name, op in table.kernel.items() if op in optimizers}
    assert {name for name in table.kernel if table.update_type.search(name)} <= of_optimizers
    assert {name for name in of_optimizers if not table.update_type.search(name)} == set()


def test_classes_of_the_program_are_what_they_derive_from() -> None:
    table = lookup().with_user_classes(
        {
            "Faster": ["Adam", "Optimizer", "Cell"],
            "Own": ["Optimizer", "Cell"],
            "Affine": ["Dense", "Cell"],
            "Net": ["Cell"],
        }
    )
    assert (table.optimizer["Faster"], table.optimizer["Own"]) == ("Adam", "x:Optimizer")
    assert table.layers["Affine"] == "Gemm"
    assert "Net" not in {*table.layers, *table.optimizer}


def found(*names: str) -> list[str | None]:
    distinct = list(dict.fromkeys(names))
    return directions([distinct.index(name) for name in names], [parse(name) for name in distinct], lookup())


def test_the_forward_of_a_transposed_convolution_is_forward_where_its_layer_is_known() -> None:
    assert found("Default/up-Conv2dTranspose/Conv2DBackpropInput-op0") == ["forward"]


def test_in_pynative_the_same_kernel_may_be_either() -> None:
    assert found("Conv2DBackpropInput", "ReluGrad", "Default/Conv2D-op0") == [None, "backward", None]


def test_a_graph_without_gradients_is_forward() -> None:
    assert found("Default/Conv2D-op0", "Expand/_SumExt/ReduceSum-op0") == ["forward", "forward"]


def test_a_write_outside_of_any_layer_may_be_the_optimizers() -> None:
    assert found("Default/Conv2D-op0", "Default/AssignAdd-op0", "Default/Adam-op0") == ["forward", None, "update"]


def test_pieces_after_the_last_forward_kernel_are_gradients_and_so_are_higher_numbers() -> None:
    assert found(
        "Default/Conv2D-op0",
        "Expand/_SumExt/ReduceSum-op2",
        "Expand/_SumExt/ReduceSum-op0",
        "Default/Log-op0",
        "Gradients/Default/Grad_Log/Div-op0",
        "Expand/_SumExt/ReduceSum-op1",
    ) == ["forward", "backward", "forward", "forward", "backward", "backward"]


def test_pieces_among_gradients_before_the_last_forward_kernel_may_be_either() -> None:
    assert found(
        "Default/Conv2D-op0",
        "Gradients/Default/Grad_Sub/Neg-op0",
        "Expand/_SumExt/ReduceSum-op5",
        "Gradients/Default/Grad_Log/Div-op0",
        "Default/Add-op1",
    ) == ["forward", "backward", None, "backward", "forward"]


def test_a_piece_beside_a_gradient_may_be_either_unless_a_later_one_is_forward() -> None:
    """Pieces are numbered forward first. What a gradient needs of the forward part alone may run early."""
    assert found(
        "Default/Conv2D-op0",
        "Expand/_Muls/Mul-op0",
        "Gradients/Default/Grad_Sub/Neg-op0",
        "Default/Add-op0",
        "Expand/_Muls/Mul-op1",
        "Default/Add-op1",
        "Expand/_Pow/Pow-op0",
        "Gradients/Default/Grad_Log/Div-op0",
    )[:6:] == ["forward", "forward", "backward", "forward", "forward", "forward"]
    assert found(
        "Default/Conv2D-op0", "Expand/_Pow/Pow-op0", "Gradients/Default/Grad_Log/Div-op0", "Default/Add-op1"
    ) == [
        "forward",
        None,
        "backward",
        "forward",
    ]


def test_borders_tell_the_direction_and_the_innermost_counts() -> None:
    spans = [
        DirectionSpan("backward", 20, 30),
        DirectionSpan("update", 40, 70, "Adam"),
        DirectionSpan("backward", 50, 60),
    ]
    launch_spans = innermost_spans(np.array([10, 20, 30, 45, 55, 65]), spans)
    assert [span and span.direction for span in launch_spans] == [
        None,
        "backward",
        None,
        "update",
        "backward",
        "update",
    ]
    assert [span and span.optimizer for span in launch_spans] == [None, None, None, "Adam", None, "Adam"]
    names = ["MatMul", "ReluGrad", "Ones"]
    directed = directions([0, 0, 1, 2, 0, 0], [parse(name) for name in names], lookup(), spans=launch_spans)
    assert directed == ["forward", "backward", "forward", "update", "backward", "update"]


def test_each_run_of_a_graph_is_looked_at_by_itself() -> None:
    once = ["Default/Conv2D-op0", "Gradients/Default/Grad_Conv2D/Neg-op0", "Expand/_SumExt/ReduceSum-op0"]
    assert found(*once, *once) == ["forward", "backward", "backward"] * 2


def test_kernels_that_ran_side_by_side_are_in_lanes_of_their_own() -> None:
    start, duration = np.array([0, 10, 12, 30]), np.array([10, 10, 3, 5])
    assert (lanes_of(start, duration) - KERNEL_LANE).tolist() == [0, 0, 1, 1]
    assert lanes_of(start[:0], duration[:0]).tolist() == []
