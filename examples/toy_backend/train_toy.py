"""A training in toy_framework. No line of profiling in it."""

from __future__ import annotations

import numpy as np

import toy_framework
from toy_framework import Array


class Training:
    """Fits one layer to made-up numbers."""

    def __init__(self) -> None:
        self.batch = Array(np.linspace(-1, 1, 24).reshape(6, 4))
        self.wanted = Array(-np.abs(np.linspace(-1, 1, 12)).reshape(6, 2))
        self.weight = Array(np.full((4, 2), 0.5))
        self.optimizer = toy_framework.SGD([self.weight], learning_rate=0.05)

    def step(self) -> float:
        """Make one step and return the loss before it."""
        product = toy_framework.matmul(self.batch, self.weight)
        error = toy_framework.add(toy_framework.relu(product), self.wanted)
        gradient = toy_framework.matmul_backward(self.batch, toy_framework.relu_backward(error, product))
        self.optimizer.step([gradient])
        return float(np.square(error.values).mean())


if __name__ == "__main__":
    training = Training()
    for number in range(8):
        print(f"step {number}: loss {training.step():.4f}")
