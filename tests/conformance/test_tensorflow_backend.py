from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from unified_profiler.spi import Capability
from unified_profiler.testing import BackendConformance
from unified_profiler_tensorflow import backend as tensorflow_backend

SHAPES = (Capability.SHAPES, "input_shapes")
MEMORY = (Capability.MEMORY, "bytes")
STACKS = (Capability.STACKS, "stack")
FLOPS = (Capability.FLOPS, "flops")


def never(what: tuple[Capability, str], reason: str) -> Any:
    return pytest.param(*what, marks=pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError))


NO_SHAPES = "XPlane records shapes of operators in graphs only"


class TensorFlowConformance(BackendConformance):
    module = "unified_profiler_tensorflow"
    backend = tensorflow_backend


class TestFunctions(TensorFlowConformance):
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

    @pytest.mark.parametrize(
        ("capability", "column"),
        [SHAPES, never(MEMORY, "XPlane records no memory on the processor"), STACKS, FLOPS],
    )
    def test_what_it_can_record_is_in_its_column(self, capability: Capability, column: str, tmp_path: Path) -> None:
        super().test_what_it_can_record_is_in_its_column(capability, column, tmp_path)


class TestEager(TensorFlowConformance):
    def work(self) -> float:
        return float(tf.reduce_sum(tf.nn.relu(tf.ones((2, 8)) @ tf.ones((8, 4)))))

    @pytest.mark.parametrize(
        ("capability", "column"),
        [
            never(SHAPES, NO_SHAPES),
            never(MEMORY, "XPlane records no memory on the processor"),
            STACKS,
            never(FLOPS, NO_SHAPES),
        ],
    )
    def test_what_it_can_record_is_in_its_column(self, capability: Capability, column: str, tmp_path: Path) -> None:
        super().test_what_it_can_record_is_in_its_column(capability, column, tmp_path)


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

    @pytest.mark.parametrize(("capability", "column"), [SHAPES, MEMORY, STACKS, FLOPS])
    def test_what_it_can_record_is_in_its_column(self, capability: Capability, column: str, tmp_path: Path) -> None:
        super().test_what_it_can_record_is_in_its_column(capability, column, tmp_path)
