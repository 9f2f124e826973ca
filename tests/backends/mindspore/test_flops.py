"""Floating-point operations, against what the layers are known to do and against PyTorch's formulas."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from threading import Thread
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

from unified_profiler_mindspore.canonical.flops import flops, tensor_shapes
from unified_profiler_mindspore.canonical.graph_locations import GraphLocation, Kernel
from unified_profiler_mindspore.canonical.kernel_names import parse
from unified_profiler_mindspore.read.graph_ir import Graph, Operator

Events = Callable[..., Any]


def launched(name: str, shapes: str, location: GraphLocation | None = None) -> Kernel:
    return Kernel(name, parse(name), tensor_shapes(shapes), location)


def counted(*kernels: tuple[str, str]) -> list[int | None]:
    """Return the operations of kernels of which no graph is known."""
    distinct = [launched(name, shapes) for name, shapes in kernels]
    return flops(range(len(kernels)), distinct, [shapes for _, shapes in kernels])


class Net(nn.Cell):  # type: ignore[misc]
    """Filters that stride, that are in groups, and that are transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Conv2d(2, 4, 3, stride=2, pad_mode="pad", padding=1)
        self.grouped, self.up = nn.Conv2d(4, 4, 3, group=4), nn.Conv2dTranspose(4, 3, 2, stride=2, pad_mode="valid")
        self.head = nn.Dense(3, 5)

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        return self.head(self.up(self.grouped(self.plain(images))).mean((2, 3)))


IMAGES = ms.Tensor(np.ones((3, 2, 8, 8), np.float32))
PLAIN, GROUPED, UP = 2 * 3 * 4 * 4 * 4 * (2 * 9), 2 * 3 * 4 * 4 * 4 * 9, 2 * 3 * 4 * 4 * 4 * (3 * 4)
HEAD = 2 * 3 * 3 * 5


def in_thread(work: Callable[[], Any]) -> Callable[[], None]:
    """Have work run in a thread of its own."""

    def run() -> None:
        thread = Thread(target=work)
        thread.start()
        thread.join()

    return run


def by_kernel(events: Any) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for row in events.to_pylist():
        if row["flops"] is not None:
            found.setdefault((row["name"], row["direction"]), []).append(row["flops"])
    return {key: sorted(values) for key, values in found.items()}


def test_a_graph_tells_all_of_a_models(events: Events) -> None:
    net = Net()
    gradients = ms.value_and_grad(net, None, net.trainable_params())

    @ms.jit  # type: ignore[untyped-decorator]
    def step(images: ms.Tensor) -> Any:
        return gradients(images)

    step(IMAGES)
    found = by_kernel(events(lambda: step(IMAGES), with_flops=True))
    assert found["Conv2D", "forward"] == sorted([PLAIN, GROUPED])
    assert found["Conv2DBackpropInput", "forward"] == [UP]
    assert found["Conv2DBackpropFilter", "backward"] == sorted([PLAIN, GROUPED, UP])
    assert found["Conv2D", "backward"] == [UP]
    assert found["Conv2DBackpropInput", "backward"] == [GROUPED]
    assert found["MatMul", "forward"] == [HEAD]
    assert found["MatMul", "backward"] == [HEAD, HEAD]


def test_in_pynative_mode_another_kernel_of_the_layer_tells(events: Events) -> None:
    net = Net()
    gradients = ms.value_and_grad(net, None, net.trainable_params())
    gradients(IMAGES)
    found = by_kernel(events(in_thread(lambda: gradients(IMAGES)), with_flops=True))
    assert found["Conv2D", "forward"] == sorted([PLAIN, GROUPED])
    assert found["Conv2DBackpropInput", "forward"] == [UP]
    assert found["Conv2DBackpropInput", "backward"] == [GROUPED]
    assert ("MatMul", "forward") not in found  # operators of other threads are not observed


def test_unobserved_and_without_its_gradient_a_convolution_in_pynative_mode_has_no_number(events: Events) -> None:
    net = Net()
    net(IMAGES)
    rows = events(in_thread(lambda: net(IMAGES)), with_flops=True).to_pylist()
    assert {row["flops"] for row in rows if row["name"] == "Conv2D"} == {None}


def test_products_of_more_dimensions_in_a_graph(events: Events) -> None:
    left, right = ms.Tensor(np.ones((2, 4, 8), np.float32)), ms.Tensor(np.ones((8, 6), np.float32))
    product = ms.jit(ops.matmul)
    product(left, right)
    rows = events(lambda: product(left, right), with_flops=True).to_pylist()
    assert sum(row["flops"] or 0 for row in rows) == 2 * 2 * 4 * 8 * 6


def test_only_where_it_was_asked_for(events: Events) -> None:
    rows = events(lambda: ops.add(IMAGES, IMAGES)).to_pylist()
    assert {row["flops"] for row in rows} == {None}


# --- shapes alone -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ("[[2,3],[3,5],null,null]", 2 * 2 * 3 * 5),
        ("[[2,3],[5,3],null,null]", 2 * 2 * 3 * 5),
        ("[[3,2],[3,5],null,null]", 2 * 2 * 3 * 5),
        ("[[4,4],[4,4],null,null]", 2 * 4 * 4 * 4),
        ("[[2,3],[2,3],null,null]", None),  # either may be transposed
        ("[[2,3],[4,5],null,null]", None),
        ("[[2,-1],[3,5],null,null]", None),
        ("[[0,3],[3,5],null,null]", 0),
        ('["TupleShape()"]', None),
        ("[[3]]", None),
    ],
)
def test_a_product_is_counted_if_all_ways_to_read_it_agree(shapes: str, expected: int | None) -> None:
    assert counted(("Default/MatMul-op0", shapes)) == [expected]


def test_batches_of_products() -> None:
    assert counted(("BatchMatMul", "[[7,2,3],[7,3,5]]"), ("BatchMatMul", "[[7,2,3],[8,3,5]]")) == [7 * 60, None]


def test_pieces_of_a_product_are_not_transposed() -> None:
    assert counted(("Expand/_MatMulExt/BatchMatMul-op0", "[[2,4,3],[2,3,4]]")) == [2 * 2 * 4 * 3 * 4]


def test_the_graph_tells_how_a_product_is_meant() -> None:
    operator = Operator("1", "MatMul", "Default/MatMul-op0", (), b"\x12\x0a\x12\x08\x0a\x02\x08\x03\x0a\x02\x08\x03")
    assert operator.shape == (3, 3)
    kernel = launched("Default/MatMul-op0", "[[2,3],[2,3]]", GraphLocation(Graph([operator], {}), operator))
    assert flops([0, 0], [kernel], ["[[2,3],[2,3]]"] * 2) == [2 * 3 * 3 * 2] * 2


@pytest.mark.parametrize("kind", ["Add", "Mul"])
def test_stretched_operands_are_counted_at_their_full_size(kind: str) -> None:
    assert counted((kind, "[[2,1,3],[4,1]]"), (kind, "[[],[]]"), (kind, "[]")) == [prod((2, 4, 3)), 1, None]


def test_convolutions_that_cannot_be_told_apart_have_no_number() -> None:
    images, gradient = "[2,1,8,8]", "[2,4,8,8]"
    assert counted(
        ("Conv2D", f"[{images},[4,1,3,3]]"),
        ("Conv2D", f"[{images},[4,1,5,5]]"),
        ("Conv2DBackpropFilter", f"[{gradient},{images},[4]]"),
        ("Relu", "[[2]]"),
    ) == [None, None, None, None]
