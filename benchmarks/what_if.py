"""Predictions of `what_if` against real edits: an operator removed, halved or doubled, with and without data loaders.

Each program is recorded once as it is. The predicted step time with the edit, relative to the recorded one, is compared
with the measured one: both variants run without a profiler, in turns, and the medians count. Programs without a data
loader are measured in CPU time, so that other programs on the machine matter less.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  as torch's users call it
from torch.utils.data import DataLoader, Dataset

import unified_profiler as up
from benchmarks.figures import Figure

STEPS = 30
RECORDINGS = 3
ROUNDS = 6
WARMUP = 3
WITHIN = 0.10
FEWEST = 8

Step = Callable[[], object]
Steps = Callable[[], Iterator[Step]]


@dataclass(frozen=True)
class Program:
    """A program and its edit: functions that yield their steps, and the change that describes the edit."""

    name: str
    base: Steps
    edited: Steps
    changes: Mapping[str, float]
    clock: Callable[[], float] = field(default=time.process_time)


def measure() -> list[Figure]:
    """Compare predicted and measured step times of all programs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        errors = {program.name: _error(program) for program in programs()}
    finally:
        torch.set_num_threads(threads)
    figures = [
        Figure(name=f"{name}: predicted - measured", value=abs(error) * 100, unit="% of the step", note=note)
        for name, (error, note) in errors.items()
    ]
    right = sum(abs(error) <= WITHIN for error, _ in errors.values())
    return [*figures, Figure(name="predictions within 10 % of the step", value=right, unit="of 10", at_least=FEWEST)]


def _error(program: Program) -> tuple[float, str]:
    """Return by how much prediction and measurement differ, relative to the step as it is."""
    predicted, measured = _predicted(program), _measured(program)
    return predicted - measured, f"predicted {predicted:.3f}, measured {measured:.3f} of the step"


