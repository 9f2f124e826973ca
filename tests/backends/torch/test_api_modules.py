"""Calls, modules and operators of one training: nothing is outside of a call, and operators know their module."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from unified_profiler import Profiler, op_table, schedule, trace_api
from unified_profiler.model.schema import EventTable
from unified_profiler.testing import recorded_calls as rows

Row = dict[str, Any]


X, Y = torch.arange(12.0).reshape(3, 4) + 1, torch.ones(3, 4)
IMAGE, LABELS = torch.ones(1, 3, 8, 8), torch.zeros(3, dtype=torch.long)
LINEAR, LOSS = nn.Linear(4, 2), nn.CrossEntropyLoss()


# --- complete, by an independent source ------------------------------------------------------------------------------


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.layers = nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed, _ = self.attention(x, x, x)
        for layer in self.layers:
            mixed = torch.relu_(layer(mixed))
        return self.norm(x + mixed)


class Model(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.encoder = Block()
        self.head = nn.Linear(16, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.stem(images).flatten(2).transpose(1, 2)
        return self.head(self.encoder(tokens).mean(dim=1))


@pytest.fixture(scope="module")
def training() -> Profiler:
    """A real training, recorded with operators, calls and modules."""
    torch.manual_seed(0)
    model, criterion = Model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters())
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    with Profiler(schedule=plan, api=True, with_modules=True, backend="torch") as profiler:
        for _ in range(4):
            images, labels = torch.randn(4, 3, 8, 8), torch.randint(5, (4,))
            optimizer.zero_grad(set_to_none=False)
            criterion(model(images / 2 + 0.1), labels).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            profiler.step()
    assert not profiler.failures
    return profiler


def test_every_operator_lies_within_a_call(training: Profiler) -> None:
    events = training.traces[0].events.to_pylist()
    operators = [row for row in events if row["kind"] == "op"]
    assert len(operators) > 500
    outside = []
    for row in operators:
        above: Row | None = row
        while above is not None and above["kind"] != "api_call":
            above = None if above["parent_id"] is None else events[above["parent_id"]]
        if above is None:
            outside.append(row["name"])
    assert outside == []


def test_calls_of_recorded_steps_are_in_their_steps(training: Profiler) -> None:
    by_step = Counter(row["step"] for row in rows(training))
    assert set(by_step) == {2, 3}
    assert by_step[2] == by_step[3]


# --- modules ----------------------------------------------------------------------------------------------------------


def _paths(events: EventTable, direction: str) -> set[str]:
    modules = [row for row in events.to_pylist() if row["kind"] == "module" and row["direction"] == direction]
    return {row["module"] for row in modules}


WANTED = {
    *("Model", "stem", "stem.0", "stem.1", "stem.2", "encoder", "encoder.attention", "encoder.norm"),
    *("encoder.layers.0", "encoder.layers.1", "head", "CrossEntropyLoss"),
}


def test_modules_have_their_paths_forward_and_backward(training: Profiler) -> None:
    events = training.traces[0].events
    assert _paths(events, "forward") == WANTED
    assert _paths(events, "backward") == WANTED


def test_operators_carry_the_module_forward_and_backward(training: Profiler) -> None:
    operators = [row for row in training.traces[0].events.to_pylist() if row["kind"] == "op"]
    convolutions = {row["module"] for row in operators if row["op"] == "Conv"}
    assert convolutions == {"stem.0"}
    linear = {row["module"] for row in operators if row["name"] in {"aten::linear", "AddmmBackward0"}}
    assert {"encoder.layers.0", "encoder.layers.1", "head"} <= linear
    assert linear <= {"encoder.layers.0", "encoder.layers.1", "encoder.attention", "head"}
    backward = [row for row in operators if row["direction"] == "backward" and row["name"].endswith("Backward0")]
    assert {row["module"] for row in backward} >= WANTED - {"Model", "encoder", "stem"}


def test_the_table_by_module_shows_the_slow_layer() -> None:
    slow, fast = nn.Linear(600, 600), nn.Linear(4, 4)
    model = nn.Sequential(fast, nn.Linear(4, 600), slow, slow, slow, slow)
    with Profiler(with_modules=True, backend="torch") as profiler:
        model(torch.ones(256, 4)).sum().backward()
    table = op_table(profiler.traces[0], by="module").table.to_pylist()
    assert table[0]["module"] == "2"
    assert rows(profiler) == []


def test_a_module_with_modules_off_leaves_no_events() -> None:
    with Profiler(backend="torch") as profiler:
        LINEAR(X)
    assert rows(profiler, "module") == []
    assert {row["module"] for row in profiler.traces[0].events.to_pylist()} == {None}


def test_two_models_with_the_same_paths_are_distinguished() -> None:
    class Generator(nn.Sequential):  # type: ignore[misc]
        pass

    class Discriminator(nn.Sequential):  # type: ignore[misc]
        pass

    one, two = Generator(nn.Linear(4, 4)), Discriminator(nn.Linear(4, 4))
    with trace_api(with_modules=True) as tracer:
        two(one(X))
    assert [row["module"] for row in rows(tracer, "module")] == ["Generator", "0", "Discriminator", "Discriminator.0"]


class WithOwnListing(nn.Module):  # type: ignore[misc]
    """Lists its modules by a method of its own, with the arguments of an earlier version of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def named_modules(self, memo: Any = None, prefix: str = "") -> Any:
        yield prefix, self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def test_a_module_that_cannot_be_listed_is_a_failure_and_not_an_error_of_the_training() -> None:
    model = WithOwnListing()
    with Profiler(backend="torch", with_modules=True, operators=False, hardware_hz=0) as prof:
        assert model(X).shape == (3, 2)
    modules = {row["module"] for row in prof.traces[0].events.to_pylist() if row["kind"] == "module"}
    assert modules == {"WithOwnListing", "WithOwnListing.Linear"}
    assert [failure.action for failure in prof.failures] == ["find the paths of modules"]


