"""Records the files beside it: `python record.py` with TensorFlow and Keras installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Level:
    """An integer that TensorFlow 2.21 does not take for a truth value."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def keras_fit(size: int = 6, filters: int = 2) -> Callable[[], Any]:
    import keras
    import numpy as np

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Conv2D(filters, 3, activation="relu"), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.Input((size, size, 1)), *layers, keras.layers.Flatten(), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    images, labels = np.ones((8, size, size, 1), "float32"), np.zeros(8, "int32")
    return lambda: model.fit(images, labels, batch_size=4, verbose=0, shuffle=False)


def keras_fit_onednn() -> Callable[[], Any]:
    return keras_fit(size=50, filters=16)  # oneDNN's allocator tells of allocations above 256 kB


def eager() -> Callable[[], Any]:
    import tensorflow as tf

    weights = tf.Variable(tf.ones((4, 2)))

    def steps() -> None:
        for step in range(2):
            with tf.profiler.experimental.Trace("train", step_num=step, _r=1), tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.nn.relu(tf.ones((3, 4)) @ weights))
            weights.assign_sub(tape.gradient(loss, weights))

    return steps


def xla() -> Callable[[], Any]:
    import tensorflow as tf

    weights = tf.Variable(tf.ones((64, 32)))

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def step(inputs: Any) -> Any:
        with tf.GradientTape() as tape, tf.name_scope("dense"):
            loss = tf.reduce_sum(tf.nn.relu(inputs @ weights))
        weights.assign_sub(tape.gradient(loss, weights))
        return loss

    return lambda: step(tf.ones((48, 64)))


def xla_convolution() -> Callable[[], Any]:
    import tensorflow as tf

    kernel, images = tf.Variable(tf.ones((3, 3, 16, 8))), tf.ones((4, 32, 32, 16))

    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]
    def convolve() -> Any:
        return tf.reduce_sum(tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME")))

    def calls() -> None:
        for _ in range(3):
            convolve().numpy()
        time.sleep(0.01)  # the marks at the ends of instructions come after the result

    return calls


def loop() -> Callable[[], Any]:
    import tensorflow as tf

    @tf.function  # type: ignore[untyped-decorator]
    def powers(matrix: Any) -> Any:
        for _ in tf.range(5):
            matrix = tf.matmul(matrix, matrix) * 0.01
        return matrix

    return lambda: powers(tf.ones((8, 8)))


RECORDINGS: dict[str, tuple[Callable[[], Callable[[], Any]], int, int]] = {
    "keras_fit": (keras_fit, 3, 0),
    "keras_fit_onednn": (keras_fit_onednn, 3, 0),
    "eager": (eager, 2, 0),
    "xla": (xla, 2, 0),
    "xla_convolution": (xla_convolution, 2, 0),
    "loop": (loop, 3, 0),
    "frames": (loop, 2, 1),
}
"""What is recorded, and the levels of the tracers of the host and of Python."""


def record(name: str) -> None:
    """Record one of them in this process, after one round that is not recorded."""
    import tensorflow as tf

    prepare, host, python = RECORDINGS[name]
    work, profiler = prepare(), tf.profiler.experimental
    work()
    with tempfile.TemporaryDirectory() as logdir:
        options = profiler.ProfilerOptions(host_tracer_level=Level(host), python_tracer_level=Level(python))
        profiler.start(logdir, options)
        work()
        profiler.stop()
        (file,) = Path(logdir).rglob("*.xplane.pb")
        (HERE / f"{name}.xplane.pb").write_bytes(without_paths(file.read_bytes()))


def without_paths(data: bytes) -> bytes:
    """Take out of XLA's programs which source files of the recording machine their instructions came from."""
    from tensorflow.compiler.xla.service import hlo_pb2
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(data)
    for plane in space.planes:
        for stat in (stat for metadata in plane.event_metadata.values() for stat in metadata.stats if stat.bytes_value):
            program = hlo_pb2.HloProto.FromString(stat.bytes_value)
            program.hlo_module.ClearField("stack_frame_index")
            for computation in program.hlo_module.computations:
                for instruction in computation.instructions:
                    instruction.metadata.ClearField("source_file")
            stat.bytes_value = program.SerializeToString()
    return bytes(space.SerializeToString())


if __name__ == "__main__":
    if len(sys.argv) == 2:
        record(sys.argv[1])
    else:
        for each in RECORDINGS:
            switches = {"TF_ENABLE_ONEDNN_OPTS": str(int(each.endswith("onednn"))), "TF_CPP_MIN_LOG_LEVEL": "2"}
            subprocess.run([sys.executable, __file__, each], check=True, env={**os.environ, **switches})
