"""A small image classifier with convolutions and attention, trained with MindSpore on made-up pictures.

No line of profiling in it. Profile it unmodified:  unified-profiler run examples/train_mindspore.py -- --steps 8
"""

from __future__ import annotations

import argparse

import mindspore as ms
import numpy as np
import numpy.typing as npt
from mindspore import Tensor, nn

CLASSES = 10


class Classifier(nn.Cell):  # type: ignore[misc]  # mindspore is not typed here
    """Convolutions make the picture small; attention lets its parts look at one another."""

    def __init__(self, width: int = 32) -> None:
        """Make the layers."""
        super().__init__()
        self.stem = nn.SequentialCell(
            nn.Conv2d(3, width, 3, stride=2),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.attention = nn.MultiheadAttention(width, num_heads=4, batch_first=True)
        self.head = nn.Dense(width, CLASSES)

    def construct(self, pictures: Tensor) -> Tensor:
        """Return the logits of a batch of pictures."""
        parts = self.stem(pictures)
        parts = parts.reshape((parts.shape[0], parts.shape[1], -1)).swapaxes(1, 2)
        attended, _ = self.attention(parts, parts, parts)
        return self.head((parts + attended).mean(axis=1))


def made_up_pictures(count: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    """Return pictures whose brightness tells their class, so that there is something to learn."""
    random = np.random.default_rng(0)
    labels = random.integers(CLASSES, size=count).astype(np.int32)
    pictures = random.normal(size=(count, 3, 32, 32)) + labels[:, None, None, None] / CLASSES
    return pictures.astype(np.float32), labels


def main() -> None:
    """Train for some steps and print the loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    arguments = parser.parse_args()

    ms.set_seed(0)
    pictures, labels = made_up_pictures(arguments.steps * arguments.batch_size)
    model = Classifier()
    loss_of = nn.CrossEntropyLoss()
    optimizer = nn.AdamWeightDecay(model.trainable_params(), learning_rate=3e-3)
    gradient = ms.value_and_grad(lambda x, y: loss_of(model(x), y), None, optimizer.parameters)
    for step in range(arguments.steps):
        batch = slice(step * arguments.batch_size, (step + 1) * arguments.batch_size)
        loss, gradients = gradient(Tensor(pictures[batch]), Tensor(labels[batch]))
        optimizer(gradients)
        print(f"step {step}: loss {float(loss):.3f}")


if __name__ == "__main__":
    main()
