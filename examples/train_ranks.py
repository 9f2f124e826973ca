"""A training with DistributedDataParallel in which the data of one rank become slow. No line of profiling in it.

Profile it unmodified:  torchrun --nproc-per-node 4 -m unified_profiler run --active 50 examples/train_ranks.py
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

BATCH, FEATURES, CLASSES = 32, 256, 10


class Samples(Dataset):  # type: ignore[misc]  # torch is not typed here
    """Random samples, each of which takes longer to load from one step on."""

    def __init__(self, steps: int, slow_from: int, seconds: float) -> None:
        """Set how many samples there are, and which of them are slow by how much."""
        self._count, self._slow_from, self._seconds = steps * BATCH, slow_from * BATCH, seconds

    def __len__(self) -> int:
        """Return the number of samples."""
        return self._count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Load a sample."""
        if index >= self._slow_from:
            time.sleep(self._seconds)
        return torch.randn(FEATURES), index % CLASSES


def main() -> None:
    """Train for some steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--slow-rank", type=int, default=3)
    parser.add_argument("--slow-from", type=int, default=20)
    parser.add_argument("--milliseconds", type=float, default=1.0, help="by which each sample of that rank is slower")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    slow_from = arguments.slow_from if dist.get_rank() == arguments.slow_rank else arguments.steps
    loader = DataLoader(Samples(arguments.steps, slow_from, arguments.milliseconds / 1000), batch_size=BATCH)
    layers = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, labels in loader:
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
