"""Finds the MindSpore calls to trace: public functions, tensor methods, Primitives and Cells.

Left out is what runs no operators itself: settings, queries that need no kernel, decorators, the registration of
operators, and functions that only apply others, such as `grad`, `vjp`, `vmap` and `HyperMap`; the functions that they
apply are traced.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType, MethodDescriptorType
from typing import Any

import mindspore
from mindspore import nn, ops

from unified_profiler.model.api_names import public_names
from unified_profiler_mindspore.record.live_classes import subclasses

_NAMESPACES = (
    "mindspore.ops",
    "mindspore.mint",
    "mindspore.mint.nn.functional",
    "mindspore.mint.linalg",
    "mindspore.mint.special",
    "mindspore.mint.distributed",
    "mindspore.numpy",
    "mindspore.numpy.fft",
    "mindspore.scipy.fft",
    "mindspore.scipy.linalg",
)
_TOP_LEVEL = (
    *("tensor", "from_numpy", "from_dlpack", "to_dlpack", "swap_tensors", "recompute", "reshard", "synchronize"),
    *("load", "load_checkpoint", "load_param_into_net", "save_checkpoint", "export"),
)
"""Functions of `mindspore` itself that do work; nearly all others there are settings."""
_EXCLUDED_MODULES = frozenset(
    {
        "mindspore.graph._utils.check_jit_forbidden_api",
        "mindspore.ops.composite.base",
        "mindspore.ops.function.grad.grad_func",
        "mindspore.ops.function.vmap_func",
        "mindspore.ops.op_info_register",
        "mindspore.ops.operations._ms_kernel",
        "mindspore.ops.primitive",
        "mindspore.ops.vm_impl_registry",
    }
)
"""Modules whose functions take functions or register operators."""
_EXCLUDED_NAMES = re.compile(
    r"(destroy|get|init|jit|offload|storage)_\w+|is_(?!nonzero)\w+|set_(?!data)\w+|requires_grad_|new_group"
    r"|dim|ndimension|numel|nelement|stride|storage|untyped_storage|data_ptr|hooks|register_hook|\w+_pipeline\w*"
    r"|__(deepcopy|dir|format|getstate|hash|init|iter|len|new|parameter|reduce|setstate|sizeof)\w*__"
)
"""Settings, queries and Python's object protocol."""
_COMPUTED_PROPERTIES = ("T", "mT", "H", "mH")
"""Properties of tensors that run operators."""


@dataclass(frozen=True)
class ApiTargets:
    """The functions, methods and classes that can be traced, with their public names."""

    names: Mapping[Any, str]
    """Public name of everything public in MindSpore."""
    functions: dict[FunctionType, str] = field(default_factory=dict)
    """Functions and methods written in Python."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Methods of `Tensor` that are not written in Python."""
    cell_calls: list[FunctionType] = field(default_factory=list)
    """The `__call__` methods of Cells."""

    def class_name(self, cls: type) -> str:
        """Return the name of a class, or of its nearest public base."""
        return next(self.names[base] for base in cls.__mro__ if base in self.names)

    def subclass_names(self, cls: type) -> Iterator[str]:
        """Yield the names of a class and of its public subclasses."""
        for value, name in self.names.items():
            if isinstance(value, type) and issubclass(value, cls):
                yield name


def is_mindspore_class(cls: type) -> bool:
    """Return whether a class is defined by MindSpore, not by the user."""
    return cls.__module__.partition(".")[0] == "mindspore"


def find_targets() -> ApiTargets:
    """Find everything that can be traced in MindSpore as it is now."""
    targets = ApiTargets({value: name for name, value in public_names("mindspore").paths.items()})
    for function in _public_functions():
        if function in targets.names:
            targets.functions[function] = targets.names[function]
    for owner in (mindspore.Tensor, mindspore.Parameter, mindspore.COOTensor, mindspore.CSRTensor):
        _add_methods(targets, owner)
    _add_primitives(targets)
    _add_cells(targets)
    return targets


def _public_functions() -> Iterator[FunctionType]:
    modules = [sys.modules[name] for name in _NAMESPACES if name in sys.modules]
    for name, value in (item for module in modules for item in vars(module).items()):
        if isinstance(value, FunctionType) and _is_traced(name) and value.__module__ not in _EXCLUDED_MODULES:
            yield value
    for value in (getattr(mindspore, name, None) for name in _TOP_LEVEL):
        if isinstance(value, FunctionType):
            yield value


def _add_methods(targets: ApiTargets, owner: type) -> None:
    for attribute in filter(_is_traced, dir(owner)):
        name, value = f"{targets.names[owner]}.{attribute}", inspect.getattr_static(owner, attribute)
        if isinstance(value, property):
            value = value.fget if attribute in _COMPUTED_PROPERTIES else None
        elif isinstance(value, staticmethod):
            value = value.__func__
        if isinstance(getattr(value, "__wrapped__", value), MethodDescriptorType):  # wrapped by another tracer
            if owner is mindspore.Tensor:
                targets.attributes[attribute] = name
        elif isinstance(value, FunctionType):
            targets.functions.setdefault(value, name)


def _add_primitives(targets: ApiTargets) -> None:
    """Add the Primitives that define their own `__call__`."""
    for value in {**vars(ops), **vars(ops.operations)}.values():
        if isinstance(value, type) and issubclass(value, ops.Primitive) and value is not ops.Primitive:
            call = vars(value).get("__call__")
            if isinstance(call, FunctionType) and value in targets.names:
                targets.functions.setdefault(call, targets.names[value])


def _add_cells(targets: ApiTargets) -> None:
    """Add the `__call__` of Cells; one that calls super() is a function here, since the Cell is recorded in super()."""
    for cell_class in {nn.Cell, *subclasses(nn.Cell)}:
        call = unwrap_step_hooks(vars(cell_class).get("__call__"))
        if not isinstance(call, FunctionType) or not is_mindspore_class(cell_class):
            continue
        if "__class__" in call.__code__.co_freevars:  # it uses super()
            targets.functions[call] = targets.class_name(cell_class)
        else:
            targets.cell_calls.append(call)


def unwrap_step_hooks(function: Any) -> Any:
    """Return the function beneath the wrappers of this package that detect steps; None if it wraps no function."""
    while str(getattr(function, "__globals__", {}).get("__name__")).startswith("unified_profiler"):
        function = getattr(function, "__wrapped__", None)
    return function


def _is_traced(attribute: str) -> bool:
    is_private = attribute.startswith("_") and not attribute.startswith("__")
    return not is_private and not _EXCLUDED_NAMES.fullmatch(attribute)
