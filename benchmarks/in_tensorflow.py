"""TensorFlow: a training by v1 sessions with and without the Profiler; the cost of reading XPlane and RunMetadata."""

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
LAYERS = 300
"""Layers of the network whose step runs thousands of nodes with different names."""


def measure() -> list[Figure]:
    """Measure everything, in one process."""
    return [*sessions(), normalizing(), *reading_nodes()]


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
    return Figure(name="XPlane: cost of an event", value=cost, unit="us", at_most=5, note=f"{events} events")


def reading_nodes() -> list[Figure]:
    """Measure the CPU time of a node of RunMetadata: in one run, all of whose nodes differ, and if runs repeat them."""
    with tempfile.TemporaryDirectory() as folder:
        files = _traced_runs(Path(folder), runs=10)
        return [
            _cost_of_a_node("distinct nodes", files[:1]),
            _cost_of_a_node("repeated nodes", files),
            _against_timeline(files[0]),
        ]


def _traced_runs(folder: Path, *, runs: int) -> list[Path]:
    """Write the RunMetadata of some steps of a deep network, each node of which has its own name."""
    files = [folder / f"run-{number}.pb" for number in range(runs)]
    with tf.Graph().as_default(), v1.Session() as session:
        train = v1.train.AdamOptimizer().minimize(tf.reduce_mean(_deep_network()))
        session.run(v1.global_variables_initializer())
        session.run(train)
        for file in files:
            metadata = v1.RunMetadata()
            session.run(train, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=metadata)
            file.write_bytes(metadata.SerializeToString())
    return files


def _deep_network() -> Any:
    hidden: Any = tf.ones([4, 8])
    for number in range(LAYERS):
        with v1.variable_scope(f"dense_{number}"):
            product = hidden @ v1.get_variable("kernel", [8, 8])
            hidden = tf.nn.relu(tf.nn.bias_add(product, v1.get_variable("bias", [8])))
    return hidden


def _cost_of_a_node(nodes: str, files: list[Path]) -> Figure:
    capture = NativeCapture(backend="tensorflow", files=tuple(files))
    kinds = TensorFlowNormalizer().normalize(capture).column("kind").to_pylist()
    count = sum(kind != "memory" for kind in kinds)
    best = min(_cpu_seconds(lambda: TensorFlowNormalizer().normalize(capture)) for _ in range(5))
    return Figure(
        name=f"RunMetadata: cost of a node, {nodes}",
        value=best / count * 1e6,
        unit="us",
        at_most=10,
        note=f"{count} nodes in {len(files)} {'run' if len(files) == 1 else 'runs'}",
    )


def _against_timeline(file: Path) -> Figure:
    """Compare the way from a file to a table of events with the way to the events of TensorFlow's own Timeline."""
    from tensorflow.python.client.timeline import Timeline

    def timeline() -> str:
        metadata = v1.RunMetadata()
        metadata.ParseFromString(file.read_bytes())
        return str(Timeline(metadata.step_stats).generate_chrome_trace_format())

    capture = NativeCapture(backend="tensorflow", files=(file,))
    pairs = [
        (_cpu_seconds(timeline), _cpu_seconds(lambda: TensorFlowNormalizer().normalize(capture))) for _ in range(5)
    ]
    theirs, ours = (min(times) for times in zip(*pairs, strict=True))
    return Figure(
        name="RunMetadata: TensorFlow's Timeline / ours",
        value=theirs / ours,
        unit="x",
        against="RunMetadata (native)",
        at_least=1,
        note=f"Timeline {theirs * 1e3:.0f} ms, ours {ours * 1e3:.0f} ms",
    )


def _cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


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
