"""What is said of TensorFlow's and Keras's values in the arguments of calls: `Tensor[4,16] float32 cpu:0`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from unified_profiler.spi.xplane.lanes import device_name

_MOST_KNOWN = 1 << 14

Say = Callable[[Any], str]


def value_texts() -> Mapping[type, Say]:
    """Return what to say, by class. Nothing is computed for it, and nothing of a value is kept but its text."""
    keras = sys.modules.get("keras")
    texts: dict[type, Say] = {
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
    eager = _eager_class()
    if eager is not None:
        texts[eager] = _eager(eager)
    if keras is not None and hasattr(keras, "KerasTensor"):
        texts |= {keras.KerasTensor: _of_keras("KerasTensor"), keras.Variable: _of_keras("Variable")}
    return texts


def _eager_class() -> type | None:
    return getattr(sys.modules.get("tensorflow.python.framework.ops"), "EagerTensor", None)


def _eager(kind: Any) -> Say:
    known: dict[Any, str] = {}
    shape_of, type_of = kind._shape_tuple, kind._datatype_enum

    def text(tensor: Any) -> str:
        key = (shape_of(tensor), type_of(tensor), tensor.device)
        found = known.get(key)
        if found is None:
            found = f"Tensor[{_sizes(key[0])}] {tensor.dtype.name} {_device(key[2])}"
            if len(known) < _MOST_KNOWN:
                known[key] = found
        return found

    return text


def _symbolic(name: str) -> Say:
    return lambda tensor: f"{name}[{_sizes(tensor.shape)}] {tensor.dtype.name}"


def _variable(variable: Any) -> str:
    return f"Variable[{_sizes(variable.shape)}] {variable.dtype.name} {_device(variable.device)}".rstrip()


def _of_keras(name: str) -> Say:
    return lambda value: f"{name}[{_sizes(value.shape)}] {value.dtype}"


def _sizes(shape: Iterable[int | None] | Any) -> str:
    """Return the sizes of a shape; not all need be known, nor how many there are."""
    if getattr(shape, "rank", 0) is None:
        return "..."
    return ",".join("?" if size is None else str(size) for size in shape)


def _device(path: str) -> str:
    """Return the short name of a device: `cpu:0` for `/job:localhost/replica:0/task:0/device:CPU:0`."""
    kind, _, number = path.rpartition("device:")[2].partition(":")
    return device_name(kind, int(number)) if number.isdecimal() else kind.lower()
