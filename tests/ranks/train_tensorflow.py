"""A small training in several processes, profiled once for each scenario: `equal`, `work` or `data`.

    TF_CONFIG=... python train_tensorflow.py OUTPUT together|apart SCENARIO...

Together the workers reduce their gradients in each step (MultiWorkerMirroredStrategy), apart each trains for itself.
From the middle on worker 1 has more work, or its batches take longer: many times as long as a step takes otherwise, so
that other programs on the machine do not hide it. Each scenario leaves a run in OUTPUT/SCENARIO.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import unified_profiler as up

STEPS, SLOW_FROM, SLOW_RANK = 40, 20, 1
BATCH, FEATURES, CLASSES = 64, 256, 10


def batches(*, slow: bool) -> Iterator[tuple[Any, Any]]:
    for step in range(STEPS):
        if slow and step >= SLOW_FROM:
            time.sleep(0.4)
        yield np.full((BATCH, FEATURES), step % 7, np.float32), np.arange(BATCH, dtype=np.int32) % CLASSES


def dataset(*, slow: bool) -> Any:
    signature = tf.TensorSpec((BATCH, FEATURES), tf.float32), tf.TensorSpec(BATCH, tf.int32)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False  # else batches are made while others wait
    found = tf.data.Dataset.from_generator(lambda: batches(slow=slow), output_signature=signature)
    return found.with_options(options)


def multiplied(matrix: Any) -> Any:
    product = matrix
    for _ in range(96):
        product = product @ matrix
    return product


class Training:
    """A model of two layers, whose gradients the workers reduce in each step if they train together."""

    def __init__(self, strategy: Any) -> None:
        with strategy.scope():
            self._weights = [tf.Variable(tf.random.normal(shape) / 16) for shape in ((FEATURES, 512), (512, CLASSES))]
        self.step = tf.function(lambda inputs, labels: strategy.run(self._on_replica, args=(inputs, labels)))
        self.step(tf.zeros((BATCH, FEATURES)), tf.zeros(BATCH, tf.int32))  # traced before it is profiled
        self.more_work = tf.function(multiplied)
        self.more_work(tf.ones((512, 512)))

    def _on_replica(self, inputs: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            outputs = tf.nn.relu(inputs @ self._weights[0]) @ self._weights[1]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs))
        gradients = tape.gradient(loss, self._weights)
        means = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        for weight, mean in zip(self._weights, means, strict=True):
            weight.assign_sub(0.01 * mean)


def train(training: Training, output_dir: Path, scenario: str, *, slow: bool) -> None:
    with up.Profiler(output_dir=output_dir) as profiler:
        for step, (inputs, labels) in enumerate(dataset(slow=slow and scenario == "data")):
            if slow and scenario == "work" and step >= SLOW_FROM:
                training.more_work(tf.ones((512, 512)))
            training.step(inputs, labels)
            profiler.step()


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # other programs slow all workers alike
    tf.config.threading.set_intra_op_parallelism_threads(1)
    output_dir, how, *scenarios = sys.argv[1:]
    together = how == "together"
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if together else tf.distribute.get_strategy()
    slow = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == SLOW_RANK
    training = Training(strategy)
    for scenario in scenarios:
        train(training, Path(output_dir, scenario), scenario, slow=slow)


if __name__ == "__main__":
    main()
