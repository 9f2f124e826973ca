"""Five small models in Keras on TensorFlow, layer for layer those of models_torch.py and models_mindspore.py."""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow tells at length which processors it was built for

import keras
import sizes  # type: ignore[import-not-found]  # beside this file
import tensorflow as tf
from keras import layers, ops
from sizes import ModelName, Slow


def residual_network(slow: Slow | None) -> keras.Model:
    """A convolution, a residual block of two, pooling and a dense layer."""
    kernel = 7 if slow == "kernel" else 3
    pictures = keras.Input((sizes.SIDE, sizes.SIDE, sizes.COLORS), batch_size=sizes.PICTURES)
    inner = layers.Conv2D(sizes.CHANNELS, 3, padding="same")(pictures)
    inner = layers.ReLU()(layers.BatchNormalization()(inner))
    block = layers.Conv2D(sizes.CHANNELS, kernel, padding="same")(inner)
    block = layers.ReLU()(layers.BatchNormalization()(block))
    block = layers.Conv2D(sizes.CHANNELS, 3, padding="same")(block)
    block = layers.BatchNormalization()(block)
    inner = layers.MaxPooling2D(2)(layers.ReLU()(layers.add([inner, block])))
    if slow == "transpose":
        inner = turned(inner)
    if slow == "loop":
        inner = ops.stack([ops.tanh(inner[i]) for i in range(sizes.PICTURES)])
    return keras.Model(pictures, layers.Dense(sizes.CLASSES)(layers.GlobalAveragePooling2D()(inner)))


class HandwrittenAttention(layers.Layer):  # type: ignore[misc]  # keras is not typed here
    """Attention of a sentence to itself, in matrix products and a softmax."""

    def __init__(self) -> None:
        """Make the projections."""
        super().__init__()
        self.query, self.key, self.value, self.output_dense = (layers.Dense(sizes.WIDTH) for _ in range(4))

    def call(self, words: tf.Tensor) -> tf.Tensor:
        """Let every word look at every other."""
        query, key, value = (self._heads(layer(words)) for layer in (self.query, self.key, self.value))
        scores = ops.matmul(query, ops.swapaxes(key, 2, 3)) * (sizes.WIDTH // sizes.HEADS) ** -0.5
        attended = ops.swapaxes(ops.matmul(ops.softmax(scores, axis=-1), value), 1, 2)
        return self.output_dense(ops.reshape(attended, (sizes.SENTENCES, sizes.WORDS, sizes.WIDTH)))

    def _heads(self, words: tf.Tensor) -> tf.Tensor:
        heads = ops.reshape(words, (sizes.SENTENCES, sizes.WORDS, sizes.HEADS, sizes.WIDTH // sizes.HEADS))
        return ops.swapaxes(heads, 1, 2)


def transformer(*, handwritten: bool) -> keras.Model:
    """An embedding, one block of a transformer, and a dense layer over the mean of the words."""
    sentences = keras.Input((sizes.WORDS,), batch_size=sizes.SENTENCES, dtype="int32")
    words = layers.Embedding(sizes.VOCABULARY, sizes.WIDTH)(sentences)
    normed = layers.LayerNormalization()(words)
    if handwritten:
        attended = HandwrittenAttention()(normed)
    else:
        attended = layers.MultiHeadAttention(sizes.HEADS, key_dim=sizes.WIDTH // sizes.HEADS)(normed, normed)
    words = layers.add([words, layers.Dropout(sizes.DROPPED)(attended)])
    dense = layers.Dense(sizes.INNER)(layers.LayerNormalization()(words))
    dense = layers.Dense(sizes.WIDTH)(layers.Activation("gelu")(dense))
    words = layers.add([words, layers.Dropout(sizes.DROPPED)(dense)])
    return keras.Model(sentences, layers.Dense(sizes.CLASSES)(layers.GlobalAveragePooling1D()(words)))


def recurrent() -> keras.Model:
    """An LSTM, and a dense layer over its last state."""
    series = keras.Input((sizes.MOMENTS, sizes.SIGNALS), batch_size=sizes.SERIES)
    return keras.Model(series, layers.Dense(sizes.CLASSES)(layers.LSTM(sizes.STATE)(series)))


def perceptron(slow: Slow | None) -> keras.Model:
    """Three dense layers."""
    width = sizes.WIDER * sizes.HIDDEN if slow == "kernel" else sizes.HIDDEN
    rows = keras.Input((sizes.COLUMNS,), batch_size=sizes.ROWS)
    hidden = layers.ReLU()(layers.Dense(sizes.HIDDEN)(rows))
    if slow == "transpose":
        hidden = turned(hidden)
    if slow == "loop":
        hidden = ops.stack([ops.tanh(hidden[i]) for i in range(sizes.ROWS)])
    hidden = layers.ReLU()(layers.Dense(width)(hidden))
    return keras.Model(rows, layers.Dense(sizes.CLASSES)(hidden))


def turned(values: tf.Tensor) -> tf.Tensor:
    """Transpose the values of each sample many times, and copy them each time."""
    shape = values.shape
    for _ in range(sizes.TURNS):
        parts = ops.reshape(values, (shape[0], sizes.TURNED, -1))
        values = ops.reshape(ops.transpose(parts, (0, 2, 1)), shape)
    return values


def one_thread() -> None:
    """Make durations of operators comparable: none waits for another's core."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def training(name: ModelName, slow: Slow | None = None) -> Callable[[], float]:
    """Return a function that trains the model for one step and returns the loss."""
    keras.utils.set_random_seed(0)
    model = _model(name, slow)
    inputs, labels = (tf.constant(array) for array in sizes.made_up_batch(name))
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9) if name == "cnn" else keras.optimizers.Adam(0.001)
    model.compile(optimizer=optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def step() -> float:
        return float(model.train_on_batch(inputs, labels))

    return step


def _model(name: ModelName, slow: Slow | None) -> keras.Model:
    makers: dict[ModelName, Callable[[], keras.Model]] = {
        "cnn": lambda: residual_network(slow),
        "attention": lambda: transformer(handwritten=False),
        "handwritten": lambda: transformer(handwritten=True),
        "lstm": recurrent,
        "mlp": lambda: perceptron(slow),
    }
    return makers[name]()
