"""How calls of PyTorch's API are seen: by its own hooks for functions, modules and optimizers.

What they do not see, and what they must not be used for, is watched in its own code.
"""

from __future__ import annotations

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

_MOST_SHAPES = 1 << 12

UNSEEN: Mapping[str, tuple[str, ...]] = {
    "torch.distributed": (
        *("all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all"),
        *("all_to_all_single", "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object", "irecv"),
        *("isend", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "send"),
    ),
    "torch.nn.utils": ("clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "vector_to_parameters"),
    "torch.nn.utils.rnn": ("pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence"),
    "torch.utils.checkpoint": ("checkpoint", "checkpoint_sequential"),
}
"""Public functions that compute, but of which function modes see the inside only."""


class TorchSurface:
    """The surface of PyTorch."""

    packages = frozenset({"torch"})
    machinery: Mapping[str, int] = {
        "torch.overrides": 2,
        "torch.nn.modules.module": 1,
        "torch.optim.optimizer": 1,
        "torch.utils._contextlib": 1,
        "torch._jit_internal": 1,
    }

    def names(self) -> Iterable[str]:
        """Return the names of everything that can be traced."""
        names = public_names("torch")
        tensor = (f"torch.Tensor.{name}" for name in dir(torch.Tensor))
        return [*names.paths, *tensor]

    def install(self, tracer: ApiTracer) -> None:
        """Put the hooks in."""
        public_names("torch")  # now and not within a call
        _trace_modules(tracer)
        if tracer.wants_calls:
            _trace_optimizers(tracer)
            _trace_unseen(tracer)
            trace_functions(tracer)

    def value_texts(self) -> Mapping[type, Callable[[Any], str]]:
        """Return what to say of tensors and the like."""
        known: dict[Any, dict[Any, str]] = {}

        def tensor(value: torch.Tensor) -> str:
            try:
                return known[type(value), value.dtype, value.device][value.shape]
            except KeyError:
                texts = known.setdefault((type(value), value.dtype, value.device), {})
                if len(texts) > _MOST_SHAPES:
                    texts.clear()
                shape = ",".join(str(size) for size in value.shape)
                text = f"{type(value).__name__}[{shape}] {str(value.dtype)[6:]} {value.device}"
                return texts.setdefault(value.shape, text)

        return {torch.Tensor: tensor, torch.Size: lambda size: str(list(size)), torch.dtype: str, torch.device: str}

    def module_name(self, module: Any) -> str | None:
        """Return the name of a module's class if it is torch's own."""
        return _class_names[type(module)]

    def submodules(self, module: Any) -> Iterable[tuple[str, Any]]:
        """Return all modules below a module; layers of Keras go by their names."""
        if "keras.src.backend.torch.layer" in sys.modules:
            return _below(module, "", {id(module)})
        found: Iterable[tuple[str, Any]] = module.named_modules(remove_duplicate=False)
        return found

    def synchronize(self) -> None:
        """Wait for the accelerator, if one is in use."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        elif hasattr(torch, "accelerator") and torch.accelerator.is_available():
            torch.accelerator.synchronize()


def _below(module: Any, path: str, around: set[int]) -> Iterator[tuple[str, Any]]:
    for name, child in _children(module).items():
        if id(child) not in around:
            yield f"{path}{name}", child
            yield from _below(child, f"{path}{name}.", around | {id(child)})


def _children(module: Any) -> dict[str, Any]:
    """Return the modules directly in a module by name; Keras keeps the layers of a model in lists of its own."""
    layer = sys.modules["keras.src.backend.torch.layer"].TorchLayer
    if not isinstance(module, layer):
        return dict(module.named_children())
    layers = {child.name: child for child in module._flatten_layers(include_self=False, recursive=False)}
    return layers | {name: child for name, child in module.named_children() if not isinstance(child, layer)}


class _ClassNames(dict[type, "str | None"]):
    """Names of modules' classes in the API, None for those of the user's."""

    def __missing__(self, kind: type) -> str | None:
        """Find out the name of a class."""
        self[kind] = name = _class_name(kind)
        return name


_class_names = _ClassNames()


def _class_name(kind: type) -> str | None:
    """Return the name of a class of torch; that of a private one is that of what it is derived from."""
    if kind.__module__.partition(".")[0] != "torch":
        return None
    if kind.__name__ == "OptimizedModule":
        return "torch.compile"
    names = (api_name(parent) for parent in kind.__mro__)
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
        _keep_key(handle)
        tracer.undo_at_end(handle.remove)
    tracer.undo_at_end(_without_warning())


def _without_warning() -> Callable[[], None]:
    """Keep torch from warning the user of hooks that are not the user's; return the undoing."""
    message = re.compile(re.escape("Using `torch.compile(module)` when there are global hooks"))
    entry = ("ignore", message, UserWarning, None, 0)
    filters = cast("list[Any]", warnings.filters)
    filters.insert(0, entry)

    def undo() -> None:
        with suppress(ValueError):
            filters.remove(entry)

    return undo


def _keep_key(handle: Any) -> None:
    """Put a hook under a key that it always has: a compiled function is compiled anew for each one it has not seen."""
    hooks = [found() for found in (handle.hooks_dict_ref, *handle.extra_dict_ref)]
    key = next(number for number in itertools.count(-1, -1) if number not in hooks[0])
    for named in hooks:
        named[key] = named.pop(handle.id)
    handle.id = key


def _trace_optimizers(tracer: ApiTracer) -> None:
    """Trace optimizers by their own methods: hooks of theirs may not come or go while one of them ends a step."""

    def name(optimizer: Any) -> str:
        return f"{_class_names[type(optimizer)] or 'torch.optim.Optimizer'}.step"

    for kind in _subclasses(torch.optim.Optimizer):
        if isinstance(step := vars(kind).get("step"), FunctionType):
            tracer.method(step, name)
    tracer.function(torch.optim.Optimizer.zero_grad, "torch.optim.Optimizer.zero_grad")


def _subclasses(kind: Any) -> Iterator[type]:
    below: type
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


def _trace_unseen(tracer: ApiTracer) -> None:
    """Trace the public functions that function modes do not see, as far as their modules are imported."""
    found = [vars(sys.modules[home]).get(name) for home in UNSEEN if home in sys.modules for name in UNSEEN[home]]
    schedulers = [kind for kind in vars(torch.optim.lr_scheduler).values() if isinstance(kind, type)]
    found += [vars(kind)["step"] for kind in schedulers if "step" in vars(kind)]
    for function in dict.fromkeys(found):
        if isinstance(function, FunctionType):
            tracer.function(function, api_name(function))
