"""TensorFlow: a training by v1 sessions with and without the Profiler, and what normalizing an XPlane costs."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import unified_profiler as up
from benchmarks.figures import NOBODY, Figure, interleaved, off_against_none, seconds
from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.read.normalizer import TensorFlowNormalizer

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

v1 = tf.compat.v1

STEPS = 20
ROUNDS = 41
EAGER_STEPS = 400


def measure() -> list[Figure]:
    """Measure everything, in one process."""
    return [*sessions(), normalizing()]


def sessions() -> list[Figure]:
    """Compare 20 steps of one training: switched off against no profiler, recorded against TensorFlow's own trace."""
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        train, feed = _training()
        session.run(v1.global_variables_initializer())

        def run() -> None:
            session.run(train, feed)

        def run_traced() -> None:
            options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
            session.run(train, feed, options=options, run_metadata=v1.RunMetadata())

        off = off_against_none(run, steps=STEPS * 100)
        ours, theirs = interleaved(
            lambda: _under(up.Profiler(backend="tensorflow", strict=True), run),
            lambda: _loop(run_traced),
            rounds=ROUNDS,
        )
    return [
        Figure(name="sessions: level 0 / no profiler", value=off, unit="x", against=NOBODY, at_most=1.01),
        Figure(
            name="sessions: ours / FULL_TRACE",
            value=ours / theirs,
            unit="x",
            against="RunMetadata (native)",
            at_most=1.05,
            note=_ms(ours),
        ),
    ]


def normalizing() -> Figure:
    """Measure the cost of one event of an XPlane file, from the file to the table."""
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        _eager_work()
        tf.profiler.experimental.stop()
        (path,) = Path(folder).rglob("*.xplane.pb")
        capture = NativeCapture(backend="tensorflow", files=(path,))
        events = len(TensorFlowNormalizer().normalize(capture))
        best = min(seconds(lambda: TensorFlowNormalizer().normalize(capture)) for _ in range(3))
    cost = best / events * 1e6
    return Figure(name="XPlane: cost of an event", value=cost, unit="µs", at_most=5, note=f"{events} events")


def _training() -> tuple[Any, dict[Any, Any]]:
    """Build a convolutional classifier with its optimizer; return what trains it, and what to feed."""
    pictures = v1.placeholder(tf.float32, [32, 28, 28, 3])
    labels = v1.placeholder(tf.int64, [32])
    hidden: Any = pictures
    for place, (inputs, outputs) in enumerate(((3, 16), (16, 32))):
        kernel = v1.get_variable(f"kernel{place}", [3, 3, inputs, outputs])
        hidden = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(hidden, kernel, 1, "SAME")), 2, 2, "SAME")
    weight = v1.get_variable("weight", [32, 10])
    logits = tf.reduce_mean(hidden, [1, 2]) @ weight
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    random = np.random.default_rng(0)
    feed = {pictures: random.normal(size=(32, 28, 28, 3)).astype(np.float32), labels: random.integers(10, size=32)}
    return v1.train.AdamOptimizer().minimize(loss), feed


def _eager_work() -> None:
    weight = tf.Variable(tf.ones([16, 16]))
    for _ in range(EAGER_STEPS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.relu(tf.ones([4, 16]) @ weight))
        weight.assign_sub(0.01 * tape.gradient(loss, weight))


def _under(profiler: up.Profiler, run: Callable[[], None]) -> float:
    with profiler:
        return _loop(run, profiler.step)


def _loop(run: Callable[[], None], mark: Callable[[], object] = lambda: None) -> float:
    """Return what a step takes: the lower quartile, since everything that disturbs a step makes it longer."""
    taken = []
    for _ in range(STEPS):
        start = time.perf_counter()
        run()
        mark()
        taken.append(time.perf_counter() - start)
    return statistics.quantiles(taken, n=4)[0]


def _ms(step: float) -> str:
    return f"{step * 1e3:.2f} ms a step"
