from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the accelerators that this machine does not have

import tensorflow as tf

from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_tensorflow.record import recorder
from unified_profiler_tensorflow.record.recorder import TensorFlowRecorder

Record = Callable[..., NativeCapture]


@pytest.fixture(autouse=True)
def _every_warning_is_new() -> None:
    recorder._warn_once.cache_clear()


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Records a function with the given options."""

    def run(work: Callable[[], Any], **options: Any) -> NativeCapture:
        made = TensorFlowRecorder(RecordOptions(**options), tmp_path)
        made.arm()
        made.start()
        work()
        return made.stop()

    return run


@dataclass(frozen=True)
class Net:
    """A v1 graph with a step of training, in a session."""

    session: Any
    train: Any
    loss: Any
    feed: dict[Any, Any]

    def run(self, fetches: Any = None, **arguments: Any) -> Any:
        return self.session.run([self.train, self.loss] if fetches is None else fetches, self.feed, **arguments)


@pytest.fixture
def net() -> Iterator[Net]:
    """A small network of matrix multiplications, trained by gradient descent in a v1 session."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        images = v1.placeholder(tf.float32, (4, 8), name="images")
        weights = v1.get_variable("weights", initializer=tf.ones((8, 2)) / 8)
        loss = tf.reduce_mean(tf.square(tf.matmul(images, weights, name="multiply") - 3.0), name="loss")
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=v1.train.create_global_step())
        with v1.Session(graph=graph) as session:
            session.run(v1.global_variables_initializer())
            yield Net(session, train, loss, {images: [[1.0] * 8] * 4})
