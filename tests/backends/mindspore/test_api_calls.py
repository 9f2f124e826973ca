"""Calls of MindSpore's API, traced: each once, by its name, and nothing of MindSpore is another afterwards."""
# ruff: noqa: PLW0108  a method that is looked up before tracing is another one

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.numpy as mnp
import numpy as np
import pytest
from mindspore import mint, nn, ops
from mindspore.graph import api
from mindspore.mint.nn import functional
from mindspore.ops import relu as relu_imported_before
from mindspore.ops import tanh
from mindspore.ops.composite import base

import unified_profiler as up
from unified_profiler.model.api_names import api_name
from unified_profiler.model.trace import Trace
from unified_profiler.recording.api.options import TraceOptions
from unified_profiler.recording.api.tracer import Tracer
from unified_profiler_mindspore.api.surface import MindSporeSurface
from unified_profiler_mindspore.api.targets import find_targets
from unified_profiler_mindspore.record import native

Row = dict[str, Any]
SLACK_NS = 20_000


def begun(**options: Any) -> Tracer:
    tracer = Tracer(TraceOptions(**options), clock=time.time_ns)
    tracer.install("mindspore", MindSporeSurface())
    return tracer


def taken(tracer: Tracer, kind: str = "api_call") -> list[Row]:
    """The events of a kind, in the order in which they began."""
    found: list[Row] = [row for row in tracer.take(0, time.time_ns()).to_pylist() if row["kind"] == kind]
    return sorted(found, key=lambda row: (row["start_ns"], -row["duration_ns"]))


@contextmanager
def tracing(**options: Any) -> Iterator[Tracer]:
    tracer = begun(**options)
    try:
        yield tracer
    finally:
        tracer.stop()


def rows_of(work: Callable[[], Any], kind: str = "api_call", **options: Any) -> list[Row]:
    with tracing(**options) as tracer:
        work()
    return taken(tracer, kind)


def names_of(work: Callable[[], Any], **options: Any) -> list[str]:
    return [row["name"] for row in rows_of(work, **options)]


@pytest.fixture
def _graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def tensor(*shape: int) -> ms.Tensor:
    return ms.Tensor(np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape))


X, Y, SQUARE, IMAGE = tensor(4, 16), tensor(4, 16), tensor(3, 3), tensor(1, 1, 4, 4)
WHOLE, TRUE, ONE, KERNEL = ms.Tensor([1, 2, 3]), ms.Tensor([True, False]), tensor(1), tensor(1, 1, 1, 1)
WEIGHTS = ms.Parameter(tensor(4, 16), name="weights")
DENSE, LINEAR, LOSS = nn.Dense(16, 4), mint.nn.Linear(16, 4), nn.MSELoss()
CLASSES, ROW = ms.Tensor([0, 1, 2], ms.int32), tensor(3)
ATTENTION, SIGMOID = nn.MultiheadAttention(16, 2), mint.nn.Sigmoid()
NORM_TAKEN_BEFORE = ms.Tensor.norm


class Inner(nn.Cell):  # type: ignore[misc]  # MindSpore is not typed for mypy here
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(16, 16)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return ops.relu(self.dense(x)) + 1


class Outer(nn.Cell):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.SequentialCell(nn.Dense(16, 16), Inner())
        self.attention = nn.MultiheadAttention(16, 2)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        x = self.layers(x)
        return x + self.attention(x, x, x)[0]


