from __future__ import annotations

from collections.abc import Callable

import mindspore as ms
import pytest
from mindspore import nn, ops

from unified_profiler.model.trace import Trace

BothWays = Callable[..., tuple[Trace, Trace]]


@pytest.mark.parametrize("compiled", [False, True])
def test_another_process_makes_the_same_trace(both_ways: BothWays, compiled: bool) -> None:
    dense, rows = nn.Dense(32, 4), ops.ones((2, 32), ms.float32)

    def forward(rows: ms.Tensor) -> ms.Tensor:
        return dense(rows).sum()

    gradient = ms.value_and_grad(forward, None, dense.trainable_params())
    step = ms.jit(gradient) if compiled else gradient
    step(rows)
    delivered, left = both_ways(lambda: step(rows), backend="mindspore", record_shapes=True, with_flops=True)
    assert left.info == delivered.info
    assert left.events.equals(delivered.events)
    assert {"MatMul", "Gemm"} & set(left.events.column("op").to_pylist())
