"""Calls of torch's API, traced: each once, by its name, with what it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from torch import add as add_imported_before
from torch import nn
from torch.nn.functional import relu as relu_imported_before

from unified_profiler import api_name, trace_api
from unified_profiler.testing import recorded_calls as rows


def names_of(work: Callable[[], Any], **options: Any) -> list[str]:
    with trace_api(**options) as tracer:
        work()
    assert not tracer.failures
    return [row["name"] for row in rows(tracer)]


X, Y = torch.arange(12.0).reshape(3, 4) + 1, torch.ones(3, 4)
SQUARE, WHOLE = torch.eye(3) * 2, torch.arange(6)
IMAGE, KERNEL, ONE = torch.ones(1, 3, 8, 8), torch.ones(2, 3, 3, 3), torch.ones(())
LABELS = torch.zeros(3, dtype=torch.long)
LINEAR, LOSS = nn.Linear(4, 2), nn.CrossEntropyLoss()
WITH_GRADIENT = nn.Parameter(torch.ones(3))
WITH_GRADIENT.grad = torch.ones(3)

CALLS: list[tuple[str, Callable[[], Any]]] = [
    ("torch.add", lambda: torch.add(X, Y)),
    ("torch.add", lambda: add_imported_before(X, Y)),
    ("torch.nn.functional.relu", lambda: F.relu(X)),
    ("torch.nn.functional.relu", lambda: relu_imported_before(X)),
    ("torch.nn.functional.relu", lambda: torch.nn.functional.relu(X)),
    ("torch.relu", lambda: torch.relu(X)),
    ("torch.Tensor.relu", X.relu),
    ("torch.Tensor.add", lambda: X.add(Y)),
    ("torch.Tensor.__add__", lambda: X + Y),
    ("torch.Tensor.__add__", lambda: X + 1),
    ("torch.Tensor.__sub__", lambda: X - Y),
    ("torch.Tensor.__rsub__", lambda: 1 - X),
    ("torch.Tensor.__mul__", lambda: X * Y),
    ("torch.Tensor.__truediv__", lambda: X / Y),
    ("torch.Tensor.__floordiv__", lambda: X // Y),
    ("torch.Tensor.__mod__", lambda: X % Y),
    ("torch.Tensor.__pow__", lambda: X**2),
    ("torch.Tensor.__matmul__", lambda: SQUARE @ SQUARE),
    ("torch.Tensor.__neg__", lambda: -X),
    ("torch.Tensor.__lt__", lambda: X < Y),
    ("torch.Tensor.__eq__", lambda: X == Y),
    ("torch.Tensor.__getitem__", lambda: X[0]),
    ("torch.Tensor.__and__", lambda: WHOLE & WHOLE),
    ("torch.Tensor.T", lambda: SQUARE.T),
    ("torch.Tensor.matmul", lambda: SQUARE.matmul(SQUARE)),
    ("torch.matmul", lambda: torch.matmul(SQUARE, SQUARE)),
    ("torch.zeros", lambda: torch.zeros(3)),
    ("torch.tensor", lambda: torch.tensor([1.0, 2.0])),
    ("torch.randn", lambda: torch.randn(2, 2)),
    ("torch.arange", lambda: torch.arange(5)),
    ("torch.full", lambda: torch.full((2,), 1.0)),
    ("torch.cat", lambda: torch.cat([X, Y])),
    ("torch.stack", lambda: torch.stack([X, Y])),
    ("torch.einsum", lambda: torch.einsum("ij,kj->ik", X, Y)),
    ("torch.norm", lambda: torch.norm(X)),
    ("torch.linalg.norm", lambda: torch.linalg.norm(X)),
    ("torch.linalg.inv", lambda: torch.linalg.inv(SQUARE)),
    ("torch.special.expit", lambda: torch.special.expit(X)),
    ("torch.fft.fft", lambda: torch.fft.fft(X)),
    ("torch.split", lambda: torch.split(X, 2)),
    ("torch.nn.functional.softmax", lambda: F.softmax(X, dim=1)),
    ("torch.nn.functional.gelu", lambda: F.gelu(X)),
    ("torch.nn.functional.linear", lambda: F.linear(X, Y)),
    ("torch.nn.functional.layer_norm", lambda: F.layer_norm(X, (4,))),
    ("torch.nn.functional.dropout", lambda: F.dropout(X)),
    ("torch.nn.functional.mse_loss", lambda: F.mse_loss(X, Y)),
    ("torch.nn.functional.cross_entropy", lambda: F.cross_entropy(X, LABELS)),
    ("torch.nn.functional.scaled_dot_product_attention", lambda: F.scaled_dot_product_attention(X, X, X)),
    ("torch.conv2d", lambda: F.conv2d(IMAGE, KERNEL)),
    ("torch.Tensor.sum", X.sum),
    ("torch.Tensor.reshape", lambda: X.reshape(4, 3)),
    ("torch.Tensor.to", lambda: X.to(torch.float64)),
    ("torch.Tensor.item", ONE.item),
    ("torch.nn.Linear", lambda: LINEAR(X)),
    ("torch.nn.ReLU", lambda: nn.ReLU()(X)),
    ("torch.nn.CrossEntropyLoss", lambda: LOSS(X, LABELS)),
    ("torch.nn.utils.clip_grad_norm_", lambda: nn.utils.clip_grad_norm_([WITH_GRADIENT], 1.0)),
    ("torch.ops.aten.mul", lambda: torch.ops.aten.mul(X, Y)),
]


def test_every_call_is_recorded_once_by_its_name_however_it_was_imported() -> None:
    for name, call in CALLS:
        assert names_of(call) == [name], name


def test_names_are_importable_and_those_of_the_objects() -> None:
    for function, name in [
        (torch.add, "torch.add"),
        (F.relu, "torch.nn.functional.relu"),
        (torch.optim.Adam, "torch.optim.Adam"),
        (torch.Tensor.__add__, "torch.Tensor.__add__"),
        (torch.Tensor.T, "torch.Tensor.T"),
        (torch.optim.Adam.step, "torch.optim.Adam.step"),
        (nn.Module.__call__, "torch.nn.Module.__call__"),
        (nn.Linear(2, 2).forward, "torch.nn.Linear.forward"),
        (torch.special.expit, "torch.special.expit"),
    ]:
        assert api_name(function) == name


def test_arguments_are_kept_as_short_texts() -> None:
    with trace_api() as tracer:
        torch.add(X, Y, alpha=2)
        torch.cat([X, Y], dim=1)
        torch.einsum("ij,kj->ik", X, LINEAR.weight.detach()[:, :4])
        F.dropout(torch.ones(2, dtype=torch.float16), 0.5)
        torch.full((2, 3), 1.5)
        torch.ones(3, dtype=torch.int8)
    attributes = [row["attributes"] for row in rows(tracer) if row["name"] != "torch.Tensor.__getitem__"]
    assert attributes[0] == '{"args":["Tensor[3,4] float32 cpu","Tensor[3,4] float32 cpu"],"kwargs":{"alpha":"2"}}'
    assert '"args":["[Tensor[3,4] float32 cpu, Tensor[3,4] float32 cpu]"]' in attributes[1]
    assert "'ij,kj->ik'" in next(text for text in attributes if "->" in text)
    assert any('"Tensor[2] float16 cpu"' in text for text in attributes)
    assert any('"args":["(2, 3)","1.5"]' in text for text in attributes)
    assert any('"kwargs":{"dtype":"torch.int8"}' in text for text in attributes)


def test_without_arguments_none_are_recorded() -> None:
    with trace_api(arguments=False) as tracer:
        torch.add(X, Y)
    assert [row["attributes"] for row in rows(tracer)] == [None]


def test_attributes_that_are_only_looked_up_are_no_calls() -> None:
    assert names_of(lambda: (X.shape, X.dtype, X.device, X.requires_grad, X.grad, X.ndim, X.is_cuda)) == []


def test_a_call_that_raises_is_recorded_and_raises_the_same() -> None:
    with trace_api() as tracer, pytest.raises(RuntimeError, match="size of tensor"):
        torch.add(X, torch.ones(7))
    assert [row["name"] for row in rows(tracer)] == ["torch.ones", "torch.add"]


# --- inside, include, exclude ---------------------------------------------------------------------------------------


def test_inside_shows_what_norm_calls_and_otherwise_it_is_hidden() -> None:
    assert names_of(lambda: torch.norm(X)) == ["torch.norm"]
    assert names_of(lambda: torch.norm(X), inside=True) == ["torch.norm", "torch.linalg.vector_norm"]
    assert names_of(X.norm, inside=True) == ["torch.Tensor.norm", "torch.norm", "torch.linalg.vector_norm"]
    assert names_of(lambda: LINEAR(X), inside=True) == ["torch.nn.Linear", "torch.nn.functional.linear"]


class Mine(nn.Module):  # type: ignore[misc]  # torch is not typed for mypy here
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x) + 1


def test_calls_of_user_code_that_the_framework_calls_are_the_users() -> None:
    mine = Mine()
    assert names_of(lambda: mine(X)) == ["torch.nn.functional.relu", "torch.Tensor.__add__"]
    model = nn.Sequential(nn.Linear(4, 4), mine)
    assert names_of(lambda: model(X)) == ["torch.nn.Sequential", "torch.nn.functional.relu", "torch.Tensor.__add__"]


def test_a_step_of_training_is_what_the_program_called() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def step() -> None:
        optimizer.zero_grad()
        LOSS(model(X), LABELS).backward()
        optimizer.step()
        scheduler.step()

    assert names_of(step) == [
        "torch.optim.Optimizer.zero_grad",
        "torch.nn.Sequential",
        "torch.nn.CrossEntropyLoss",
        "torch.Tensor.backward",
        "torch.optim.Adam.step",
        "torch.optim.lr_scheduler.LRScheduler.step",
    ]


class CallsParent(torch.optim.SGD):  # type: ignore[misc]
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class Inherits(torch.optim.SGD):  # type: ignore[misc]
    pass


@pytest.mark.parametrize("kind", [CallsParent, Inherits])
@pytest.mark.parametrize("inside", [False, True])
def test_a_step_of_an_optimizer_that_extends_another_is_one_call(
    kind: type[torch.optim.Optimizer], *, inside: bool
) -> None:
    torch.optim.SGD([WITH_GRADIENT], lr=0.1)  # only now does torch wrap the parent's method, too
    optimizer = kind([WITH_GRADIENT], lr=0.1)
    names = names_of(lambda: [optimizer.step() for _ in range(20)], inside=inside)
    assert names.count("torch.optim.Optimizer.step") == 20


def test_patterns_choose_what_is_recorded() -> None:
    def work() -> None:
        torch.add(F.relu(X), Y).sum()

    assert names_of(work, include="torch.nn.functional.*") == ["torch.nn.functional.relu"]
    assert names_of(work, exclude=["torch.Tensor.*", "torch.add"]) == ["torch.nn.functional.relu"]
    assert names_of(work, include="torch.*", exclude="torch.nn.*") == ["torch.add", "torch.Tensor.sum"]
