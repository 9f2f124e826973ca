"""TorchScript calls no module in Python: operators have the modules that torch itself records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from unified_profiler import Profiler, read
from unified_profiler_torch.read.args import script_path

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.jit as a whole

X = torch.ones(3, 4)


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.fc(x)) + 1


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.Sequential(Block(), Block()), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x))


class Around(nn.Module):  # type: ignore[misc]
    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body, self.last = body, nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.body(x))


def _scripted() -> Any:
    return torch.jit.script(Net())


def _traced() -> Any:
    return torch.jit.trace(Net(), X)


def _modules(model: Any, name: str, **options: Any) -> set[str | None]:
    for _ in range(3):  # the executor of TorchScript has finished optimizing
        model(X).sum().backward()
    with Profiler(with_modules=True, backend="torch", **options) as profiler:
        model(X).sum().backward()
        profiler.step()
    assert not profiler.failures
    rows = profiler.traces[0].events.to_pylist()
    return {row["module"] for row in rows if row["name"] == name}


LINEAR = {"layers.0.fc", "layers.1.fc", "head"}


@pytest.mark.parametrize("make", [_scripted, _traced])
@pytest.mark.parametrize("with_stack", [False, True])
def test_operators_of_torchscript_have_their_modules(make: Callable[[], Any], with_stack: bool) -> None:
    assert _modules(make(), "aten::addmm", with_stack=with_stack) == LINEAR


@pytest.mark.parametrize("make", [_scripted, _traced])
def test_paths_begin_with_that_of_the_module_that_python_called(make: Callable[[], Any]) -> None:
    model = Around(make())
    assert _modules(model, "aten::addmm") == {f"body.{path}" for path in LINEAR} | {"last"}


def test_operators_of_the_backward_pass_have_the_modules_of_what_they_differentiate() -> None:
    assert _modules(_traced(), "AddmmBackward0") == LINEAR
    assert _modules(Around(_traced()), "ReluBackward0") == {"body.layers.0.act", "body.layers.1.act"}


def test_a_file_of_another_program_has_the_paths_within_the_script(tmp_path: Path) -> None:
    model = _traced()
    with torch.profiler.profile(with_modules=True) as native:
        model(X)
    native.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = read(tmp_path / "trace.json").traces[0].events.to_pylist()
    assert {row["module"] for row in rows if row["name"] == "aten::addmm"} == LINEAR


@pytest.mark.parametrize(
    ("hierarchy", "path"),
    [
        ("TOP(Net)::forward.", None),
        ("TOP()::<forward op>.body(Sequential)::forward.0(Block)::forward.act(ReLU)::forward.::relu.", "body.0.act"),
        ("TOP(A)::forward.SELF(A)::helper.head(__torch__.Linear)::forward.", "head"),
        ("nonsense", None),
    ],
)
def test_the_hierarchy_of_torchscript_is_read(hierarchy: str, path: str | None) -> None:
    assert script_path(f'{{"Module Hierarchy":"{hierarchy}"}}'.encode()) == path
