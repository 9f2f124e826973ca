"""Where calls of MindSpore's API can be seen: its public functions, methods of tensors, Primitives and Cells.

Left out is what does no work itself: settings, questions that no kernel answers, decorators and the registration of
operators, and functions that only apply others, such as `grad`, `vjp`, `vmap` and `HyperMap`: what they apply is seen.
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
"""What works in `mindspore` itself; nearly all else there is settings."""
_TOOLS = frozenset(
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
"""Modules whose functions take functions or register something."""
_NO_WORK = re.compile(
    r"(destroy|get|init|jit|offload|storage)_\w+|is_(?!nonzero)\w+|set_(?!data)\w+|requires_grad_|new_group"
    r"|dim|ndimension|numel|nelement|stride|storage|untyped_storage|data_ptr|hooks|register_hook|\w+_pipeline\w*"
    r"|__(deepcopy|dir|format|getstate|hash|init|iter|len|new|parameter|reduce|setstate|sizeof)\w*__"
)
"""Settings, questions and the plumbing of objects."""
_COMPUTED = ("T", "mT", "H", "mH")
"""Properties of tensors that run operators."""


@dataclass(frozen=True)
class Places:
    """What can be traced, and the name of each."""

    names: Mapping[Any, str]
    """Of everything public in MindSpore."""
    functions: dict[FunctionType, str] = field(default_factory=dict)
    """Methods that are written in Python as well."""
    attributes: dict[str, str] = field(default_factory=dict)
    """Methods of `Tensor` that are not."""
    cell_calls: list[FunctionType] = field(default_factory=list)
    """The methods by which Cells are called."""

    def class_name(self, kind: type) -> str:
        """Return the name of a class, or of the first public one that it is made from."""
        return next(self.names[parent] for parent in kind.__mro__ if parent in self.names)

    def names_below(self, kind: type) -> Iterator[str]:
        """Yield the names of a class and of all that are made from it."""
        for thing, name in self.names.items():
            if isinstance(thing, type) and issubclass(thing, kind):
                yield name


def is_own(kind: type) -> bool:
    """Say whether a class is MindSpore's, not one of the user's."""
    return kind.__module__.partition(".")[0] == "mindspore"


def find_places() -> Places:
    """Find everything in MindSpore as it is now."""
    places = Places({thing: name for name, thing in public_names("mindspore").paths.items()})
    for function in _public_functions():
        if function in places.names:
            places.functions[function] = places.names[function]
    for owner in (mindspore.Tensor, mindspore.Parameter, mindspore.COOTensor, mindspore.CSRTensor):
        _add_methods(places, owner)
    _add_primitives(places)
    _add_cells(places)
    return places


def _public_functions() -> Iterator[FunctionType]:
    modules = [sys.modules[name] for name in _NAMESPACES if name in sys.modules]
    for name, value in (item for module in modules for item in vars(module).items()):
        if isinstance(value, FunctionType) and _works(name) and value.__module__ not in _TOOLS:
            yield value
    for value in (getattr(mindspore, name, None) for name in _TOP_LEVEL):
        if isinstance(value, FunctionType):
            yield value


def _add_methods(places: Places, owner: type) -> None:
    for attribute in filter(_works, dir(owner)):
        name, value = f"{places.names[owner]}.{attribute}", inspect.getattr_static(owner, attribute)
        if isinstance(value, property):
            value = value.fget if attribute in _COMPUTED else None
        elif isinstance(value, staticmethod):
            value = value.__func__
        if isinstance(getattr(value, "__wrapped__", value), MethodDescriptorType):  # wrapped by another tracer
            if owner is mindspore.Tensor:
                places.attributes[attribute] = name
        elif isinstance(value, FunctionType):
            places.functions.setdefault(value, name)


def _add_primitives(places: Places) -> None:
    """Add the calls of Primitives that have a method of their own for it."""
    for kind in {**vars(ops), **vars(ops.operations)}.values():
        if isinstance(kind, type) and issubclass(kind, ops.Primitive) and kind is not ops.Primitive:
            call = vars(kind).get("__call__")
            if isinstance(call, FunctionType) and kind in places.names:
                places.functions.setdefault(call, places.names[kind])


def _add_cells(places: Places) -> None:
    """Add the calls of Cells. In one that goes on to the general one the Cell is seen there, and the call here."""
    for kind in [nn.Cell, *_below(nn.Cell)]:
        call = unhooked(vars(kind).get("__call__"))
        if not isinstance(call, FunctionType) or not is_own(kind):
            continue
        if "__class__" in call.__code__.co_freevars:  # it uses super()
            places.functions[call] = places.class_name(kind)
        else:
            places.cell_calls.append(call)


def unhooked(function: Any) -> Any:
    """Return what a function calls that this package put in its place, to see steps end; None if that is no other."""
    while str(getattr(function, "__globals__", {}).get("__name__")).startswith("unified_profiler"):
        function = getattr(function, "__wrapped__", None)
    return function


def _below(kind: type) -> set[type]:
    below: list[type] = kind.__subclasses__()
    return set(below).union(*map(_below, below))


def _works(attribute: str) -> bool:
    is_private = attribute.startswith("_") and not attribute.startswith("__")
    return not is_private and not _NO_WORK.fullmatch(attribute)
