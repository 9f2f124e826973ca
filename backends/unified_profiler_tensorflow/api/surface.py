"""How calls of TensorFlow and Keras are seen: nearly all of their API is Python, whose code is watched from within.

What is watched, and by which names it goes, is in `api_surface_functions` and `api_surface_classes`. Keras's layers are
called by one method; those of Keras 3 and of tf_keras are both seen, if they are imported.
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
    named_by_object,
    names_by_object,
)
from unified_profiler_tensorflow.api.functions import PACKAGES, functions, innermost, public_things
from unified_profiler_tensorflow.api.values import value_texts

_LAYERS = ("keras.src.layers.layer", "tf_keras.src.engine.base_layer", "tf_keras.src.engine.base_layer_v1")


class TensorFlowSurface:
    """The surface of TensorFlow and Keras.

    A function of the user's that TensorFlow traces runs as Python while it is traced, and only then: the calls it makes
    are recorded as they happen, with tensors that have no device, within the call `tf.function` that had it traced.
    Further calls of it are calls of `tf.function` and nothing else.
    """

    packages = frozenset(PACKAGES)
    machinery: Mapping[str, int] = {
        "keras.src.utils.traceback_utils": 1,
        "tf_keras.src.utils.traceback_utils": 1,
        "tensorflow.python.autograph.impl.api": 1,
        "tensorflow.python.ops.weak_tensor_ops": 1,
    }

    def names(self) -> Iterable[str]:
        """Return the names of everything that can be traced."""
        watched = _watched()
        layers = (name for name, thing in public_things() if _is_layer(thing))
        return [*watched.functions.values(), *(method.name for method in watched.methods), *names_by_object(), *layers]

    def install(self, tracer: ApiTracer) -> None:
        """Watch all of it."""
        for layer in _layer_classes():
            tracer.module_call(innermost(vars(layer)["__call__"]))
        if not tracer.wants_calls:
            return
        watched = _watched()
        for function, name in watched.functions.items():
            tracer.function(function, name)
        for method in watched.methods:
            if method.function is None:
                tracer.attribute(method.owner, method.attribute, method.name)
            else:
                tracer.function(method.function, method.name)
        for function, attribute in watched.named_by_object.items():
            tracer.method(function, functools.partial(_object_name, attribute))

    def value_texts(self) -> Mapping[type, Callable[[Any], str]]:
        """Return what to say of tensors and the like."""
        return value_texts()

    def module_name(self, module: Any) -> str | None:
        """Return the name of a layer's class if it is Keras's own."""
        kind: type = type(module)
        return _layer_name(kind) if kind.__module__.partition(".")[0] in self.packages else None

    def submodules(self, module: Any) -> Iterable[tuple[str, Any]]:
        """Return all layers below a layer or model; a path is made of the names of layers."""
        return _below(module, "", {id(module)})

    def synchronize(self) -> None:
        """Wait for accelerators, if there are any; on the processor a call has ended when it returns."""
        if _has_accelerator() and tf.executing_eagerly():
            tf.test.experimental.sync_devices()


class _Watched(NamedTuple):
    """Everything that can be watched."""

    functions: Mapping[FunctionType, str]
    methods: tuple[Method, ...]
    named_by_object: Mapping[FunctionType, str]


@functools.lru_cache(maxsize=1)
def _watched_of(module_count: int) -> _Watched:
    del module_count  # more modules were imported: look again
    found = functions()
    return _Watched(found, tuple(methods(found)), dict(named_by_object()))


def _watched() -> _Watched:
    return _watched_of(len(sys.modules))


@functools.cache
def _layer_name(kind: type) -> str | None:
    return class_name(kind, among=tuple(_layer_classes()))


def _object_name(attribute: str, thing: Any) -> str:
    return method_name(class_name(type(thing)) or type(thing).__name__, attribute)


def _layer_classes() -> Iterator[type]:
    for name in _LAYERS:
        layer = getattr(sys.modules.get(name), "Layer", None)
        if isinstance(layer, type) and "__call__" in vars(layer):
            yield layer


def _is_layer(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, tuple(_layer_classes()))


def _below(layer: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    for child in layer._flatten_layers(include_self=False, recursive=False):
        if id(child) not in seen:
            name = f"{path}{child.name}"
            yield name, child
            yield from _below(child, f"{name}.", seen | {id(child)})


@functools.cache
def _has_accelerator() -> bool:
    return any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
