"""Registers the API calls of TensorFlow and Keras with the API tracer.

Nearly all of their API is Python code. The functions and methods to trace are listed in `functions.py` and
`classes.py`. Layers are called through one method; both Keras 3 and tf_keras are traced, if they are imported.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple

import tensorflow as tf

from unified_profiler.spi import ApiTracer
from unified_profiler_tensorflow.api.classes import (
    Method,
    class_name,
    method_name,
    methods,
    shared_method_names,
    shared_methods,
)
from unified_profiler_tensorflow.api.functions import PACKAGES, functions, public_callables, unwrap
from unified_profiler_tensorflow.api.values import value_texts

_LAYERS = ("keras.src.layers.layer", "tf_keras.src.engine.base_layer", "tf_keras.src.engine.base_layer_v1")


class TensorFlowSurface:
    """The traceable API of TensorFlow and Keras.

    A user's `tf.function` runs as Python only while TensorFlow traces it into a graph: the calls it makes are then
    recorded, with tensors that have no device, inside the call of `tf.function` that caused the tracing. Later calls
    are recorded as calls of `tf.function` only.
    """

    packages = frozenset(PACKAGES)
    machinery: Mapping[str, int] = {
        "keras.src.utils.traceback_utils": 1,
        "tf_keras.src.utils.traceback_utils": 1,
        "tensorflow.python.autograph.impl.api": 1,
        "tensorflow.python.ops.weak_tensor_ops": 1,
    }

    def names(self) -> Iterable[str]:
        """Return the names of all functions, methods and layers that can be traced."""
        traced = _traced_api()
        bases = tuple(_layer_classes())
        layers = (name for name, value in public_callables() if isinstance(value, type) and issubclass(value, bases))
        method_names = (method.name for method in traced.methods)
        return [*traced.functions.values(), *method_names, *shared_method_names(), *layers]

    def install(self, tracer: ApiTracer) -> None:
        """Trace layers and, if calls are recorded, all functions and methods."""
        for layer in _layer_classes():
            tracer.module_call(unwrap(vars(layer)["__call__"]))
        if not tracer.wants_calls:
            return
        traced = _traced_api()
        for function, name in traced.functions.items():
            tracer.function(function, name)
        for method in traced.methods:
            if method.function is None:
                tracer.attribute(method.owner, method.attribute, method.name)
            else:
                tracer.function(method.function, method.name)
        for function, attribute in traced.shared_methods.items():
            tracer.method(function, functools.partial(_shared_method_name, attribute))

    def value_texts(self) -> Mapping[type, Callable[[Any], str]]:
        """Return the functions that describe tensors and other values, by class."""
        return value_texts()

    def module_name(self, module: Any) -> str | None:
        """Return the name of a layer's class if Keras defines it."""
        kind: type = type(module)
        return _layer_name(kind) if kind.__module__.partition(".")[0] in self.packages else None

    def submodules(self, module: Any) -> Iterable[tuple[str, Any]]:
        """Return all layers below a layer or model; paths consist of layer names."""
        return _sublayers(module, "", {id(module)})

    def synchronize(self) -> None:
        """Wait for accelerators, if there are any; on the CPU a call has finished when it returns."""
        if _has_accelerator() and tf.executing_eagerly():
            tf.test.experimental.sync_devices()


class _TracedApi(NamedTuple):
    functions: Mapping[FunctionType, str]
    methods: tuple[Method, ...]
    shared_methods: Mapping[FunctionType, str]


def _traced_api() -> _TracedApi:
    return _find_traced_api(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _find_traced_api(module_count: int) -> _TracedApi:
    del module_count  # part of the cache key: search again after further imports
    names = functions()
    return _TracedApi(names, tuple(methods(names)), dict(shared_methods()))


@functools.cache
def _layer_name(kind: type) -> str | None:
    return class_name(kind, among=tuple(_layer_classes()))


def _shared_method_name(attribute: str, instance: Any) -> str:
    return method_name(class_name(type(instance)) or type(instance).__name__, attribute)


def _layer_classes() -> Iterator[type]:
    for name in _LAYERS:
        layer = getattr(sys.modules.get(name), "Layer", None)
        if isinstance(layer, type) and "__call__" in vars(layer):
            yield layer


def _sublayers(layer: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    for child in layer._flatten_layers(include_self=False, recursive=False):
        if id(child) not in seen:
            name = f"{path}{child.name}"
            yield name, child
            yield from _sublayers(child, f"{name}.", seen | {id(child)})


@functools.cache
def _has_accelerator() -> bool:
    return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
