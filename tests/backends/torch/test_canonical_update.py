from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import torch

Events = Callable[..., pa.Table]


def learned(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, requires_grad=True)


def operators(table: pa.Table) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if row["kind"] == "op"]


class Plain(torch.optim.Optimizer):  # type: ignore[misc]  # torch is not typed for mypy here
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    def step(self) -> None:
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.sub_(parameter.grad)


@pytest.mark.parametrize(
    ("make", "op"),
    [
        (lambda p: torch.optim.SGD(p, momentum=0.9), "Momentum"),
        (lambda p: torch.optim.SGD(p, momentum=0.9, foreach=True), "Momentum"),
        (lambda p: torch.optim.SGD(p, fused=True), "Momentum"),
        (lambda p: torch.optim.AdamW(p, foreach=True), "Adam"),
        (lambda p: torch.optim.Adam(p, fused=True), "Adam"),
        (torch.optim.Adagrad, "Adagrad"),
        (torch.optim.RMSprop, "x:Optimizer"),
        (Plain, "x:Optimizer"),
    ],
    ids=["sgd", "sgd foreach", "sgd fused", "adamw foreach", "adam fused", "adagrad", "rmsprop", "user's own"],
)
def test_an_optimizer_is_the_origin_of_its_update(
    events: Events, make: Callable[[list[torch.Tensor]], torch.optim.Optimizer], op: str
) -> None:
    parameters = [learned(4, 4), learned(4)]
    optimizer = make(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    table = events(optimizer.step)
    assert {(row["origin"], row["direction"]) for row in operators(table)} == {(op, "update")}
    assert None not in {row["op"] for row in operators(table)}


def test_clearing_the_gradients_belongs_to_the_update(events: Events) -> None:
    parameter = learned(4)
    parameter.grad = torch.ones(4)
    table = events(lambda: torch.optim.SGD([parameter]).zero_grad(set_to_none=False))
    assert {(row["origin"], row["direction"]) for row in operators(table)} == {("x:ZeroGrad", "update")}


def test_scaling_the_gradients_belongs_to_the_update(events: Events) -> None:
    parameter, scaler = learned(4), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD([parameter])

    def work() -> None:
        scaler.scale(parameter.sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    work()
    table = events(work)
    scaling = [row for row in operators(table) if row["name"].startswith("aten::_amp_")]
    assert {(row["origin"], row["direction"]) for row in scaling} == {("x:Optimizer", "update")}
    assert len(scaling) == 2
