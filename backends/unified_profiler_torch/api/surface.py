"""Traces calls of PyTorch's public API with torch's own hooks for functions and modules.

Optimizers, and functions that the hooks do not receive, are traced in their own code.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import FunctionType
from typing import Any, cast

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from unified_profiler.model.api_names import api_name, public_names
from unified_profiler.spi import ApiTracer
from unified_profiler_torch.api.functions import trace_functions

_MAX_SHAPES = 1 << 12

NOT_IN_MODES: Mapping[str, tuple[str, ...]] = {
    "torch.distributed": (
        *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all"),
        *("all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object", "irecv"),
        *("isend", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "send"),
    ),
    "torch.nn.utils": ("clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"),
    "torch.nn.utils.rnn": ("pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence"),
    "torch.utils.checkpoint": ("checkpoint", "checkpoint_sequential"),
}
"""Public functions that compute, but of which function modes receive only the inner calls, by module."""


class TorchSurface:
    """The traceable API of PyTorch."""

    packages = frozenset({"torch"})
    machinery: Mapping[str, int] = {
        "torch.overrides": 2,
        "torch.nn.modules.module": 1,
        "torch.optim.optimizer": 1,
        "torch.utils._contextlib": 1,
        "torch._jit_internal": 1,
    }

    def names(self) -> Iterable[str]:
        """Return the names of all functions, classes and methods that can be traced."""
        return [*public_names("torch").paths, *(f"torch.Tensor.{name}" for name in dir(torch.Tensor))]

    def install(self, tracer: ApiTracer) -> None:
        """Install the hooks."""
        public_names("torch")  # cached now, not during a call
        _trace_modules(tracer)
        if tracer.wants_calls:
            _trace_optimizers(tracer)
            _trace_remaining(tracer)
            trace_functions(tracer)

    def value_texts(self) -> Mapping[type, Callable[[Any], str]]:
        """Return functions that describe tensors, sizes, types and devices, by class."""
        cache: dict[Any, dict[Any, str]] = {}

        def tensor(value: torch.Tensor) -> str:
            try:
                return cache[type(value), value.dtype, value.device][value.shape]
            except KeyError:
                texts = cache.setdefault((type(value), value.dtype, value.device), {})
                if len(texts) > _MAX_SHAPES:
                    texts.clear()
                shape = ",".join(str(size) for size in value.shape)
                text = f"{type(value).__name__}[{shape}] {str(value.dtype)[6:]} {value.device}"
                return texts.setdefault(value.shape, text)

        return {torch.Tensor: tensor, torch.Size: lambda size: str(list(size)), torch.dtype: str, torch.device: str}

    def module_name(self, module: Any) -> str | None:
        """Return the name of a module's class, None if it is not torch's own."""
        cls: type = type(module)
        return _class_name(cls)

    def submodules(self, module: Any) -> Iterable[tuple[str, Any]]:
        """Return all submodules with their paths; Keras layers have their own names."""
        if "keras.src.backend.torch.layer" in sys.modules:
            return _keras_submodules(module, "", {id(module)})
        submodules: Iterable[tuple[str, Any]] = module.named_modules(remove_duplicate=False)
        return submodules

    def synchronize(self) -> None:
        """Wait for the accelerator, if one is in use."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        elif hasattr(torch, "accelerator") and torch.accelerator.is_available():
            torch.accelerator.synchronize()


def _keras_submodules(module: Any, path: str, ancestors: set[int]) -> Iterator[tuple[str, Any]]:
    for name, child in _children(module).items():
        if id(child) not in ancestors:
            yield f"{path}{name}", child
            yield from _keras_submodules(child, f"{path}{name}.", ancestors | {id(child)})


def _children(module: Any) -> dict[str, Any]:
    """Return the direct submodules by name; Keras keeps the layers of a model in its own lists."""
    layer = sys.modules["keras.src.backend.torch.layer"].TorchLayer
    if not isinstance(module, layer):
        return dict(module.named_children())
    layers = {child.name: child for child in module._flatten_layers(include_self=False, recursive=False)}
    return layers | {name: child for name, child in module.named_children() if not isinstance(child, layer)}


@functools.cache
def _class_name(cls: type) -> str | None:
    """Return the public name of a torch class, that of its nearest public base if it is private, else None."""
    if cls.__module__.partition(".")[0] != "torch":
        return None
    if cls.__name__ == "OptimizedModule":
        return "torch.compile"
    names = (api_name(parent) for parent in cls.__mro__)
    return next(name for name in names if "._" not in name and "<locals>" not in name)


def _trace_modules(tracer: ApiTracer) -> None:
    compiling = torch.compiler.is_compiling

    def before(module: Any, args: tuple[Any, ...]) -> None:
        if not compiling():
            tracer.module_begins(module, args, {})

    def after(module: Any, _args: Any, _output: Any) -> None:
        if not compiling():
            tracer.module_ends(module)

    for handle in (register_module_forward_pre_hook(before), register_module_forward_hook(after, always_call=True)):
        _assign_stable_key(handle)
        tracer.undo_at_end(handle.remove)
    tracer.undo_at_end(_suppress_hook_warning())


def _suppress_hook_warning() -> Callable[[], None]:
    """Suppress torch's warning about global hooks, which are not the user's; return a function that undoes it."""
    message = re.compile(re.escape("Using `torch.compile(module)` when there are global hooks"))
    entry = ("ignore", message, UserWarning, None, 0)
    filters = cast("list[Any]", warnings.filters)
    filters.insert(0, entry)

    def undo() -> None:
        with suppress(ValueError):
            filters.remove(entry)

    return undo


def _assign_stable_key(handle: Any) -> None:
    """Register a hook under a key that is the same every time: a compiled function is recompiled for each new key."""
    registries = [reference() for reference in (handle.hooks_dict_ref, *handle.extra_dict_ref)]
    key = next(key for key in itertools.count(-1, -1) if key not in registries[0])
    for registry in registries:
        registry[key] = registry.pop(handle.id)
    handle.id = key


def _trace_optimizers(tracer: ApiTracer) -> None:
    """Trace optimizers by their own methods: their hooks must not be added or removed while one of them ends a step."""

    def name(optimizer: Any) -> str:
        cls: type = type(optimizer)
        return f"{_class_name(cls) or 'torch.optim.Optimizer'}.step"

    for cls in _subclasses(torch.optim.Optimizer):
        if isinstance(step := vars(cls).get("step"), FunctionType):
            tracer.method(step, name)
    tracer.function(torch.optim.Optimizer.zero_grad, "torch.optim.Optimizer.zero_grad")


def _subclasses(cls: Any) -> Iterator[type]:
    subclass: type
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _trace_remaining(tracer: ApiTracer) -> None:
    """Trace the public functions that function modes do not receive, of modules that are imported."""
    modules = [(vars(sys.modules[name]), names) for name, names in NOT_IN_MODES.items() if name in sys.modules]
    functions = [namespace.get(name) for namespace, names in modules for name in names]
    schedulers = [cls for cls in vars(torch.optim.lr_scheduler).values() if isinstance(cls, type)]
    functions += [vars(cls).get("step") for cls in schedulers]
    for function in dict.fromkeys(functions):
        if isinstance(function, FunctionType):
            tracer.function(function, api_name(function))
