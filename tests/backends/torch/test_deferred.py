from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.model.trace import Trace

BothWays = Callable[..., tuple[Trace, Trace]]


@pytest.mark.parametrize(
    "options",
    [{}, {"record_shapes": True, "profile_memory": True, "with_flops": True, "with_modules": True, "api": True}],
    ids=["plain", "everything"],
)
def test_another_process_makes_the_same_trace(
    options: dict[str, Any], both_ways: BothWays, train: Callable[[], None]
) -> None:
    delivered, left = both_ways(train, backend="torch", **options)
    assert left.info == delivered.info
    assert left.info.frameworks["torch"]
    assert left.events.equals(delivered.events)


KILLED = """
import os, signal, sys, torch
import unified_profiler as up

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
plan = up.schedule(wait=1, warmup=1, active=2, repeat=2)
with up.Profiler(schedule=plan, output_dir=sys.argv[1], deliver="deferred", strict=True) as prof:
    for step in range(10):
        if step == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.randn(4, 8)).sum().backward()
        prof.step()
"""


def test_a_process_that_is_killed_loses_only_the_cycle_it_was_in(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], stderr=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL
    assert not list(tmp_path.rglob("*.parquet"))
    run = up.read(tmp_path)
    (trace,) = run.traces
    rows = trace.events.select(["name", "kind", "step"]).to_pylist()
    assert [row["step"] for row in rows if row["name"] == "aten::addmm"] == [2, 2, 3, 3]
    assert [row["name"] for row in rows if row["kind"] == "step"] == ["step 2", "step 3"]
    assert (trace.info.complete, trace.info.first_step, trace.info.last_step) == (True, 2, 3)
    assert run.steps is not None
    assert len(run.steps) == 4
    assert up.read(tmp_path).traces[0].events.equals(trace.events)
