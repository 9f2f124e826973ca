from __future__ import annotations

import pytest

from unified_profiler.model.assembly import assemble
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import event_table
from unified_profiler.model.trace import Trace


@pytest.fixture
def trace() -> Trace:
    """Three operators: relu within conv, and add after them."""
    columns = {
        "name": ["conv", "relu", "add"],
        "start_ns": [0, 100, 1000],
        "duration_ns": [1000, 300, 500],
        "layer": "framework",
        "kind": "op",
        "framework": "torch",
        "pid": 1,
        "tid": 1,
    }
    return Trace(assemble([event_table(columns, rows=3)]), TraceInfo(event_count=3))