def _predicted(program: Program) -> float:
    """Return the predicted step time relative to the recorded one, the median over the steps of some recordings."""
    ratios: list[float] = []
    for _ in range(RECORDINGS):
        with up.Profiler(backend="torch") as profiler:
            for step in program.base():
                step()
                profiler.step()
        rows = sorted(up.what_if(profiler.run, program.changes).rows[WARMUP:-1], key=lambda row: row.measured_ns)
        # The slower half was interrupted by other programs, which the CPU time of the measurements does not contain.
        ratios += [row.predicted_ns / row.measured_ns for row in rows[: len(rows) // 2]]
    return statistics.median(ratios)


def _measured(program: Program) -> float:
    """Return the step time of the edited program relative to the base, in blocks of steps that take turns."""
    times: dict[Steps, list[float]] = {program.base: [], program.edited: []}
    for number in range(ROUNDS):
        order = (program.base, program.edited) if number % 2 else (program.edited, program.base)
        for variant in order:
            times[variant] += _step_times(variant, program.clock)
    return statistics.median(times[program.edited]) / statistics.median(times[program.base])


def _step_times(steps: Steps, clock: Callable[[], float]) -> list[float]:
    times, last = [], clock()
    for step in steps():
        step()
        times.append(clock() - last)
        last = clock()
    return times[WARMUP:]


# --- the programs -----------------------------------------------------------------------------------------------------


def programs() -> list[Program]:
    """Return the ten programs."""
    return [
        Program("mm removed", _repeated(_matrices, products=1), _repeated(_matrices, products=0), {"aten::mm": 0}),
        Program("mm doubled", _repeated(_matrices, products=1), _repeated(_matrices, products=2), {"aten::mm": 2}),
        Program("convolution halved", _repeated(_images, layers=2), _repeated(_images, layers=1), {"Conv": 0.5}),
        Program(
            "activation removed in a training",
            _training(activation=True),
            _training(activation=False),
            {"aten::gelu": 0, "autograd::engine::evaluate_function: GeluBackward0": 0},
        ),
        Program(
            "optimizer removed",
            _training(),
            _training(update=False),
            {"Optimizer.step#*": 0},
        ),
        Program(
            "softmax doubled",
            _repeated(_matrices, products=1, softmaxes=2),
            _repeated(_matrices, products=1, softmaxes=4),
            {"aten::softmax": 2},
        ),
        Program("loading in the process, doubled", _loaded(rows=40), _loaded(rows=80), {"data": 2}),
        Program(
            "loader with a worker, mm removed",
            _loaded(workers=1, seconds=0.001, products=2, exponentials=30),
            _loaded(workers=1, seconds=0.001, products=0, exponentials=30),
            {"aten::mm": 0},
            clock=time.perf_counter,
        ),
        Program(
            "loader with a worker that is the bottleneck, mm halved",
            _loaded(workers=1, seconds=0.06, products=2),
            _loaded(workers=1, seconds=0.06, products=1),
            {"aten::mm": 0.5},
            clock=time.perf_counter,
        ),
        Program(
            "loader with a worker that is the bottleneck, loading halved",
            _loaded(workers=1, seconds=0.06, products=1),
            _loaded(workers=1, seconds=0.03, products=1),
            {"data": 0.5},
            clock=time.perf_counter,
        ),
    ]


def _repeated(make: Callable[..., Step], **options: Any) -> Steps:
    """Return a program that repeats one step."""
    step = make(**options)
    return lambda: (step for _ in range(STEPS + WARMUP))


def _matrices(*, products: int, softmaxes: int = 1) -> Step:
    a, b = torch.randn(448, 448), torch.randn(448, 448)

    def step() -> None:
        with torch.no_grad():
            for _ in range(products):
                torch.mm(a, b)
            for _ in range(softmaxes):
                torch.softmax(a, dim=0)
            for _ in range(20):
                torch.exp(a)

    return step


def _images(*, layers: int) -> Step:
    convolution, images, other = nn.Conv2d(16, 16, 3), torch.randn(4, 16, 64, 64), torch.randn(700, 700)

    def step() -> None:
        with torch.no_grad():
            for _ in range(layers):
                convolution(images)
            for _ in range(6):
                torch.exp(other)

    return step


def _training(*, activation: bool = True, update: bool = True) -> Steps:
    layers: list[nn.Module] = [nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)]
    model = nn.Sequential(*(layer for layer in layers if activation or not isinstance(layer, nn.GELU)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)
    batch = torch.randn(256, 256)

    def step() -> None:
        model.zero_grad(set_to_none=False)
        F.mse_loss(model(batch), batch).backward()
        if update:
            optimizer.step()

    return lambda: (step for _ in range(STEPS + WARMUP))


class _Rows(Dataset[torch.Tensor]):  # type: ignore[misc]
    """Items that take time to load: by computing, or by waiting as for a disk."""

    def __init__(self, rows: int, seconds: float) -> None:
        self.rows, self.seconds, self.row = rows, seconds, torch.randn(20_000)

    def __len__(self) -> int:
        return STEPS + WARMUP

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return sum(torch.sin(self.row) for _ in range(self.rows)) + index


def _loaded(
    *, workers: int = 0, rows: int = 1, seconds: float = 0.0, products: int = 1, exponentials: int = 6
) -> Steps:
    compute = partial(_compute, torch.randn(448, 448), products, exponentials)

    def steps() -> Iterator[Step]:
        loader = DataLoader(_Rows(rows, seconds), batch_size=1, num_workers=workers)
        return (compute for _ in loader)

    return steps


def _compute(a: torch.Tensor, products: int, exponentials: int) -> None:
    with torch.no_grad():
        for _ in range(products):
            torch.mm(a, a)
        for _ in range(exponentials):
            torch.exp(a)


if __name__ == "__main__":
    for figure in measure():
        print(f"{figure.name:70} {figure.value:6.2f} {figure.unit}  {figure.note} {figure.verdict}")