class Everything(nn.Cell):  # type: ignore[misc]
    """Functions, methods, operators, Primitives and Cells in one graph."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.relu, self.add_bias = nn.SequentialCell(nn.Dense(16, 8), nn.ReLU()), ops.ReLU(), ops.BiasAdd()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        z = ops.relu(self.layers(x))
        z = functional.softmax(z, dim=-1) + ops.norm(z) + z.sum() + z[0, 1] + mint.reshape(x, (16, 4)).mean()
        z = self.add_bias(z, z[0]) + self.relu(x).min() + x.norm() + ops.softmax(z).max() + mint.clamp(z, -1, 1).mean()
        return (z - 1) * 2 @ ops.transpose(-z, (1, 0))


def add_in_place() -> None:
    changed = WEIGHTS
    changed += 1


def set_item() -> None:
    WEIGHTS[0] = 1


CALLS: list[tuple[str, Callable[[], Any]]] = [
    ("mindspore.ops.relu", lambda: ops.relu(X)),
    ("mindspore.ops.relu", lambda: mint.nn.functional.relu(X)),
    ("mindspore.ops.relu", lambda: functional.relu(X)),
    ("mindspore.ops.relu", lambda: relu_imported_before(X)),
    ("mindspore.ops.tanh", lambda: tanh(X)),
    ("mindspore.ops.tanh", lambda: mint.tanh(X)),
    ("mindspore.ops.add", lambda: ops.add(X, Y)),
    ("mindspore.mint.add", lambda: mint.add(X, Y, alpha=2)),
    ("mindspore.ops.matmul", lambda: ops.matmul(SQUARE, SQUARE)),
    ("mindspore.ops.matmul", lambda: mint.matmul(SQUARE, SQUARE)),
    ("mindspore.ops.softmax", lambda: ops.softmax(X)),
    ("mindspore.ops.norm", lambda: ops.norm(X)),
    ("mindspore.ops.reshape", lambda: ops.reshape(X, (16, 4))),
    ("mindspore.mint.reshape", lambda: mint.reshape(X, (16, 4))),
    ("mindspore.ops.transpose", lambda: ops.transpose(X, (1, 0))),
    ("mindspore.ops.exp", lambda: ops.exp(X)),
    ("mindspore.ops.sin", lambda: ops.sin(X)),
    ("mindspore.ops.square", lambda: ops.square(X)),
    ("mindspore.ops.cast", lambda: ops.cast(X, ms.float16)),
    ("mindspore.ops.concat", lambda: ops.concat((X, Y))),
    ("mindspore.mint.cat", lambda: mint.cat((X, Y))),
    ("mindspore.ops.split", lambda: ops.split(X, 2)),
    ("mindspore.ops.zeros", lambda: ops.zeros((2, 3), ms.float32)),
    ("mindspore.mint.ones", lambda: mint.ones((2, 3))),
    ("mindspore.ops.arange", lambda: ops.arange(4)),
    ("mindspore.ops.one_hot", lambda: ops.one_hot(WHOLE, 4)),
    ("mindspore.ops.gather", lambda: ops.gather(X, WHOLE, 0)),
    ("mindspore.ops.clip_by_norm", lambda: ops.clip_by_norm(X, 1.0)),
    ("mindspore.ops.cross_entropy", lambda: ops.cross_entropy(SQUARE, CLASSES)),
    ("mindspore.mint.mean", lambda: mint.mean(X)),
    ("mindspore.mint.sub", lambda: mint.sub(X, Y)),
    ("mindspore.mint.mul", lambda: mint.mul(X, Y)),
    ("mindspore.mint.sum", lambda: mint.sum(X)),
    ("mindspore.ops.erfc", lambda: mint.special.erfc(X)),
    ("mindspore.numpy.add", lambda: mnp.add(X, Y)),
    ("mindspore.tensor", lambda: ms.tensor([1.0, 2.0])),
    ("mindspore.Tensor.sum", lambda: X.sum()),
    ("mindspore.Tensor.sum", lambda: WEIGHTS.sum()),
    ("mindspore.Tensor.mean", lambda: X.mean()),
    ("mindspore.Tensor.reshape", lambda: X.reshape(16, 4)),
    ("mindspore.Tensor.astype", lambda: X.astype(ms.float16)),
    ("mindspore.Tensor.norm", lambda: X.norm()),
    ("mindspore.Tensor.norm", lambda: NORM_TAKEN_BEFORE(X)),
    ("mindspore.Tensor.asnumpy", lambda: X.asnumpy()),
    ("mindspore.Tensor.T", lambda: X.T),
    ("mindspore.Tensor.__add__", lambda: X + Y),
    ("mindspore.Tensor.__add__", lambda: X + 1),
    ("mindspore.Tensor.__add__", lambda: WEIGHTS + X),
    ("mindspore.Tensor.__radd__", lambda: 1 + X),
    ("mindspore.Tensor.__sub__", lambda: X - Y),
    ("mindspore.Tensor.__rsub__", lambda: 1 - X),
    ("mindspore.Tensor.__mul__", lambda: X * Y),
    ("mindspore.Tensor.__truediv__", lambda: X / Y),
    ("mindspore.Tensor.__floordiv__", lambda: X // Y),
    ("mindspore.Tensor.__mod__", lambda: X % Y),
    ("mindspore.Tensor.__pow__", lambda: X**2),
    ("mindspore.Tensor.__matmul__", lambda: SQUARE @ SQUARE),
    ("mindspore.Tensor.__neg__", lambda: -X),
    ("mindspore.Tensor.__gt__", lambda: X > Y),
    ("mindspore.Tensor.__eq__", lambda: X == Y),
    ("mindspore.Tensor.__getitem__", lambda: X[0]),
    ("mindspore.Tensor.__and__", lambda: TRUE & TRUE),
    ("mindspore.Tensor.__bool__", lambda: bool(ONE)),
    ("mindspore.Tensor.__float__", lambda: float(ONE)),
    ("mindspore.Tensor.__iadd__", add_in_place),
    ("mindspore.Tensor.__setitem__", set_item),
    ("mindspore.ops.ReLU", lambda: ops.ReLU()(X)),
    ("mindspore.ops.MatMul", lambda: ops.MatMul()(SQUARE, SQUARE)),
    ("mindspore.ops.Conv2D", lambda: ops.Conv2D(1, 1)(IMAGE, KERNEL)),
    ("mindspore.ops.BiasAdd", lambda: ops.operations.BiasAdd()(SQUARE, ROW)),
    ("mindspore.ops.Add", lambda: ops.tensor_add(X, Y)),
    ("mindspore.nn.Dense", lambda: DENSE(X)),
    ("mindspore.nn.ReLU", lambda: nn.ReLU()(X)),
    ("mindspore.nn.MSELoss", lambda: LOSS(X, Y)),
    ("mindspore.nn.Linear", lambda: LINEAR(X)),
    ("mindspore.mint.nn.Sigmoid", lambda: SIGMOID(X)),
    ("mindspore.nn.MultiheadAttention", lambda: ATTENTION(X, X, X)),
]


# --- each call once, by its name --------------------------------------------------------------------------------------


def test_a_call_is_recorded_once_by_its_name_however_it_was_imported() -> None:
    with tracing() as tracer:
        for name, call in CALLS:
            call()
            assert [row["name"] for row in taken(tracer)] == [name]


def test_names_are_those_of_the_objects_and_can_be_chosen_by_patterns() -> None:
    names = set(MindSporeSurface().names())
    things = [ops.relu, mint.add, nn.Dense, nn.Adam, mint.optim.Adam, ops.Conv2D, ops.ReLU, ms.grad, ms.jit, mnp.add]
    assert {api_name(thing) for thing in things} < names
    assert {"mindspore.Tensor.__add__", "mindspore.Tensor.norm", "mindspore.Tensor.sum"} < names
    assert names_of(lambda: DENSE(ops.relu(X) + 1), include=("mindspore.nn.*",)) == ["mindspore.nn.Dense"]
    assert names_of(lambda: DENSE(ops.relu(X) + 1), exclude=("mindspore.nn.*", "*.relu")) == [
        "mindspore.Tensor.__add__"
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("mindspore.set_context", "mindspore.get_context", "mindspore.set_seed", "mindspore.jit_class"),
        *(
            "mindspore.value_and_grad",
            "mindspore.vmap",
            "mindspore.ops.constexpr",
            "mindspore.mint.distributed.get_rank",
        ),
        *("mindspore.Tensor.dim", "mindspore.Tensor.__hash__", "mindspore.Tensor.set_dtype", "mindspore.Tensor._item"),
    ],
)
def test_what_does_no_work_and_what_is_private_is_left_out(name: str) -> None:
    assert name not in MindSporeSurface().names()


def test_arguments_are_kept_as_short_texts() -> None:
    def work() -> None:
        mint.add(X, WEIGHTS, alpha=2)
        ops.cast(X, ms.float16)
        ops.concat((X, Y), axis=1)
        ops.ReLU()(WHOLE)
        X[0, 1:]

    assert [row["attributes"] for row in rows_of(work)] == [
        '{"args":["Tensor[4,16] float32","Parameter[4,16] float32"],"kwargs":{"alpha":"2"}}',
        '{"args":["Tensor[4,16] float32","float16"]}',
        '{"args":["(Tensor[4,16] float32, Tensor[4,16] float32)"],"kwargs":{"axis":"1"}}',
        '{"args":["ReLU","Tensor[3] int64"]}',
        '{"args":["Tensor[4,16] float32","(0, 1:)"]}',
    ]
    assert [row["attributes"] for row in rows_of(work, arguments=False)] == [None] * 5


def test_a_cell_of_the_users_is_seen_by_the_calls_of_its_own_code() -> None:
    assert names_of(lambda: Outer()(X), exclude=("*.assign_value",)) == [
        "mindspore.nn.SequentialCell",
        "mindspore.nn.Dense",
        "mindspore.ops.relu",
        "mindspore.Tensor.__add__",
        "mindspore.nn.MultiheadAttention",
        "mindspore.Tensor.__add__",
    ]


def test_what_is_called_inside_is_recorded_on_demand() -> None:
    assert names_of(lambda: ops.norm(X)) == ["mindspore.ops.norm"]
    inside = names_of(lambda: ops.norm(X), inside=True)
    assert inside[0] == "mindspore.ops.norm"
    assert {"mindspore.ops.square", "mindspore.ops.sqrt", "mindspore.ops.ReduceSum"} < set(inside)
    assert names_of(lambda: DENSE(X)) == ["mindspore.nn.Dense"]
    inside = names_of(lambda: DENSE(X), inside=True)
    assert inside[0] == "mindspore.nn.Dense"
    assert "mindspore.ops.MatMul" in inside


# --- training ---------------------------------------------------------------------------------------------------------


class Model:
    """A small model, and what trains it."""

    def __init__(self, optimizer: Callable[..., Any] = nn.SGD) -> None:
        ms.set_seed(0)
        self.net = nn.SequentialCell(nn.Dense(16, 8), nn.ReLU(), nn.Dense(8, 4))
        self.optimizer = optimizer(self.net.trainable_params(), 0.01)
        self.gradients = ms.value_and_grad(self.forward, None, self.net.trainable_params())

    def forward(self, x: ms.Tensor) -> ms.Tensor:
        return ops.square(self.net(x)).mean()

    def step(self) -> ms.Tensor:
        loss, gradients = self.gradients(X)
        self.optimizer(gradients)
        return loss


FORWARD = ["mindspore.nn.SequentialCell", "mindspore.ops.square", "mindspore.Tensor.mean"]


class TrainStep(nn.Cell):  # type: ignore[misc]
    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self.work = work

    def construct(self) -> None:
        self.work()


@pytest.mark.parametrize("around", [lambda work: work, TrainStep], ids=["function", "Cell"])
@pytest.mark.parametrize(
    ("optimizer", "name"),
    [(nn.Adam, "mindspore.nn.Adam"), (nn.SGD, "mindspore.nn.SGD"), (mint.optim.SGD, "mindspore.mint.optim.SGD")],
)
def test_a_step_is_its_forward_calls_one_backward_call_and_the_optimizer(
    optimizer: Callable[..., Any], name: str, around: Callable[..., Any]
) -> None:
    assert names_of(around(Model(optimizer).step)) == [*FORWARD, "mindspore.grad", name]


@pytest.mark.parametrize("around", [lambda work: work, TrainStep], ids=["function", "Cell"])
def test_gradients_are_one_backward_call_whatever_made_them(around: Callable[..., Any]) -> None:
    model = Model()
    ones = ms.Tensor(1.0, ms.float32)
    for gradients in (
        lambda: ms.grad(model.forward)(X),
        lambda: ms.value_and_grad(model.forward)(X),
        lambda: ops.GradOperation()(model.forward)(X),
        lambda: ms.vjp(model.forward, X)[1](ones),
    ):
        assert names_of(around(gradients)) == [*FORWARD, "mindspore.grad"]
    assert names_of(around(lambda: ms.grad(ops.sin)(X))) == ["mindspore.ops.sin", "mindspore.grad"]


def test_mapped_operators_are_recorded_themselves() -> None:
    mapped = lambda: ops.HyperMap()(ops.Add(), (X, Y), (X, Y))  # noqa: E731
    assert names_of(mapped) == names_of(TrainStep(mapped)) == ["mindspore.ops.Add"] * 2


@pytest.mark.parametrize("around", [lambda work: work, TrainStep], ids=["function", "Cell"])
def test_a_compiled_function_is_one_call(around: Callable[..., Any]) -> None:
    @ms.jit  # type: ignore[untyped-decorator]
    def compiled(x: ms.Tensor) -> ms.Tensor:
        return ops.relu(x).sum() + 1

    for _ in range(2):
        (row,) = rows_of(around(lambda: compiled(X)))
        assert (row["name"], row["attributes"]) == ("mindspore.jit", '{"args":["compiled","Tensor[4,16] float32"]}')


def test_a_cell_whose_code_is_compiled_is_one_call() -> None:
    class Compiled(nn.Cell):  # type: ignore[misc]
        @ms.jit  # type: ignore[untyped-decorator]
        def construct(self, x: ms.Tensor) -> ms.Tensor:
            return ops.relu(x) + 1

    cell = Compiled()
    assert names_of(lambda: cell(X)) == ["mindspore.jit"]
    assert names_of(lambda: nn.SequentialCell(cell, nn.ReLU())(X)) == ["mindspore.nn.SequentialCell"]


@pytest.mark.usefixtures("_graph_mode")
def test_in_graph_mode_only_the_outermost_call_is_seen() -> None:
    model = Model()
    inner = Inner()
    work = lambda: (inner(X), DENSE(X), model.step(), ops.relu(X))  # noqa: E731
    expected = ["mindspore.nn.Cell", "mindspore.nn.Dense", "mindspore.jit", "mindspore.nn.SGD", "mindspore.ops.relu"]
    assert names_of(work) == expected
    assert names_of(work) == expected


# --- modules ----------------------------------------------------------------------------------------------------------


def modules_of(work: Callable[[], Any], **options: Any) -> list[tuple[str, str]]:
    return [(row["name"], row["module"]) for row in rows_of(work, "module", modules=True, **options)]


@pytest.mark.parametrize("calls", [True, False])
def test_modules_are_told_by_their_paths(calls: bool) -> None:
    net = Outer()
    assert modules_of(lambda: net(X), calls=calls) == [
        ("Outer", "Outer"),
        ("SequentialCell", "layers"),
        ("Dense", "layers.0"),
        ("Inner", "layers.1"),
        ("Dense", "layers.1.dense"),
        ("MultiheadAttention", "attention"),
    ]
    assert bool(rows_of(lambda: net(X), modules=True, calls=calls)) is calls


@pytest.mark.usefixtures("_graph_mode")
def test_in_graph_mode_only_the_outermost_module_is_seen() -> None:
    net = Inner()
    assert modules_of(lambda: net(X)) == [("Inner", "Inner")]


# --- nothing else is another ------------------------------------------------------------------------------------------


def snapshot() -> dict[tuple[int, str], Any]:
    """Everything that tracing touches: attributes of modules and classes, code and attributes of functions."""
    targets = find_targets()
    modules = [ms, ops, ops.operations, mint, functional, mint.linalg, mint.special, mnp, nn, api, base]
    classes = [ms.Tensor, ms.Parameter, ms.COOTensor, ms.CSRTensor, nn.Cell, nn.MultiheadAttention, api._JitExecutor]
    classes += [kind for kind in vars(ops).values() if isinstance(kind, type)]
    functions = [*targets.functions, *targets.cell_calls, ops.Primitive.__call__]
    functions += [base._pynative_func_grad_backward, api._JitExecutor.__call__]
    codes = {(id(function), "__code__"): function.__code__ for function in functions}
    holders = [*modules, *classes, *functions]
    return codes | {(id(holder), name): value for holder in holders for name, value in vars(holder).items()}


def same(one: dict[tuple[int, str], Any], other: dict[tuple[int, str], Any]) -> bool:
    return one.keys() == other.keys() and all(value is other[key] for key, value in one.items())


@pytest.fixture
def _as_before() -> Iterator[None]:
    """Checks that everything is the identical object that it was."""
    ops.norm(X)
    before = snapshot()
    yield
    assert same(before, snapshot())


def work() -> None:
    DENSE(ops.relu(X)) + 1


WORK = ["mindspore.ops.relu", "mindspore.nn.Dense", "mindspore.Tensor.__add__"]


def test_the_snapshot_sees_tracing() -> None:
    before = snapshot()
    with tracing():
        assert not same(before, snapshot())


@pytest.mark.usefixtures("_as_before")
def test_nothing_is_left_of_a_tracer_nor_of_many() -> None:
    for _ in range(3):
        assert names_of(work) == WORK


@pytest.mark.usefixtures("_as_before")
def test_nothing_is_left_of_nested_tracers() -> None:
    with tracing() as outer:
        work()
        with tracing(inside=True) as inner:
            work()
        work()
    assert [row["name"] for row in taken(outer)] == WORK * 3
    assert Counter(row["name"] for row in taken(inner)) > Counter(WORK)


@pytest.mark.usefixtures("_as_before")
def test_tracers_may_end_in_the_order_in_which_they_began() -> None:
    first = begun()
    work()
    second = begun()
    work()
    first.stop()
    work()
    second.stop()
    work()
    assert [row["name"] for row in taken(first)] == [row["name"] for row in taken(second)] == WORK * 2


@pytest.mark.usefixtures("_as_before")
def test_an_exception_passes_and_leaves_nothing() -> None:
    def fails() -> None:
        with pytest.raises(TypeError):
            ops.reshape(X, "shape")
        with pytest.raises(TypeError):
            ops.relu()
        work()

    assert names_of(fails) == ["mindspore.ops.reshape", "mindspore.ops.relu", *WORK]


@pytest.mark.usefixtures("_as_before")
def test_calls_of_two_threads_are_told_apart() -> None:
    turn = threading.Lock()  # MindSpore itself crashes when two threads run operators at the same time

    def repeat() -> None:
        for _ in range(20):
            with turn:
                work()
                native.wait_for_kernels()

    with tracing() as tracer:
        threads = [threading.Thread(target=repeat, name=name) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = taken(tracer)
    for thread in threads:
        assert [row["name"] for row in found if row["tid"] == thread.native_id] == WORK * 20


@pytest.mark.usefixtures("_as_before")
def test_a_forked_child_has_the_original_code() -> None:
    code = ops.relu.__code__
    with tracing() as tracer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, from Python 3.12 on
            child = os.fork()
        if child == 0:  # MindSpore itself is not used here: its threads are not
            os._exit(0 if ops.relu.__code__ is code and "__add__" not in vars(ms.Tensor) else 1)
        assert os.waitpid(child, 0)[1] == 0
        work()
    assert [row["name"] for row in taken(tracer)] == WORK


# --- programs do the same ---------------------------------------------------------------------------------------------


def _assert_the_same_under_tracing(before: Callable[..., Any], meanwhile: Callable[..., Any]) -> None:
    """One is compiled before tracing begins, the other meanwhile."""
    results = [before(X)]
    with tracing():
        results += [before(X), meanwhile(X), meanwhile(X)]
    results += [before(X), meanwhile(X)]
    for result in results:
        assert np.array_equal(result.asnumpy(), results[0].asnumpy())


def test_functions_are_what_they_were_to_whoever_looks() -> None:
    expected = [inspect.signature(ops.norm), inspect.getsource(ops.norm), inspect.signature(ms.Tensor.norm)]
    with tracing():
        assert [inspect.signature(ops.norm), inspect.getsource(ops.norm), inspect.signature(ms.Tensor.norm)] == expected
        assert pickle.loads(pickle.dumps(ops.relu)) is ops.relu is relu_imported_before is functional.relu  # noqa: S301
        assert np.array_equal(pickle.loads(pickle.dumps(X)).asnumpy(), X.asnumpy())  # noqa: S301
        assert isinstance(WEIGHTS, ms.Tensor)
        assert isinstance(WEIGHTS + X, ms.Tensor)
        assert isinstance(DENSE, nn.Cell)


def test_gradients_and_steps_are_those_without_tracing() -> None:
    plain, traced = Model(nn.Adam), Model(nn.Adam)
    expected = [plain.step().asnumpy() for _ in range(3)]
    with tracing(inside=True, modules=True):
        assert [traced.step().asnumpy() for _ in range(3)] == expected
    for one, other in zip(plain.net.get_parameters(), traced.net.get_parameters(), strict=True):
        assert np.array_equal(one.asnumpy(), other.asnumpy())


def test_compiled_functions_do_the_same_whenever_they_were_compiled() -> None:
    ms.set_seed(0)
    net = Everything()

    def one(x: ms.Tensor) -> ms.Tensor:
        return net(x)

    def other(x: ms.Tensor) -> ms.Tensor:
        return net(x)

    before, meanwhile = ms.jit(one), ms.jit(other)
    _assert_the_same_under_tracing(before, meanwhile)


OTHER_COMPILERS = """
import contextlib, sys, time, numpy as np, mindspore as ms
from mindspore import ops
from unified_profiler.recording.api.tracer import Tracer
from unified_profiler.recording.api.options import TraceOptions
from unified_profiler_mindspore.api.surface import MindSporeSurface

