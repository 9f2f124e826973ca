from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from unified_profiler.model.assembly import assemble
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, event_table
from unified_profiler.model.trace import Trace

EPOCH_NS = 1_700_000_000_000_000_000
"""Real times are this large: small ones would hide what overflows."""

DEFAULTS = {
    "name": "op",
    "layer": "framework",
    "kind": "op",
    "framework": "torch",
    "pid": 1,
    "tid": 1,
    "device": "cpu:0",
    "duration_ns": 0,
}


def _trace(*rows: dict[str, Any], rank: int = 0, cycle: int = 0) -> Trace:
    full = [
        {**DEFAULTS, "start_ns": EPOCH_NS + row["at"][0], "duration_ns": row["at"][1] - row["at"][0], **row}
        for row in rows
    ]
    used = {name for row in full for name in row if name in EVENT_SCHEMA.names}
    columns = {name: [row.get(name) for row in full] for name in used}
    events = assemble([event_table(columns, rows=len(full))] if full else [], rank=rank, cycle=cycle)
    return Trace(events, TraceInfo(rank=rank, cycle=cycle, event_count=len(full)))


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., Trace]:
    """Make a trace of rows given as dictionaries: `at` is (start, end), the rest are columns of the schema."""
    return _trace
