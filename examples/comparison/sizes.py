"""What the models of all three frameworks agree on: names, sizes, and the made-up batch that they train on."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

ModelName = Literal["cnn", "attention", "handwritten", "lstm", "mlp"]
MODELS: tuple[ModelName, ...] = get_args(ModelName)

Slow = Literal["kernel", "transpose", "loop"]
"""A slow-down put in on purpose: a larger kernel or layer, copied transpositions, a loop over small operators."""
SLOW: tuple[Slow, ...] = get_args(Slow)
SLOWABLE: tuple[ModelName, ...] = ("cnn", "mlp")

CLASSES = 10

PICTURES, SIDE, COLORS, CHANNELS = 32, 16, 3, 16  # cnn
SENTENCES, WORDS, VOCABULARY, WIDTH, HEADS, INNER = 8, 64, 1000, 128, 4, 512  # attention, handwritten
DROPPED = 0.1
SERIES, MOMENTS, SIGNALS, STATE = 16, 32, 64, 128  # lstm
ROWS, COLUMNS, HIDDEN = 128, 784, 512  # mlp
WIDER = 4  # slow kernel: how many times wider the mlp's second layer is
TURNS, TURNED = 20, 16  # slow transpose: how often, and how many rows the matrix has that is turned


def made_up_batch(model: ModelName) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Return inputs and labels; pictures have their channels last."""
    random = np.random.default_rng(0)
    if model in {"attention", "handwritten"}:
        return random.integers(VOCABULARY, size=(SENTENCES, WORDS)).astype(np.int32), _labels(random, SENTENCES)
    shape = {"cnn": (PICTURES, SIDE, SIDE, COLORS), "lstm": (SERIES, MOMENTS, SIGNALS), "mlp": (ROWS, COLUMNS)}[model]
    return random.normal(size=shape).astype(np.float32), _labels(random, shape[0])


def _labels(random: np.random.Generator, count: int) -> npt.NDArray[np.int32]:
    return random.integers(CLASSES, size=count).astype(np.int32)
