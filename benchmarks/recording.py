"""What our Profiler adds to a loop that torch.profiler records anyway."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

import unified_profiler as up
from benchmarks.figures import Figure, interleaved

STEPS = 60


def measure() -> list[Figure]:
    """Compare the same recorded loop under our Profiler and under bare torch.profiler."""
    figures = []
    for shapes in (False, True):
        step = training()
        ours, theirs = interleaved(lambda: _ours(step, shapes), lambda: _theirs(step, shapes), rounds=11)  # noqa: B023
        name = "recorded loop: ours / torch.profiler" + (", with shapes" if shapes else "")
        note = f"{ours / STEPS * 1e3:.2f} ms a step"
        against = "torch.profiler (native)"
        figures.append(Figure(name=name, value=ours / theirs, unit="x", against=against, at_most=1.03, note=note))
    return figures


def training() -> Callable[[], None]:
    """Return what trains a small convolutional classifier by a step."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 16 * 16, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )
    optimizer = torch.optim.Adam(model.parameters())
    batch, target = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), target).backward()
        optimizer.step()

    for _ in range(5):
        step()
    return step


def _ours(step: Callable[[], None], shapes: bool) -> float:
    profiler = up.Profiler(record_shapes=shapes, strict=True)
    with profiler:
        return _loop(step, profiler.step)


def _theirs(step: Callable[[], None], shapes: bool) -> float:
    with torch.profiler.profile(record_shapes=shapes) as profiler:
        return _loop(step, profiler.step)


def _loop(step: Callable[[], None], mark: Callable[[], None]) -> float:
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
        mark()
    return time.perf_counter() - start
