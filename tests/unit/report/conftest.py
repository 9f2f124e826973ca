from __future__ import annotations

from collections.abc import Callable

import pytest

import unified_profiler as up
from unified_profiler.testing import TraceBuilder

US = 1000
EPOCH_NS = 1_700_000_000_000_000_000


def _trace(*, rank: int = 0, cycle: int = 0, steps: range = range(2), slow: int = 1) -> up.Trace:
    """Make steps of 100 us with a matmul of 60 us that holds a copy, a region around it, and a relu."""
    builder = TraceBuilder(rank=rank, cycle=cycle, world_size=1, frameworks={"fake": "1.0"}, host="host")
    for number in steps:
        start = EPOCH_NS + number * 200 * US
        builder.step(number, start, 100 * US * slow)
        builder.region("forward", start, 80 * US)
        builder.op("aten::mm", start, 60 * US, op="MatMul", module="net.0", input_shapes="[[4,4]]")
        builder.op("aten::copy_", start + 10 * US, 20 * US, op="Identity", kind="copy")
        builder.op("aten::relu", start + 60 * US, 10 * US, op="Relu")
    return builder.build()


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., up.Trace]:
    return _trace


@pytest.fixture
def trace() -> up.Trace:
    return _trace()


@pytest.fixture
def two_ranks() -> up.Run:
    return up.Run(traces=(_trace(), _trace(rank=1, slow=2)))
