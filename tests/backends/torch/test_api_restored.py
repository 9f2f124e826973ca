"""Under tracing torch does what it always does, and afterwards it is what it was."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from unified_profiler import trace_api
from unified_profiler.testing import recorded_calls as rows

X, Y = torch.arange(12.0).reshape(3, 4) + 1, torch.ones(3, 4)
IMAGE, LABELS = torch.ones(1, 3, 8, 8), torch.zeros(3, dtype=torch.long)
LINEAR, LOSS = nn.Linear(4, 2), nn.CrossEntropyLoss()


# --- nothing is another afterwards ------------------------------------------------------------------------------------


def _touched() -> dict[tuple[str, str], int]:
    """Identities of everything in the namespaces and classes of torch, and of the code of functions."""
    homes: dict[str, dict[str, Any]] = {
        name: vars(module)
        for name, module in list(sys.modules.items())
        if name.startswith("torch") and name.count(".") < 4
    }
    for kind in (torch.Tensor, torch._C.TensorBase, nn.Module, torch.optim.Optimizer, torch.optim.Adam):
        homes[kind.__qualname__] = dict(vars(kind))
    identities = {}
    for home, names in homes.items():
        for name, value in list(names.items()):
            identities[home, name] = id(value)
            if type(value) is FunctionType:
                identities[home, f"{name}.code"] = id(value.__code__)
                identities[home, f"{name}.dict"] = hash(tuple(value.__dict__))
    hooks = vars(nn.modules.module) | vars(sys.modules["torch.optim.optimizer"])
    for name in [name for name, value in hooks.items() if name.startswith("_global_") and isinstance(value, dict)]:
        identities["hooks", name] = hash(tuple(hooks[name]))
    return identities


@contextmanager
def _unchanged() -> Iterator[None]:
    with trace_api():
        torch.add(X, Y)  # what torch itself sets up at first use
    before, modes = _touched(), _get_current_function_mode_stack()
    filters, profile = list(warnings.filters), threading.getprofile()
    yield
    after = _touched()
    assert {key for key in before if before[key] != after.get(key)} == set()
    assert _get_current_function_mode_stack() == modes
    assert list(warnings.filters) == filters
    assert threading.getprofile() is profile


def _work() -> None:
    LOSS(LINEAR(F.relu(X)), LABELS)


def test_everything_is_as_before_after_tracing() -> None:
    with _unchanged():
        for _ in range(3):
            with trace_api(with_modules=True):
                _work()


def test_everything_is_as_before_after_nested_tracing_in_any_order() -> None:
    with _unchanged():
        first, second = trace_api(), trace_api(inside=True)
        first.start()
        _work()
        second.start()
        _work()
        first.stop()
        _work()
        second.stop()
    outer, inner = ([row["name"] for row in rows(tracer)] for tracer in (first, second))
    assert outer == ["torch.nn.functional.relu", "torch.nn.Linear", "torch.nn.CrossEntropyLoss"] * 2
    assert [name for name in inner if name in outer] == outer


def test_everything_is_as_before_after_an_exception() -> None:
    def fail() -> None:
        with trace_api():
            LINEAR(torch.ones(5, 5))

    with _unchanged(), pytest.raises(RuntimeError):
        fail()


def test_two_threads_trace_at_once_and_leave_nothing_behind() -> None:
    together = threading.Barrier(2)
    counts: dict[str, Counter[str]] = {}

    def trace(name: str) -> None:
        with trace_api() as tracer:
            together.wait()
            for _ in range(50):
                _work()
            together.wait()
        counts[name] = Counter(row["name"] for row in rows(tracer) if row["thread"] == name)

    with _unchanged():
        threads = [threading.Thread(target=trace, args=(name,), name=name) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    wanted = Counter({"torch.nn.functional.relu": 50, "torch.nn.Linear": 50, "torch.nn.CrossEntropyLoss": 50})
    assert counts == {"one": wanted, "two": wanted}


def test_calls_on_threads_started_while_tracing_are_recorded_on_them() -> None:
    with trace_api() as tracer:
        thread = threading.Thread(target=_work, name="worker")
        thread.start()
        thread.join()
    assert [row["name"] for row in rows(tracer)] == [
        "torch.nn.functional.relu",
        "torch.nn.Linear",
        "torch.nn.CrossEntropyLoss",
    ]
    assert {(row["thread"], row["tid"]) for row in rows(tracer)} == {("worker", thread.native_id)}


def test_a_forked_child_traces_nothing_and_is_as_before() -> None:
    before = torch.optim.Optimizer.zero_grad.__code__
    with trace_api() as tracer:
        child = os.fork()
        if child == 0:
            same = torch.optim.Optimizer.zero_grad.__code__ is before and not _get_current_function_mode_stack()
            torch.add(X, Y)
            os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0
        torch.add(X, Y)
    assert [row["name"] for row in rows(tracer)] == ["torch.add"]


def test_modes_that_the_program_enters_and_leaves_are_not_mixed_up() -> None:
    class Other(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            return func(*args, **(kwargs or {}))

    tracer = trace_api()
    with Other(), torch.device("meta"):
        tracer.start()
        torch.add(X, X)
    assert torch.zeros(1).device.type == "cpu"
    with Other():
        torch.add(X, X)
        tracer.stop()
        assert [type(mode) for mode in _get_current_function_mode_stack()] == [Other]
    assert _get_current_function_mode_stack() == []
    assert [row["name"] for row in rows(tracer)] == ["torch.add", "torch.zeros", "torch.add"]


def test_a_default_device_may_be_set_and_unset_while_tracing() -> None:
    with trace_api() as tracer:
        torch.set_default_device("meta")
        assert torch.zeros(1).device.type == "meta"
        torch.set_default_device(None)
        assert torch.zeros(1).device.type == "cpu"
    assert [row["name"] for row in rows(tracer)].count("torch.zeros") == 2
    assert _get_current_function_mode_stack() == []


# --- the program is the same under tracing ----------------------------------------------------------------------------


def test_signatures_pickling_and_classes_are_the_same() -> None:
    functions = [F.relu, torch.optim.Optimizer.zero_grad, nn.utils.clip_grad_norm_, nn.Module.__call__, torch.norm]
    before = [inspect.signature(function) for function in functions], [pickle.dumps(f) for f in functions]
    with trace_api():
        assert ([inspect.signature(f) for f in functions], [pickle.dumps(f) for f in functions]) == before
        assert isinstance(torch.ones(1), torch.Tensor)
        assert isinstance(LINEAR, nn.Linear)
        assert type(torch.ones(1) + 1) is torch.Tensor
        assert torch.equal(pickle.loads(pickle.dumps(X)), X)  # noqa: S301  our own
        assert torch.equal(copy.deepcopy(LINEAR)(X), LINEAR(X))


def test_gradients_are_the_same() -> None:
    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.BatchNorm2d(4), nn.Flatten(), nn.Dropout()]
        model = nn.Sequential(*layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            optimizer.zero_grad()
            model(IMAGE * torch.rand(2, 3, 8, 8)).pow(2).mean().backward()
            optimizer.step()
        return [*(p.grad for p in model.parameters()), *model.parameters()]

    wanted = gradients()
    for inside in (False, True):
        with trace_api(inside=inside, with_modules=True):
            traced = gradients()
        assert all(torch.equal(a, b) for a, b in zip(wanted, traced, strict=True))


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_scripts_and_traces_are_the_same() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    wanted = torch.jit.script(model).code, model(X)
    with trace_api():
        scripted, traced = torch.jit.script(model), torch.jit.trace(model, (X,))
        assert scripted.code == wanted[0]
        assert torch.equal(scripted(X), wanted[1])
        assert torch.equal(traced(X), wanted[1])
        assert torch.equal(torch.vmap(lambda row: row * 2)(X), X * 2)
    assert torch.equal(scripted(X), wanted[1])


def test_compiled_functions_are_the_same_and_are_not_compiled_again_by_every_tracing() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = torch.compile(lambda x: model(torch.relu(x) + 1).sum(), backend=backend)
    module = torch.compile(model, backend=backend)
    wanted = compiled(X), module(X)
    assert len(graphs) == 2
    for _ in range(3):
        with trace_api(with_modules=True) as tracer:
            traced = compiled(X), module(X)
        assert all(torch.equal(a, b) for a, b in zip(traced, wanted, strict=True))
        assert "torch.compile" in [row["name"] for row in rows(tracer)]
    assert torch.equal(compiled(X), wanted[0])
    nodes = [[str(node.target) for node in graph.graph.nodes] for graph in graphs]
    assert len(graphs) == 4, "once without tracing and once with it"
    assert [len(node) for node in nodes[2:]] == [len(node) for node in nodes[:2]], "no breaks, nothing added"
