"""How often the gate is wrong: false alarms on a program against itself, and slow-downs of known size that it finds.

Real runs of torch. Where a figure says "in turn", each side is twenty runs that alternate with those of the other, so
that a machine whose speed changes disturbs both alike; "one run" is one after the other, as most people would do it.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import unified_profiler as up
from benchmarks.figures import Figure
from unified_profiler.gating.contributions import Sides, contributions
from unified_profiler.gating.metrics import metric_of

PAIRS = 40
CHANGED = 20
RUNS = 20
STEPS = 200
"""Of each side, that count; a tenth more is run, since the first of a run do not count."""
_OPENING = 1.1
_PARTS = 20
"""Batches of a step: one more is 5 % more work."""
_PRODUCTS = 10
"""Calls of one operator in a step: two more are 20 % more of it."""
OPERATOR = "aten::bmm"

Step = Callable[[], object]


def measure() -> list[Figure]:
    """Record pairs and judge them."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder))
        return [*_in_turn(recorder), *_one_operator(recorder), *_one_run(recorder), *_few_steps(recorder)]


@dataclass(frozen=True)
class Recorder:
    """Records runs, each into a directory of its own."""

    folder: Path

    def record(self, step: Step, *, steps: int, active: int = 0) -> up.Run:
        """Run some steps unrecorded and then some recorded, and read what was written."""
        path = self.folder / str(len(list(self.folder.iterdir())))
        plan = up.schedule(wait=steps or 2, warmup=1, active=active or 1, repeat=1)
        with up.Profiler(schedule=plan, output_dir=path, backend="torch", hardware_hz=0, strict=True) as profiler:
            for _ in range((steps or 2) + (active and active + 1)):
                step()
                profiler.step()
        return up.read(path)

    def in_turn(self, *sides: Step, steps: int, active: int = 0) -> list[list[up.Run]]:
        """Record runs of all sides, which take turns at being first."""
        found: list[list[up.Run]] = [[] for _ in sides]
        for turn in range(RUNS):
            for place in range(len(sides)):
                number = (place + turn) % len(sides)
                found[number].append(self.record(sides[number], steps=steps, active=active))
        return found


def _in_turn(recorder: Recorder) -> Iterator[Figure]:
    same: dict[str, Counter[str]] = {bound: Counter() for bound in ("5%", "2%", "1%")}
    slower: dict[str, Counter[str]] = {bound: Counter() for bound in ("2%", "1%")}
    steps = int(STEPS * _OPENING) // RUNS
    for number, model in zip(range(PAIRS), itertools.cycle((dense, convolutional)), strict=False):
        parts = (_PARTS, _PARTS, _PARTS + 1)[: 3 if number < CHANGED else 2]
        before, after, *changed = recorder.in_turn(*map(model, parts), steps=steps)
        for bound, verdicts in same.items():
            verdicts[up.gate(before, after, max_regression=bound).verdict.value] += 1
        for runs, (bound, verdicts) in itertools.product(changed, slower.items()):
            verdicts[up.gate(before, runs, max_regression=bound).verdict.value] += 1
    for bound, verdicts in same.items():
        yield _alarms(f"same program, in turn, {bound} accepted: false alarms", verdicts)
    yield _found("5 % more work, in turn, 2 % accepted: found", slower["2%"])
    yield _found("5 % more work, in turn, 1 % accepted: found", slower["1%"], at_least=18)


def _one_operator(recorder: Recorder) -> Iterator[Figure]:
    by_name: Counter[str] = Counter()
    by_step: Counter[str] = Counter()
    named = 0
    for _ in range(CHANGED):
        sides = [products(count) for count in (_PRODUCTS, _PRODUCTS * 6 // 5)]
        before, after = recorder.in_turn(*sides, steps=0, active=STEPS // RUNS)
        by_name[up.gate(before, after, metric=f"op:{OPERATOR}").verdict.value] += 1
        by_step[up.gate(before, after, max_regression="2%").verdict.value] += 1
        made = contributions(metric_of("step", before, after), Sides(before, after, 0.02))
        named += [each.name for each in made][:1] == [OPERATOR]
    yield _found(f"20 % more of {OPERATOR}, in turn, 5 % accepted: found", by_name, at_least=CHANGED)
    yield Figure(name=f"{OPERATOR} is first in the step", value=named, unit=f"of {CHANGED}", at_least=CHANGED)
    yield _found(f"20 % more of {OPERATOR}, in turn, step, 2 % accepted: found", by_step)


def _one_run(recorder: Recorder) -> Iterator[Figure]:
    verdicts: Counter[str] = Counter()
    slower: Counter[str] = Counter()
    for number, model in zip(range(PAIRS), itertools.cycle((dense, convolutional)), strict=False):
        record = partial(recorder.record, steps=int(STEPS * _OPENING), active=10)
        before, after = record(model(_PARTS)), record(model(_PARTS))
        verdicts[up.gate(before, after).verdict.value] += 1
        if number < CHANGED:
            changed = record(model(_PARTS + 1))
            slower[up.gate(after, changed, max_regression="2%").verdict.value] += 1
    yield _alarms("same program, one run, 5% accepted: false alarms", verdicts)
    yield _found("5 % more work, one run, 2 % accepted: found", slower)


def _few_steps(recorder: Recorder) -> Iterator[Figure]:
    before, after = (recorder.record(dense(_PARTS), steps=10) for _ in range(2))
    code = up.gate(before, after).verdict.exit_code
    yield Figure(name="ten steps: exit code", value=code, unit="", at_least=2, at_most=2)


def _alarms(name: str, verdicts: Counter[str]) -> Figure:
    return Figure(
        name=name,
        value=verdicts["regression"],
        unit=f"of {verdicts.total()}",
        at_most=2,
        note=_other_verdicts(verdicts),
    )


def _found(name: str, verdicts: Counter[str], *, at_least: int | None = None) -> Figure:
    unit = f"of {verdicts.total()}"
    return Figure(name=name, value=verdicts["regression"], unit=unit, at_least=at_least, note=_other_verdicts(verdicts))


def _other_verdicts(verdicts: Counter[str]) -> str:
    within, inconclusive = verdicts["within"], verdicts["inconclusive"]
    return f"{within} within bounds, {inconclusive} inconclusive; load then {os.getloadavg()[0]:.1f}"


def dense(parts: int) -> Step:
    """Return a step of a perceptron that takes its batch in parts."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    return _training(model, torch.randn(32, 64), parts)


def convolutional(parts: int) -> Step:
    """Return a step of a small convolutional network that takes its batch in parts."""
    import torch

    layers: Sequence[torch.nn.Module] = (torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten())
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8 * 6 * 6, 8))
    return _training(model, torch.randn(8, 3, 8, 8), parts)


def products(count: int) -> Step:
    """Return a step of a perceptron that also multiplies some matrices."""
    import torch

    train, matrices = dense(4), torch.randn(4, 64, 64)

    def step() -> None:
        train()
        for _ in range(count):
            torch.bmm(matrices, matrices)

    return step


def _training(model: object, batch: object, parts: int) -> Step:
    import torch

    torch.set_num_threads(1)
    assert isinstance(model, torch.nn.Module)  # noqa: S101  torch is not typed here
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        for _ in range(parts):
            model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
