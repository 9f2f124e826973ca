"""What tracing keeps: numbers and texts, no tensors, and of a million calls little."""

from __future__ import annotations

import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from unified_profiler import trace_api
from unified_profiler.testing import recorded_calls as rows

X, Y = torch.arange(12.0).reshape(3, 4) + 1, torch.ones(3, 4)
IMAGE, LABELS = torch.ones(1, 3, 8, 8), torch.zeros(3, dtype=torch.long)
LINEAR, LOSS = nn.Linear(4, 2), nn.CrossEntropyLoss()


# --- memory -----------------------------------------------------------------------------------------------------------


def test_no_tensor_is_kept_alive() -> None:
    tensor = torch.ones(3)
    result = weakref.ref(tensor)
    with trace_api(with_modules=True) as tracer:
        torch.add(tensor, tensor)
        LINEAR(X)
        del tensor
        assert result() is None
    assert len(rows(tracer)) == 2


_MILLION = """
import psutil, sys, torch
from unified_profiler import trace_api
x = torch.ones(4, 16)
process = psutil.Process()
with trace_api(arguments=True, output_dir=sys.argv[1] or None) as tracer:
    for _ in range(1000):
        torch.add(x, x)
    before = process.memory_info().rss
    for _ in range(1_000_000):
        torch.add(x, x)
    grown = process.memory_info().rss - before
count = sum(trace.info.event_count for trace in tracer.traces)
print(grown, count, len(tracer.traces), len(tracer.failures))
"""


@pytest.mark.parametrize("to_disk", [False, True])
def test_a_million_calls_take_little_memory(tmp_path: Any, *, to_disk: bool) -> None:
    folder = str(tmp_path / "run") if to_disk else ""
    done = subprocess.run(
        [sys.executable, "-c", _MILLION, folder], capture_output=True, text=True, check=True, timeout=900
    )
    grown, count, traces, failures = map(int, done.stdout.split())
    assert failures == 0
    assert count == 1_001_000 + traces  # a step in each
    if to_disk:
        assert traces >= 5
        assert grown <= 150_000_000, "bounded by what one part takes, however many calls there are"
    else:
        assert grown <= 100 * 1_000_000
