"""MindSpore: from the end of recording to a Trace against its own `analyse()`, and a training with the Profiler off."""

from __future__ import annotations

import contextlib
import io
import statistics
import tempfile
from collections.abc import Callable

import mindspore as ms
from mindspore import nn, ops

import unified_profiler as up
from benchmarks.figures import NOBODY, Figure, off_against_none, seconds


def measure() -> list[Figure]:
    """Measure everything, in one process."""
    step = _training()
    off = off_against_none(step, steps=2000)
    ours = statistics.median(_ours(step) for _ in range(5))
    theirs = statistics.median(_theirs(step) for _ in range(3))
    note = f"ours {ours * 1e3:.1f} ms, theirs {theirs * 1e3:.0f} ms"
    return [
        Figure(name="mindspore: level 0 / no profiler", value=off, unit="x", against=NOBODY, at_most=1.01),
        Figure(
            name="mindspore: stop and analyse() / ours",
            value=theirs / ours,
            unit="x",
            against="mindspore.profiler (native)",
            at_least=50,
            note=note,
        ),
    ]


def _training() -> Callable[[], None]:
    network = nn.SequentialCell(nn.Dense(64, 64), nn.ReLU(), nn.Dense(64, 10))
    optimizer = nn.Adam(network.trainable_params())
    batch = ops.ones((16, 64), ms.float32)
    gradient = ms.value_and_grad(lambda x: network(x).square().mean(), None, optimizer.parameters)

    def step() -> None:
        loss, gradients = gradient(batch)
        optimizer(gradients)
        loss.asnumpy()

    for _ in range(5):
        step()
    return step


def _ours(step: Callable[[], None]) -> float:
    """Return the time from the end of recording to a finished Trace."""
    profiler = up.Profiler(backend="mindspore", strict=True)
    profiler.start()
    for _ in range(2):
        step()
    taken = seconds(profiler.stop)
    assert len(profiler.traces[0]) > 0  # noqa: S101
    return taken


def _theirs(step: Callable[[], None]) -> float:
    """Return the same for MindSpore's own profiler, which analyses when it stops."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        handler = ms.profiler.tensorboard_trace_handler(folder)
        profiler = ms.profiler.profile(on_trace_ready=handler)
        for _ in range(2):
            step()
        return seconds(profiler.stop)
