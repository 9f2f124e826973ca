"""Gradient checkpointing: what is computed again has its own direction, with origin and module of the first time."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.checkpoint as checkpointing
from torch import nn

from unified_profiler import Profiler, read, schedule

Row = dict[str, Any]
PLAIN, REENTRANT = False, True


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(torch.relu(self.wide(self.norm(x))))


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self, use_reentrant: bool | None) -> None:
        super().__init__()
        self.stem, self.blocks, self.head = nn.Linear(4, 8), nn.ModuleList([Block(), Block()]), nn.Linear(8, 2)
        self.use_reentrant = use_reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            if self.use_reentrant is None:
                x = block(x)
            else:
                x = checkpointing.checkpoint(block, x, use_reentrant=self.use_reentrant)
        return self.head(x)


def _record(model: nn.Module, *args: Any, **options: Any) -> list[Row]:
    """Record two steps of a training; return the events of the second."""
    plan = schedule(wait=0, warmup=1, active=2, repeat=1)
    with Profiler(schedule=plan, backend="torch", record_shapes=True, with_flops=True, **options) as profiler:
        for _ in range(3):
            output = model(*args)
            getattr(output, "loss", output).sum().backward()
            profiler.step()
    assert not profiler.failures
    return [row for row in profiler.traces[0].events.to_pylist() if row["step"] == 2]


@cache
def recorded(use_reentrant: bool | None) -> list[Row]:
    torch.manual_seed(0)
    return _record(Net(use_reentrant), torch.ones(3, 4), with_modules=True)


def _counted(rows: list[Row], direction: str, *columns: str, kind: str = "op") -> Counter[Any]:
    chosen = [row for row in rows if row["direction"] == direction and row["kind"] == kind]
    return Counter(tuple(row[column] for column in columns) for row in chosen)


def _flops(rows: list[Row], direction: str) -> Counter[str]:
    """Return those of matrix products by module; gradients are added up in place or not, depending on checkpoints."""
    flops: Counter[str] = Counter()
    for row in rows:
        if row["direction"] == direction and row["name"] in {"aten::addmm", "aten::mm"}:
            flops[row["module"]] += row["flops"]
    return flops


@pytest.mark.parametrize("use_reentrant", [PLAIN, REENTRANT])
def test_what_is_computed_again_has_origin_and_module_of_the_first_time(use_reentrant: bool) -> None:
    rows = recorded(use_reentrant)
    products = [row for row in rows if row["name"] == "aten::addmm"]
    first = _counted(products, "forward", "module", "origin")
    again = _counted(products, "recompute", "module", "origin")
    assert again == {(f"blocks.{number}.{part}", "Gemm"): 1 for number in (0, 1) for part in ("wide", "narrow")}
    assert again == {key: count for key, count in first.items() if key[0].startswith("blocks")}


@pytest.mark.parametrize("use_reentrant", [PLAIN, REENTRANT])
def test_forward_and_backward_are_those_of_the_training_without_checkpoints(use_reentrant: bool) -> None:
    with_checkpoints, without = recorded(use_reentrant), recorded(None)
    for direction in ("forward", "backward"):
        assert _flops(with_checkpoints, direction) == _flops(without, direction)
        spans = (_counted(rows, direction, "module", kind="module") for rows in (with_checkpoints, without))
        assert next(spans) == next(spans)
    assert not _counted(without, "recompute", "name")
    modules = _counted(with_checkpoints, "recompute", "module", kind="module")
    assert {path for (path,) in modules} == {
        f"blocks.{number}{part}" for number in (0, 1) for part in ("", ".norm", ".wide", ".narrow")
    }


@pytest.mark.parametrize("use_reentrant", [PLAIN, REENTRANT])
def test_directions_and_origins_need_no_modules(use_reentrant: bool) -> None:
    rows = _record(Net(use_reentrant), torch.ones(3, 4))
    assert _counted([row for row in rows if row["name"] == "aten::addmm"], "recompute", "origin") == {("Gemm",): 4}
    assert not [row for row in rows if row["name"] == "aten::addmm" and row["direction"] == "backward"]


def test_a_checkpoint_within_a_checkpoint() -> None:
    class Outer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body, self.last = Net(REENTRANT), nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(checkpointing.checkpoint(self.body, x, use_reentrant=True))

    with warnings.catch_warnings():  # of checkpoint, which asks in vain for inputs that require gradients
        warnings.simplefilter("ignore")
        rows = _record(Outer(), torch.ones(3, 4, requires_grad=True), with_modules=True)
    products = [row for row in rows if row["name"] == "aten::addmm"]
    again = _counted(products, "recompute", "module")
    assert again["body.head",] == again["body.stem",] == 1
    assert again["body.blocks.0.wide",] == again["body.blocks.1.narrow",] == 2
    nodes = {row["module"] for row in rows if row["name"] == "AddmmBackward0"}
    assert nodes == {path for (path,) in again} | {"last"}


@pytest.mark.filterwarnings("ignore")  # of transformers
@pytest.mark.parametrize("use_reentrant", [PLAIN, REENTRANT])
def test_a_checkpointed_bert(use_reentrant: bool) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForSequenceClassification(BertConfig(vocab_size=50, max_position_embeddings=16, **sizes)).train()
    model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
    model.enable_input_require_grads()
    ids, labels = torch.ones((2, 8), dtype=torch.long), torch.zeros(2, dtype=torch.long)
    rows = _record(model, ids, None, None, None, None, labels, with_modules=True)
    products = [row for row in rows if row["name"] == "aten::addmm"]
    first = _counted(products, "forward", "module", "origin")
    again = _counted(products, "recompute", "module", "origin")
    assert len(again) == 12
    assert again == {key: count for key, count in first.items() if key[0].startswith("bert.encoder")}
    assert _flops(rows, "backward").keys() >= {path for path, _ in again}


def test_reentrant_checkpoints_are_recognized_in_a_file_of_another_program(tmp_path: Path) -> None:
    model = Net(REENTRANT)
    with torch.profiler.profile() as native:
        model(torch.ones(3, 4)).sum().backward()
    native.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = read(tmp_path / "trace.json").traces[0].events.to_pylist()
    products = [row for row in rows if row["name"] == "aten::addmm"]
    assert _counted(products, "recompute", "origin") == {("Gemm",): 4}


def test_torch_is_as_it_was_after_recording() -> None:
    before = vars(checkpointing)["_recomputation_hook"]
    with Profiler(backend="torch"):
        during = vars(checkpointing)["_recomputation_hook"]
    assert during is not before
    assert vars(checkpointing)["_recomputation_hook"] is before


def test_the_gradient_of_a_gradient_has_origin_and_module() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    with Profiler(with_modules=True, with_flops=True, record_shapes=True, backend="torch") as profiler:
        x = torch.ones(3, 4, requires_grad=True)
        y = model(x).sum()
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        (y + slope.square().sum()).backward()
        profiler.step()
    rows = profiler.traces[0].events.to_pylist()
    products = [row for row in rows if row["name"] == "aten::mm"]
    assert _counted(products, "backward", "module", "origin").keys() == {("0", "Gemm"), ("2", "Gemm")}
    second = [row for row in rows if row["name"].endswith(("MmBackward0", "TanhBackwardBackward0"))]
    assert {(row["module"], row["origin"]) for row in second} >= {("0", "Gemm"), ("1", "Tanh"), ("2", "Gemm")}
    assert None not in {row["module"] for row in second}
    assert _counted(rows, "backward", "module", kind="module")["Sequential",] == 2