x = ms.Tensor(np.ones((4, 16), np.float32))
with contextlib.suppress(SystemError):
    x * x

def before(x):
    return ops.tanh(ops.softmax(ops.matmul(ops.relu(x) + 1, x.transpose(1, 0)))).sum()

def meanwhile(x):
    return ops.tanh(ops.softmax(ops.matmul(ops.relu(x) + 1, x.transpose(1, 0)))).sum()

expected = before(x).asnumpy()
for mode in ("trace", "bytecode") if sys.version_info < (3, 12) else ("trace",):  # bytecode: up to Python 3.11
    functions = [ms.jit(function, capture_mode=mode) for function in (before, meanwhile)]
    results = [functions[0](x)]
    tracer = Tracer(TraceOptions(), clock=time.time_ns)
    tracer.install("mindspore", MindSporeSurface())
    results += [function(x) for function in functions * 2]
    tracer.stop()
    results += [function(x) for function in functions]
    assert all(np.allclose(result.asnumpy(), expected) for result in results), (mode, results)
"""


def test_functions_of_the_other_compilers_do_the_same(tmp_path: Path) -> None:
    """In a program of its own: one of them reads the source of all frames, and not all of pytest's have some."""
    script = tmp_path / "script.py"
    script.write_text(OTHER_COMPILERS)
    run = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.usefixtures("_graph_mode")
