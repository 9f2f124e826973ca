from __future__ import annotations

import pytest

from unified_profiler.model.nesting import nest
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import event_table
from unified_profiler.model.trace import Trace

BASE = 1_790_857_026_123_456_789


@pytest.fixture
def trace() -> Trace:
    """A step with a forward operator, its backward on another thread, a launch, its kernel, memory and a counter."""
    columns = {
        "name": ["step 3", "aten::mm", "cudaLaunchKernel", "gemm", "MmBackward0", "[memory]", "cpu_percent"],
        "layer": ["application", "framework", "runtime", "runtime", "framework", "runtime", "hardware"],
        "kind": ["step", "op", "runtime", "kernel", "op", "memory", "counter"],
        "framework": [None, "torch", "torch", "torch", "torch", "torch", None],
        "op": [None, "MatMul", None, "MatMul", None, None, None],
        "direction": [None, "forward", None, None, "backward", None, None],
        "start_ns": [BASE + offset for offset in (0, 1_001, 2_002, 9_000, 8_000, 3_000, 5_000)],
        "duration_ns": [20_000, 4_000, 1_000, 2_500, 3_000, 0, 0],
        "step": [3, 3, 3, 3, 3, 3, None],
        "cycle": 0,
        "rank": 2,
        "host": "box",
        "pid": [77, 77, 77, 0, 77, 77, 77],
        "tid": [77, 77, 77, 7, 78, 77, 77],
        "thread": ["main", "main", "main", "stream 7", "autograd", "main", "main"],
        "device": ["cpu:0", "cpu:0", "cpu:0", "cuda:0", "cpu:0", "cuda:0", None],
        "stream": [None, None, None, 7, None, None, None],
        "correlation_id": [None, None, 5, 5, None, None, None],
        "sequence_id": [None, 11, None, None, 11, None, None],
        "input_shapes": [None, "[[2, 3],[3,4]]", None, None, "no json", None, None],
        "attributes": [None, '{"a": [1, {"b": null}]}', None, '{"x": NaN}', '"text"', None, None],
        "bytes": [None, None, None, None, None, -4096, None],
        "value": [None, None, None, None, None, None, 0.1],
    }
    table = nest(event_table(columns, rows=7))
    info = TraceInfo(rank=2, event_count=7, frameworks={"torch": "2.13.0"}, start_ns=BASE, end_ns=BASE + 20_000)
    return Trace(table, info)
