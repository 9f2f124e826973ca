"""Several ranks under the real torchrun with gloo: one run directory, nothing overwritten."""

from __future__ import annotations

import subprocess
import sys

import pytest

import unified_profiler as up

PROGRAM = """
import sys, torch
import torch.distributed as dist
import unified_profiler as up

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
schedule = up.schedule(wait=0, warmup=1, active=2, repeat=2)
with up.Profiler(schedule=schedule, output_dir=sys.argv[1], strict=True) as prof:
    for _ in range(6):
        model(torch.randn(2, 8)).sum().backward()
        prof.step()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> up.Run:
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "train.py").write_text(PROGRAM)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0"]
    command = [*torchrun, "--standalone", str(folder / "train.py"), str(folder / "out")]
    subprocess.run(command, check=True, capture_output=True, timeout=900)
    run: up.Run = up.read(folder / "out")
    return run


def test_both_ranks_are_in_one_run(run: up.Run) -> None:
    assert run.ranks == [0, 1]
    assert [(trace.info.rank, trace.info.cycle) for trace in run.traces] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {trace.info.world_size for trace in run.traces} == {2}


def test_events_carry_their_rank(run: up.Run) -> None:
    for trace in run.traces:
        assert set(trace.events.column("rank").to_pylist()) == {trace.info.rank}


def test_collectives_are_recorded(run: up.Run) -> None:
    for trace in run.traces:
        rows = trace.events.select(["name", "kind"]).to_pylist()
        assert any(row["kind"] == "collective" for row in rows)
