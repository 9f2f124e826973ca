"""Traces calls of MindSpore's public API by instrumenting the code of its functions, wherever they were imported to.

A backward pass is recorded as a call of `mindspore.grad`, whichever API created the gradient function; the calls of the
forward pass before it are recorded themselves. A call of a compiled function is recorded as `mindspore.jit`. In graph
mode, a user-defined Cell is recorded as `mindspore.nn.Cell`, because the calls inside it cannot be traced; in PyNative
mode they are recorded themselves.

Not traced: functions compiled with `capture_mode` "trace" or "bytecode", except for the parts that run as Python or if
they are the `construct` of a Cell; and tensor methods not written in Python that were taken from the class or bound to
a tensor before tracing began.
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
from unified_profiler_mindspore.api.targets import ApiTargets, find_targets, is_mindspore_class, unwrap_step_hooks

JIT, GRAD, USER_CELL = "mindspore.jit", "mindspore.grad", "mindspore.nn.Cell"


class MindSporeSurface:
    """The public API of MindSpore that can be traced."""

    packages = frozenset({"mindspore"})
    machinery: Mapping[str, int] = {
        "mindspore.graph.api": 1,
        "mindspore.ops.composite.base": 1,
        "mindspore.ops.function.grad.grad_func": 1,
    }
    """Modules of the functions that `jit`, `grad`, `vjp` and the like create, and of `HyperMap`."""

    def __init__(self) -> None:
        self._class_names: dict[type, str | None] = {}

    @functools.cached_property
    def _targets(self) -> ApiTargets:
        return find_targets()

    def names(self) -> Iterable[str]:
        """Return the names of everything that can be traced."""
        targets = self._targets
        classes = [*targets.subclass_names(nn.Cell), *targets.subclass_names(ops.Primitive)]
        return [*targets.functions.values(), *targets.attributes.values(), *classes, JIT, GRAD]

    def install(self, tracer: ApiTracer) -> None:
        """Register all targets with the tracer."""
        for call in self._targets.cell_calls:
            tracer.module_call(call)
        if not tracer.wants_calls:
            return
        for function, name in self._targets.functions.items():
            tracer.function(function, name)
        for attribute, name in self._targets.attributes.items():
            tracer.attribute(mindspore.Tensor, attribute, name)
        tracer.method(ops.Primitive.__call__, lambda primitive: self._targets.class_name(type(primitive)))
        tracer.function(base._pynative_func_grad_backward, GRAD)
        tracer.function(unwrap_step_hooks(api._JitExecutor.__call__), JIT)

    def value_texts(self) -> Mapping[type, Callable[[Any], str]]:
        """Return a function for each class of MindSpore values that describes one."""
        return {
            **dict.fromkeys((mindspore.Tensor, mindspore.COOTensor, mindspore.CSRTensor), _array_formatter()),
            mindspore.Type: _type_text,
            mindspore.ParameterTuple: lambda parameters: f"ParameterTuple[{len(parameters)}]",
            api._JitExecutor: lambda executor: str(executor.fn.__name__),
        }

    def module_name(self, module: Any) -> str | None:
        """Return the class name of one of MindSpore's own Cells, or the call name of a Cell that runs as a graph."""
        cell_class = type(module)
        if cell_class not in self._class_names:
            is_own = is_mindspore_class(cell_class)
            self._class_names[cell_class] = self._targets.class_name(cell_class) if is_own else None
        return self._class_names[cell_class] or _graph_call_name(module)

    def submodules(self, module: Any) -> Iterable[tuple[str, Any]]:
        """Return all Cells below a Cell."""
        return module.cells_and_names()  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        """Wait for kernels that are only queued."""
        api._pynative_executor.sync()  # not through `native`, whose checks would add to the duration of the call


def _graph_call_name(cell: Any) -> str | None:
    if context._get_mode() == context.GRAPH_MODE:
        return USER_CELL
    return JIT if getattr(cell.construct, "__wrapped_by_jit__", False) else None


def _array_formatter() -> Callable[[Any], str]:
    """Return a function that describes a tensor by shape and type, both available before its kernel has run.

    The device is left out: MindSpore would wait for the kernel to report it.
    """
    dtypes = [value for value in vars(mindspore.dtype).values() if isinstance(value, mindspore.Type)]
    # Keyed by id: hashing a type takes as long as everything else here.
    type_texts = {id(dtype): _type_text(dtype) for dtype in dtypes}

    @functools.lru_cache(maxsize=1 << 14)
    def format_key(class_name: str, shape: tuple[int, ...], type_text: str) -> str:
        return f"{class_name}[{','.join(map(str, shape))}] {type_text}"

    def format_array(value: Any) -> str:
        dtype = value.dtype
        return format_key(type(value).__name__, value.shape, type_texts.get(id(dtype)) or _type_text(dtype))

    return format_array


def _type_text(dtype: Any) -> str:
    return repr(dtype).removeprefix("mindspore.")
