"""A small image classifier with convolutions and attention, trained on made-up pictures. No line of profiling in it.

Profile it unmodified:  unified-profiler run examples/train_torch.py -- --steps 8
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


class Classifier(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """Convolutions make the picture small; attention lets its parts look at one another."""

    def __init__(self, width: int = 32) -> None:
        """Make the layers."""
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.attention = nn.MultiheadAttention(width, num_heads=4, batch_first=True)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return the logits of a batch of pictures."""
        parts = self.stem(pictures).flatten(2).transpose(1, 2)
        attended, _ = self.attention(parts, parts, parts)
        logits: Tensor = self.head((parts + attended).mean(dim=1))
        return logits


def made_up_pictures(count: int) -> TensorDataset:
    """Return pictures whose brightness tells their class, so that there is something to learn."""
    labels = torch.randint(CLASSES, (count,))
    pictures = torch.randn(count, 3, 32, 32) + labels.view(-1, 1, 1, 1) / CLASSES
    return TensorDataset(pictures, labels)


def main() -> None:
    """Train for some steps and print the loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    arguments = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(made_up_pictures(arguments.steps * arguments.batch_size), batch_size=arguments.batch_size)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step, (pictures, labels) in enumerate(loader):
        loss = functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
