"""The program that the sweep interrupts: trains a small model and reports its progress line by line.

It runs as a script, so it imports the installed package and nothing of the sweep. Each line of progress is a JSON
object with the key `at`; a line that was written outlives the process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

CYCLE = 4
"""Steps of a cycle: one waits, one warms up, two are recorded."""

Step = Callable[[], float]


def main() -> None:
    """Train once without a Profiler, or once in each of the given folders with one."""
    given = _arguments()

    def report(at: str, **line: Any) -> None:
        os.write(given.progress, json.dumps({"at": at, **line}).encode() + b"\n")

    report("begun")
    model = {"torch": _torch, "tensorflow": _tensorflow, "mindspore": _mindspore}[given.framework]()
    report("imported")
    for folder, deliver in given.profiled or [(None, None)]:
        _train(model(), given.steps, folder, deliver, report)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--framework", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--progress", type=int, required=True, help="the file descriptor that progress is written to")
    parser.add_argument("--profiled", nargs=2, action="append", metavar=("FOLDER", "DELIVER"))
    return parser.parse_args()


def _train(step: Step, steps: int, folder: str | None, deliver: str | None, report: Callable[..., None]) -> None:
    output_dir = None if folder is None else Path(folder, "output")
    with ExitStack() as stack:
        end_step = _nothing
        if output_dir is not None:
            tempfile.tempdir = str(output_dir.with_name("tmp"))
            end_step = stack.enter_context(_profiler(output_dir, deliver, report)).step
        report("started", folder=folder)
        for number in range(steps):
            report("step", step=number, loss=step().hex())
            if number % CYCLE < CYCLE - 1:
                end_step()
            else:
                report("ending cycle", cycle=number // CYCLE)
                end_step()
                report("ended cycle", cycle=number // CYCLE, pending=_pending(output_dir))
        report("stopping")
    report("stopped")


def _nothing() -> None:
    pass


def _profiler(output_dir: Path, deliver: Any, report: Callable[..., None]) -> Any:
    import unified_profiler as up

    def delivered(trace: up.Trace) -> None:
        file = output_dir / trace.info.run / "rank-00000" / f"cycle-{trace.info.cycle:05d}.parquet"
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        report("delivered", file=str(file.relative_to(output_dir)), digest=digest)

    plan = up.schedule(wait=1, warmup=1, active=CYCLE - 2, repeat=0)
    return up.Profiler(schedule=plan, output_dir=output_dir, deliver=deliver, on_trace_ready=delivered)


def _pending(output_dir: Path | None) -> list[str]:
    """Return the complete cycles that are no traces yet, as any other process sees them."""
    if output_dir is None:
        return []
    return sorted(str(file.parent.relative_to(output_dir)) for file in output_dir.glob("*/*/pending/*/cycle.json"))


def _torch() -> Callable[[], Step]:
    import torch

    def model() -> Step:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        weights, rows, wanted = list(layers.parameters()), torch.randn(8, 16), torch.randn(8, 4)

        def step() -> float:  # not with torch.optim, which takes longer to import than all of the rest
            loss = torch.nn.functional.mse_loss(layers(rows), wanted)
            with torch.no_grad():
                for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                    weight.sub_(0.1 * gradient)
            return float(loss)

        return step

    return model


def _tensorflow() -> Callable[[], Step]:
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # else the processor decides which kernels TensorFlow takes
    import tensorflow as tf

    def model() -> Step:
        tf.random.set_seed(0)
        weights = [tf.Variable(tf.random.normal(shape, stddev=0.1, seed=1)) for shape in ((16, 32), (32, 4))]
        rows, wanted = tf.random.normal((8, 16), seed=2), tf.random.normal((8, 4), seed=3)

        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.nn.relu(rows @ weights[0]) @ weights[1] - wanted) ** 2)
            for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_sub(0.1 * gradient)
            return loss

        compiled = tf.function(step)
        return lambda: float(compiled())

    return model


def _mindspore() -> Callable[[], Step]:
    import mindspore as ms
    from mindspore import nn, ops

    def model() -> Step:
        ms.set_seed(0)
        layers = nn.SequentialCell(nn.Dense(16, 32), nn.ReLU(), nn.Dense(32, 4))
        optimizer = nn.SGD(layers.trainable_params(), learning_rate=0.1)
        rows, wanted = ops.randn(8, 16, seed=1), ops.randn(8, 4, seed=2)
        gradient = ms.value_and_grad(lambda: ops.mse_loss(layers(rows), wanted), None, optimizer.parameters)

        def step() -> float:
            loss, gradients = gradient()
            optimizer(gradients)
            return float(loss)

        return step

    return model


if __name__ == "__main__":
    main()
