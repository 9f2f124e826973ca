"""How calls of MindSpore's API are seen: the code of its functions is watched, wherever they were imported to.

A backward pass is a call of `mindspore.grad`, whatever made the gradient function: the forward pass before it is seen
by its own calls. A call of a compiled function is one of `mindspore.jit`, whatever is in it. In graph mode, a Cell of
the user's is a call of `mindspore.nn.Cell`, since nothing of its inside is seen; in PyNative mode its own calls are.

Not followed: functions compiled with `capture_mode` "trace" or "bytecode", of which only what runs as Python is seen,
unless they are the `construct` of a Cell; and methods of tensors not written in Python that were taken from the class
or bound to a tensor before tracing began.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import mindspore
from mindspore import context, nn, ops
from mindspore.graph import api
from mindspore.ops.composite import base

from unified_profiler.spi import ApiTracer
from unified_profiler_mindspore.api.targets import Places, find_places, is_own, unhooked

JIT, GRAD, USER_CELL = "mindspore.jit", "mindspore.grad", "mindspore.nn.Cell"


class MindSporeSurface:
    """The surface of MindSpore."""

    packages = frozenset({"mindspore"})
    machinery: Mapping[str, int] = {
        "mindspore.graph.api": 1,
        "mindspore.ops.composite.base": 1,
        "mindspore.ops.function.grad.grad_func": 1,
    }
    """Modules of the functions that `jit`, `grad`, `vjp` and the like make, and of `HyperMap`."""

    def __init__(self) -> None:
        self._class_names: dict[type, str | None] = {}

    @functools.cached_property
    def _places(self) -> Places:
        return find_places()

    def names(self) -> Iterable[str]:
        """Return the names of everything that can be traced."""
        places = self._places
        classes = [*places.names_below(nn.Cell), *places.names_below(ops.Primitive)]
        return [*places.functions.values(), *places.attributes.values(), *classes, JIT, GRAD]

    def install(self, tracer: ApiTracer) -> None:
        """Have everything watched."""
        for call in self._places.cell_calls:
            tracer.module_call(call)
        if not tracer.wants_calls:
            return
        for function, name in self._places.functions.items():
            tracer.function(function, name)
        for attribute, name in self._places.attributes.items():
            tracer.attribute(mindspore.Tensor, attribute, name)
        tracer.method(ops.Primitive.__call__, lambda primitive: self._places.class_name(type(primitive)))
        tracer.function(base._pynative_func_grad_backward, GRAD)
        tracer.function(unhooked(api._JitExecutor.__call__), JIT)

    def value_texts(self) -> Mapping[type, Callable[[Any], str]]:
        """Return what to say of tensors and the like."""
        array = _array_texts()
        return {
            mindspore.Tensor: array,
            mindspore.COOTensor: array,
            mindspore.CSRTensor: array,
            mindspore.Type: _type_text,
            mindspore.ParameterTuple: lambda parameters: f"ParameterTuple[{len(parameters)}]",
            api._JitExecutor: lambda executor: str(executor.fn.__name__),
        }

    def module_name(self, module: Any) -> str | None:
        """Return the name of a Cell's class if it is MindSpore's own, and of the call if the Cell runs as a graph."""
        kind = type(module)
        if kind not in self._class_names:
            self._class_names[kind] = self._places.class_name(kind) if is_own(kind) else None
        return self._class_names[kind] or _name_as_graph(module)

    def submodules(self, module: Any) -> Iterable[tuple[str, Any]]:
        """Return all Cells below a Cell."""
        return module.cells_and_names()  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        """Wait for kernels that are only queued."""
        api._pynative_executor.sync()  # not by `native`, whose checks would count as time of the call


def _name_as_graph(cell: Any) -> str | None:
    if context._get_mode() == context.GRAPH_MODE:
        return USER_CELL
    return JIT if getattr(cell.construct, "__wrapped_by_jit__", False) else None


def _array_texts() -> Callable[[Any], str]:
    """Return what says the shape and type of a tensor, which MindSpore knows before the kernel that makes it has run.

    The device is left out: MindSpore waits for the kernel to tell it.
    """
    dtypes = [value for value in vars(mindspore.dtype).values() if isinstance(value, mindspore.Type)]
    types = {id(dtype): _type_text(dtype) for dtype in dtypes}  # to hash them takes as long as all the rest
    known: dict[Any, str] = {}

    def text(value: Any) -> str:
        dtype = value.dtype
        key = (type(value), value.shape, types.get(id(dtype)) or _type_text(dtype))
        said = known.get(key)
        if said is None:
            kind, shape, name = key
            said = f"{kind.__name__}[{','.join(map(str, shape))}] {name}"
            if len(known) < 1 << 14:
                known[key] = said
        return said

    return text


def _type_text(dtype: Any) -> str:
    return repr(dtype).removeprefix("mindspore.")
