"""A small training with DistributedDataParallel, profiled once for each scenario: `equal`, `work` or `data`.

    torchrun --nproc_per_node=2 train_torch.py OUTPUT SCENARIO...

From the middle on rank 1 has more work, or its samples take longer: many times as long as a step takes otherwise, so
that other programs on the machine do not hide it. Each scenario leaves a run in OUTPUT/SCENARIO.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import unified_profiler as up

STEPS, SLOW_FROM, SLOW_RANK = 40, 20, 1
BATCH, FEATURES, CLASSES = 64, 64, 10
SLOW_SECONDS = 0.3


class Samples(Dataset):  # type: ignore[misc]
    """Random samples, which take longer from some step on if they are slow."""

    def __init__(self, *, slow: bool) -> None:
        self._slow = slow

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self._slow and index >= SLOW_FROM * BATCH:
            time.sleep(SLOW_SECONDS / BATCH)
        return torch.randn(FEATURES), index % CLASSES


def train(output_dir: Path, scenario: str) -> None:
    slow = dist.get_rank() == SLOW_RANK
    layers = torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.Linear(64, CLASSES)
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Samples(slow=slow and scenario == "data"), batch_size=BATCH)
    with up.Profiler(output_dir=output_dir) as profiler:
        for step, (inputs, labels) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            if slow and scenario == "work" and step >= SLOW_FROM:
                more_work()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()


def more_work() -> None:
    matrix = torch.ones(512, 512)
    for _ in range(30):
        torch.mm(matrix, matrix)


def share_one_core() -> None:
    """Let other programs of a busy machine slow all ranks alike: on cores of their own one would really be slower."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main() -> None:
    share_one_core()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    output_dir, *scenarios = sys.argv[1:]
    for scenario in scenarios:
        dist.barrier()
        train(Path(output_dir, scenario), scenario)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
