"""Records the training of one of five small models, which are the same in PyTorch, TensorFlow and MindSpore.

Run it with:  python examples/comparison/record.py FRAMEWORK MODEL OUTPUT_DIR [--steps 10] [--slow kernel]

Two such runs can be laid side by side: the columns `origin` and `direction` mean the same in every framework.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sizes import MODELS, SLOW, SLOWABLE  # type: ignore[import-not-found]  # beside this file

import unified_profiler as up

FRAMEWORKS = ("torch", "tensorflow", "mindspore")
UNRECORDED = {"wait": 6, "warmup": 2}  # the first step compiles graphs and fills caches; five show what a step takes

LARGEST = """
    select origin, direction, round(sum(self_ns) / 1e6 / count(distinct step), 3) as ms_per_step
    from events where kind = 'op' and step is not null
    group by origin, direction order by ms_per_step desc limit 8
"""


def record(step: Callable[[], float], output: Path, *, steps: int) -> up.Trace:
    """Train under the profiler and return the trace of the steps after the first ones."""
    plan = up.schedule(**UNRECORDED, active=steps, repeat=1)
    with up.Profiler(schedule=plan, output_dir=output, record_shapes=True, with_flops=True) as profiler:
        for _ in range(sum(UNRECORDED.values()) + steps):
            loss = step()
            profiler.step()
    print(f"{steps} steps recorded in {profiler.run.path}, loss {loss:.3f}")
    return profiler.traces[-1]


def main() -> None:
    """Record one run, and show what took longest."""
    arguments = _arguments()
    models: Any = importlib.import_module(f"models_{arguments.framework}")
    models.one_thread()
    step = models.training(arguments.model, arguments.slow)
    trace = record(step, arguments.output, steps=arguments.steps)
    print(up.query(trace, LARGEST))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=FRAMEWORKS)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("output", type=Path, metavar="OUTPUT_DIR")
    parser.add_argument("--steps", type=int, default=10, help="how many steps are recorded")
    parser.add_argument("--slow", choices=SLOW, help=f"put in a slow-down; for {' and '.join(SLOWABLE)}")
    arguments = parser.parse_args()
    if arguments.slow and arguments.model not in SLOWABLE:
        parser.error(f"--slow is for {' and '.join(SLOWABLE)}.")
    return arguments


if __name__ == "__main__":
    main()