# --- backward passes --------------------------------------------------------------------------------------------------


def _spans(profiler: Profiler, path: str, direction: str) -> list[Row]:
    modules = [row for row in profiler.traces[0].events.to_pylist() if row["kind"] == "module"]
    return [row for row in modules if (row["module"], row["direction"]) == (path, direction)]


def test_the_backward_pass_of_each_step_is_one_span_within_its_step() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    with Profiler(schedule=schedule(wait=0, warmup=1, active=4), with_modules=True, backend="torch") as profiler:
        for _ in range(5):
            model(X).sum().backward()
            profiler.step()
    steps = {row["step"]: row for row in profiler.traces[0].events.to_pylist() if row["kind"] == "step"}
    for path in ("Sequential", "0", "2"):
        spans = _spans(profiler, path, "backward")
        assert [span["step"] for span in spans] == [1, 2, 3, 4]
        for span in spans:
            step = steps[span["step"]]
            assert step["start_ns"] <= span["start_ns"]
            assert span["start_ns"] + span["duration_ns"] <= step["start_ns"] + step["duration_ns"]


def test_several_backward_passes_of_a_step_have_a_span_each() -> None:
    model, other = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), nn.Linear(4, 2)
    with Profiler(with_modules=True, backend="torch") as profiler:
        earlier, later = model(X), other(X)
        later.sum().backward()
        earlier.sum().backward(retain_graph=True)
        earlier.mean().backward()
    assert len(_spans(profiler, "Sequential", "backward")) == 2
    assert len(_spans(profiler, "Linear", "backward")) == 1


def test_paths_are_the_same_with_and_without_stacks() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    model(X).sum().backward()  # gradients are there from now on
    counts = []
    for with_stack in (False, True):
        with Profiler(with_modules=True, with_stack=with_stack, backend="torch") as profiler:
            model(X).sum().backward()
        operators = [row for row in profiler.traces[0].events.to_pylist() if row["kind"] == "op"]
        counts.append(Counter((row["name"], row["direction"], row["module"]) for row in operators))
    assert counts[0] == counts[1]
