"""Both modes in one process: PyNative as it is, and the same work compiled to a graph by `jit`."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import ClassVar

import pytest

with warnings.catch_warnings():  # MindSpore calls Thread.getName() while it is imported
    warnings.filterwarnings("ignore", "getName", DeprecationWarning)
    import mindspore as ms
    from mindspore import nn, ops

from unified_profiler.spi import Capability
from unified_profiler.testing import BackendConformance, never
from unified_profiler_mindspore import backend as mindspore_backend

with suppress(SystemError):  # with NumPy 2, the first operator of a process fails in MindSpore 2.10
    ms.Tensor([1.0]) * ms.Tensor([1.0])

ROWS = ops.ones((2, 1, 4, 4), ms.float32)
LAYER = nn.SequentialCell(  # PyNative mode records the shapes of convolutions, but not those of matrix products
    nn.Conv2d(1, 2, 3, weight_init="ones"),
    nn.Flatten(),
    nn.Dense(32, 4, weight_init="ones", bias_init="zeros", activation="relu"),
)


def forward(rows: ms.Tensor) -> ms.Tensor:
    return LAYER(rows).sum()


gradients = ms.value_and_grad(forward, None, LAYER.trainable_params())


@ms.jit  # type: ignore[untyped-decorator]
def compiled(rows: ms.Tensor) -> ms.Tensor:
    return gradients(rows)


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    """The first run of a graph, which builds it, is not the work that is counted."""
    compiled(ROWS)


class TestPyNative(BackendConformance):
    module = "unified_profiler_mindspore"
    backend = mindspore_backend
    divergences: ClassVar = {Capability.STACKS: never("MindSpore's profiler records no stacks on a CPU")}

    def work(self) -> float:
        loss, _ = gradients(ROWS)
        return float(loss.asnumpy())


class TestGraph(TestPyNative):
    def work(self) -> float:
        loss, _ = compiled(ROWS)
        return float(loss.asnumpy())
