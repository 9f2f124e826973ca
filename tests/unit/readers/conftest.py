from __future__ import annotations

import pytest

from unified_profiler.model.nesting import nest
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import event_table
from unified_profiler.model.trace import Trace


@pytest.fixture
def trace() -> Trace:
    columns = {
        "name": ["step 0", "op"],
        "layer": ["application", "framework"],
        "kind": ["step", "op"],
        "start_ns": [1_790_857_026_000_000_001, 1_790_857_026_000_000_002],
        "duration_ns": [10, 5],
        "step": 0,
        "cycle": 0,
        "rank": 0,
        "pid": 7,
        "tid": 7,
    }
    return Trace(nest(event_table(columns, rows=2)), TraceInfo(event_count=2))
