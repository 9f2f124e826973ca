from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import tensorflow as tf

from unified_profiler.spi import Capability
from unified_profiler.testing import BackendConformance, never
from unified_profiler_tensorflow import backend as tensorflow_backend

NO_MEMORY = never("XPlane records no memory on the processor")
NO_SHAPES = never("XPlane records shapes of operators in graphs only")


class TensorFlowConformance(BackendConformance):
    module = "unified_profiler_tensorflow"
    backend = tensorflow_backend


class TestFunctions(TensorFlowConformance):
    divergences: ClassVar = {Capability.MEMORY: NO_MEMORY}
    step: Any

    @pytest.fixture(autouse=True)
    def _function(self) -> None:
        weights = tf.Variable(tf.ones((8, 4)))

        @tf.function  # type: ignore[untyped-decorator]
        def step(inputs: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.nn.relu(inputs @ weights))
            weights.assign_sub(tape.gradient(loss, weights) * 0.0)
            return loss

        self.step = step
        self.work()

    def work(self) -> float:
        return float(self.step(tf.ones((2, 8))))


class TestEager(TensorFlowConformance):
    divergences: ClassVar = {
        Capability.SHAPES: NO_SHAPES,
        Capability.FLOPS: NO_SHAPES,
        Capability.MEMORY: NO_MEMORY,
    }

    def work(self) -> float:
        return float(tf.reduce_sum(tf.nn.relu(tf.ones((2, 8)) @ tf.ones((8, 4)))))


class TestSessions(TensorFlowConformance):
    session: Any
    inputs: Any
    loss: Any

    @pytest.fixture(autouse=True)
    def _session(self) -> Iterator[None]:
        with tf.Graph().as_default() as graph:
            self.inputs = tf.compat.v1.placeholder(tf.float32, (2, 8))
            self.loss = tf.reduce_sum(tf.nn.relu(self.inputs @ tf.ones((8, 4))))
            with tf.compat.v1.Session(graph=graph) as session:
                self.session = session
                self.work()
                yield

    def work(self) -> float:
        return float(self.session.run(self.loss, {self.inputs: [[1.0] * 8] * 2}))