def test_graphs_do_the_same_whenever_they_were_compiled() -> None:
    ms.set_seed(0)
    before = Everything()
    ms.set_seed(0)
    meanwhile = Everything()
    _assert_the_same_under_tracing(before, meanwhile)


# --- all the work is in calls -----------------------------------------------------------------------------------------


def recorded(work: Callable[[], Any], **options: Any) -> tuple[Trace, list[Row]]:
    """Record some work natively and trace it."""
    with up.Profiler(backend="mindspore", strict=True) as profiler, tracing(**options) as tracer:
        work()
    return profiler.traces[0], taken(tracer)


def kernels(trace: Trace) -> list[Row]:
    return [row for row in trace.events.to_pylist() if row["kind"] == "op"]


def ends(row: Row) -> int:
    return int(row["start_ns"] + row["duration_ns"])


def outside(trace: Trace, calls: list[Row]) -> list[str]:
    """Return the kernels that began while no call was under way."""
    return [
        kernel["name"]
        for kernel in kernels(trace)
        if not any(c["start_ns"] - SLACK_NS <= kernel["start_ns"] <= ends(c) + SLACK_NS for c in calls)
    ]


@pytest.mark.parametrize("optimizer", [nn.SGD, nn.Adam])
def test_every_kernel_of_a_step_runs_within_a_call(optimizer: Callable[..., Any]) -> None:
    model = Model(optimizer)
    model.step()
    trace, calls = recorded(model.step, synchronize=True)
    assert len(kernels(trace)) > len(calls) == 5
    assert outside(trace, calls) == []


@pytest.mark.usefixtures("_graph_mode")
def test_every_kernel_of_a_graph_runs_within_the_outermost_call() -> None:
    model = Model()
    train = nn.TrainOneStepCell(nn.WithLossCell(model.net, nn.MSELoss()), model.optimizer)
    labels = tensor(4, 4)
    train(X, labels)
    trace, calls = recorded(lambda: train(X, labels), synchronize=True)
    assert [call["name"] for call in calls] == ["mindspore.nn.TrainOneStepCell"]
    assert len(kernels(trace)) > 4
    assert outside(trace, calls) == []


def test_a_call_lasts_as_long_as_its_work_if_it_is_waited_for_and_else_as_its_dispatch() -> None:
    large = tensor(2000, 2000)  # thousands of times the work of its dispatch
    for synchronize in (True, False):
        native.wait_for_kernels()
        trace, (call,) = recorded(lambda: ops.matmul(large, large), synchronize=synchronize)
        (kernel,) = kernels(trace)
        assert (call["duration_ns"] >= kernel["duration_ns"]) is synchronize
