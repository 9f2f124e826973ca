"""Graphs in files: what is read of them, and which of their operators kernels are found to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

from unified_profiler.errors import TraceFormatError
from unified_profiler.spi import NativeCapture
from unified_profiler_mindspore.canonical.assignment import lookup
from unified_profiler_mindspore.canonical.graph_locations import Kernel, locate_kernels
from unified_profiler_mindspore.canonical.kernel_names import parse
from unified_profiler_mindspore.read.graph_ir import Graph, Operator, Shape, read_graph
from unified_profiler_mindspore.read.normalizer import MindSporeNormalizer
from unified_profiler_mindspore.record import native

ROWS = ms.Tensor(np.ones((2, 4), np.float32))


@pytest.fixture
def capture(record: Any) -> NativeCapture:
    """Two runs of a graph, in which a layer and a sum are."""
    layer = nn.Dense(4, 3)

    @ms.jit  # type: ignore[untyped-decorator]
    def work(rows: ms.Tensor) -> ms.Tensor:
        return ops.relu(layer(rows)).sum()

    work(ROWS)
    recorded: NativeCapture = record(lambda: (work(ROWS), work(ROWS)))
    return recorded


def graph_file(capture: NativeCapture) -> Path:
    (path,) = (file for file in capture.files if file.suffix == ".pb")
    return path


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_graph_is_in_the_capture_once_and_tells_shapes_and_what_is_computed_from_what(capture: NativeCapture) -> None:
    graph = read_graph(graph_file(capture))
    by_type = {operator.type: operator for operator in graph.operators}
    product, relu = by_type["MatMul"], by_type["ReLU"]
    assert (graph.input_shapes(product), product.shape) == ([(2, 4), (3, 4)], (2, 3))
    assert graph.sources(relu) == {by_type["BiasAdd"].key}
    assert graph.users(by_type["BiasAdd"].key) == {relu.key}
    assert by_type["SumExt"].shape == ()


def test_only_graphs_that_ran_are_in_the_capture(record: Any, capture: NativeCapture) -> None:
    later = record(lambda: ops.add(ROWS, ROWS), folder="later")
    assert [file.suffix for file in later.files] == [".txt", ".txt", ".json"]


def test_a_graph_that_mindspore_has_forgotten_is_left_out() -> None:
    assert native.graph_proto("no such graph") == b""


@pytest.mark.parametrize("damage", [lambda text: text[:-9], lambda _: b"\xff" * 20, lambda text: b"\x0f" + text])
def test_a_damaged_graph_is_a_format_error(damage: Callable[[bytes], bytes], capture: NativeCapture) -> None:
    path = graph_file(capture)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TraceFormatError, match=r"graph_0\.pb"):
        read_graph(path)
    with pytest.raises(TraceFormatError, match=r"graph_0\.pb"):
        MindSporeNormalizer().normalize(capture)


def test_a_missing_graph_is_a_format_error(capture: NativeCapture) -> None:
    graph_file(capture).unlink()
    with pytest.raises(TraceFormatError, match=r"graph_0\.pb is missing"):
        MindSporeNormalizer().normalize(capture)


def test_a_graph_that_cannot_be_written_costs_the_graph_only(
    record: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    work = ms.jit(ops.relu)
    work(ROWS)

    def full(self: Path, text: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        patch.setattr("unified_profiler_mindspore.record.host_driver.write_note", lambda *_: Path("note"))
        capture = record(lambda: work(ROWS))
    assert [file.suffix for file in capture.files[:-1]] == [".txt", ".txt"]
    assert "could not be written" in caplog.text


# --- places -----------------------------------------------------------------------------------------------------------


def graph_of(*operators: tuple[str, tuple[Shape, ...], Shape]) -> Graph:
    """Return a graph of operators, given their names, and the shapes of what each takes and gives."""
    made: list[Operator] = []
    parameters: dict[str, Shape | None] = {}
    for number, (name, taken, given) in enumerate(operators):
        keys = tuple(f"p{number}_{place}" for place in range(len(taken)))
        parameters |= dict(zip(keys, taken, strict=True))
        operator = Operator(str(number), parse(name).type, name, keys)
        operator.__dict__["shape"] = given
        made.append(operator)
    return Graph(made, parameters)


def found(names: Mapping[str, tuple[Shape, ...]], *graphs: Graph) -> list[str | None]:
    """Return the operators that kernels are found to be, given the shapes that they take."""
    kernels = [Kernel(name, parse(name), shapes) for name, shapes in names.items()]
    return [
        kernel.location.operator.name if kernel.location else None
        for kernel in locate_kernels(kernels, graphs, lookup())
    ]


A, B = (2, 3), (5, 7)
SUMS = [("Default/SumExt-op0", (A,), ()), ("Gradients/Default/Grad_Sub/SumExt-op0", (B,), ())]


def test_numbers_go_on_from_graph_to_graph() -> None:
    graph = graph_of(("Default/Neg-op0", (A,), A), ("Default/Neg-op1", (B,), B))
    assert found({"Default/Neg-op8": (B,), "Default/Neg-op7": (A,)}, graph) == ["Default/Neg-op1", "Default/Neg-op0"]


def test_pieces_are_dealt_out_in_order() -> None:
    names = {"Expand/_SumExt/ReduceSum-op4": (A,), "Expand/_SumExt/ReduceSum-op5": (B,)}
    assert found(names, graph_of(*SUMS)) == [name for name, _, _ in SUMS]


@pytest.mark.parametrize(
    "names",
    [
        {"Expand/_SumExt/ReduceSum-op4": (A,)},
        {"Expand/_SumExt/ReduceSum-op4": (A,), "Expand/_SumExt/ReduceSum-op6": (B,)},
        {"Expand/_SumExt/ReduceSum-op4": (B,), "Expand/_SumExt/ReduceSum-op5": (A,)},
    ],
    ids=["too few", "not one after the other", "of other shapes"],
)
def test_pieces_that_do_not_add_up_or_do_not_fit_have_no_place(names: dict[str, tuple[Shape, ...]]) -> None:
    assert set(found(names, graph_of(*SUMS))) == {None}


def test_with_several_graphs_it_is_not_known_which_came_first() -> None:
    names = {"Expand/_SumExt/ReduceSum-op0": (A,), "Expand/_SumExt/ReduceSum-op1": (B,)}
    assert found(names, graph_of(*SUMS), graph_of(*SUMS)) == [None, None]


def test_products_are_taken_apart_as_their_shapes_demand() -> None:
    graph = graph_of(
        ("Default/MatMulExt-op0", ((4, 2, 3), (3, 5)), (4, 2, 5)),
        ("Default/MatMulExt-op1", ((2, 3), (3, 5)), (2, 5)),
        ("Gradients/Default/Grad_MatMulExt/MatMulExt-op0", ((4, 2, 3), (4, 3, 5)), (4, 2, 5)),
    )
    assert found(
        {
            "Expand/_MatMulExt/BroadcastTo-op0": ((3, 5),),
            "Expand/_MatMulExt/BatchMatMul-op0": ((4, 2, 3), (4, 3, 5)),
            "Expand/_MatMulExt/MatMul-op0": ((2, 3), (3, 5)),
            "Expand/_MatMulExt/BatchMatMul-op1": ((4, 2, 3), (4, 3, 5)),
        },
        graph,
    ) == [graph.operators[number].name for number in (0, 0, 1, 2)]


def test_a_transposed_convolution_is_found_under_its_other_name() -> None:
    graph = graph_of(("Default/up-Conv2dTranspose/Conv2DTranspose-op0", (A,), B))
    assert found({"Default/up-Conv2dTranspose/Conv2DBackpropInput-op3": (A,)}, graph) == [graph.operators[0].name]
