"""Describes TensorFlow's and Keras's values in the arguments of traced calls: `Tensor[4,16] float32 cpu:0`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from unified_profiler.spi.xplane.lanes import device_name

_MAX_CACHED = 1 << 14

Describe = Callable[[Any], str]


def value_texts() -> Mapping[type, Describe]:
    """Return a description function for each class. They compute no values and keep only the text."""
    keras = sys.modules.get("keras")
    texts: dict[type, Describe] = {
        tf.Tensor: _symbolic("Tensor"),
        tf.RaggedTensor: _symbolic("RaggedTensor"),
        tf.SparseTensor: _symbolic("SparseTensor"),
        tf.Variable: _variable,
        tf.TensorShape: lambda shape: f"[{_sizes(shape)}]",
        tf.DType: lambda dtype: str(dtype.name),
        tf.data.Dataset: lambda _: "Dataset",
        tf.types.experimental.PolymorphicFunction: lambda function: getattr(function, "__name__", "function"),
        type: lambda kind: kind.__name__,
    }
    eager = getattr(sys.modules.get("tensorflow.python.framework.ops"), "EagerTensor", None)
    if eager is not None:
        texts[eager] = _eager(eager)
    if keras is not None and hasattr(keras, "KerasTensor"):
        texts |= {keras.KerasTensor: _keras_value("KerasTensor"), keras.Variable: _keras_value("Variable")}
    return texts


def _eager(kind: Any) -> Describe:
    cached: dict[Any, str] = {}
    shape_of, type_of = kind._shape_tuple, kind._datatype_enum

    def describe(tensor: Any) -> str:
        key = (shape_of(tensor), type_of(tensor), tensor.device)
        text = cached.get(key)
        if text is None:
            text = f"Tensor[{_sizes(key[0])}] {tensor.dtype.name} {_device(key[2])}"
            if len(cached) < _MAX_CACHED:
                cached[key] = text
        return text

    return describe


def _symbolic(name: str) -> Describe:
    return lambda tensor: f"{name}[{_sizes(tensor.shape)}] {tensor.dtype.name}"


def _variable(variable: Any) -> str:
    return f"Variable[{_sizes(variable.shape)}] {variable.dtype.name} {_device(variable.device)}".rstrip()


def _keras_value(name: str) -> Describe:
    return lambda value: f"{name}[{_sizes(value.shape)}] {value.dtype}"


def _sizes(shape: Iterable[int | None] | Any) -> str:
    """Return the sizes of a shape; both single sizes and the rank may be unknown."""
    if getattr(shape, "rank", 0) is None:
        return "..."
    return ",".join("?" if size is None else str(size) for size in shape)


def _device(path: str) -> str:
    """Return the short name of a device: `cpu:0` for `/job:localhost/replica:0/task:0/device:CPU:0`."""
    kind, _, number = path.rpartition("device:")[2].partition(":")
    return device_name(kind, int(number)) if number.isdecimal() else kind.lower()
