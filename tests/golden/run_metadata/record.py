"""Records the files of this folder: `python record.py <folder>`, once with and once without TF_ENABLE_ONEDNN_OPTS=1."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client.timeline import Timeline

v1 = tf.compat.v1


def train() -> Any:
    """Return the RunMetadata of a step of training: convolution, batch norm, dense, a loop, Adam."""
    with tf.Graph().as_default():
        images = tf.constant(np.linspace(0, 1, 4 * 8 * 8 * 3, dtype=np.float32).reshape(4, 8, 8, 3))
        with v1.variable_scope("conv2d"):
            kernel, bias = v1.get_variable("kernel", (3, 3, 3, 8)), v1.get_variable("bias", (8,))
            hidden = tf.nn.bias_add(
                tf.nn.conv2d(v1.placeholder_with_default(images, images.shape), kernel, 1, "SAME"), bias
            )
        with v1.variable_scope("batch_normalization"):
            gamma, beta = v1.get_variable("gamma", (8,)), v1.get_variable("beta", (8,))
            hidden, _, _ = v1.nn.fused_batch_norm(hidden, gamma, beta)
        hidden = tf.nn.max_pool2d(tf.nn.relu(hidden), 2, 2, "SAME")
        with v1.variable_scope("dense"):
            weights, bias = v1.get_variable("kernel", (4 * 4 * 8, 10)), v1.get_variable("bias", (10,))
            logits = tf.nn.relu(tf.nn.bias_add(tf.matmul(tf.reshape(hidden, (4, 128)), weights), bias))
        _, logits = tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x * 1.01), (tf.constant(0), logits))
        loss = v1.losses.sparse_softmax_cross_entropy(tf.range(4), logits)
        return traced([v1.train.AdamOptimizer().minimize(loss), loss])


def multiply() -> Any:
    """Return the RunMetadata of a few operators."""
    with tf.Graph().as_default():
        x = v1.random_uniform((512, 128), name="x")
        hidden = tf.nn.relu(tf.matmul(x, tf.ones((128, 256)), name="first"), name="hidden")
        return traced(tf.matmul(hidden, tf.ones((256, 8)), name="second"))


def traced(fetches: Any) -> Any:
    """Run something in a session until nothing has to be prepared any more, and then with a trace."""
    metadata = v1.RunMetadata()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(fetches)
        session.run(fetches, options=v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE), run_metadata=metadata)
    return metadata


def main(folder: Path) -> None:
    """Write the files."""
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "1":
        (folder / "train_onednn.pb").write_bytes(train().SerializeToString())
        return
    (folder / "train.pb").write_bytes(train().SerializeToString())
    metadata = multiply()
    (folder / "multiply.pb").write_bytes(metadata.SerializeToString())
    timeline = Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=True)
    (folder / "multiply_timeline.json").write_text(timeline, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
