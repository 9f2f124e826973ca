"""A small image classifier with convolutions and attention, trained with Keras on made-up pictures.

No line of profiling in it. Profile it unmodified:  unified-profiler run examples/train_tensorflow.py -- --steps 8
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow tells at length which processors it was built for

import keras
import numpy as np
import numpy.typing as npt
from keras import layers

CLASSES = 10


def classifier(width: int = 32) -> keras.Model:
    """Convolutions make the picture small; attention lets its parts look at one another."""
    pictures = keras.Input((32, 32, 3))
    parts = pictures
    for _ in range(2):
        parts = layers.Conv2D(width, 3, strides=2, padding="same")(parts)
        parts = layers.BatchNormalization()(parts)
        parts = layers.ReLU()(parts)
    parts = layers.Reshape((-1, width))(parts)
    attended = layers.MultiHeadAttention(num_heads=4, key_dim=width // 4)(parts, parts)
    together = layers.GlobalAveragePooling1D()(layers.add([parts, attended]))
    return keras.Model(pictures, layers.Dense(CLASSES)(together))


def made_up_pictures(count: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    """Return pictures whose brightness tells their class, so that there is something to learn."""
    random = np.random.default_rng(0)
    labels = random.integers(CLASSES, size=count).astype(np.int32)
    pictures = random.normal(size=(count, 32, 32, 3)) + labels[:, None, None, None] / CLASSES
    return pictures.astype(np.float32), labels


def main() -> None:
    """Train for some steps and print the loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    arguments = parser.parse_args()

    keras.utils.set_random_seed(0)
    pictures, labels = made_up_pictures(arguments.steps * arguments.batch_size)
    model = classifier()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.AdamW(3e-3), loss=loss)
    history = model.fit(pictures, labels, batch_size=arguments.batch_size, verbose=0)
    print(f"{arguments.steps} steps: loss {history.history['loss'][-1]:.3f}")


if __name__ == "__main__":
    main()
