"""Traces calls of torch's functions, methods and operators with a function mode.

The mode receives every call that takes or returns tensors, however it was imported, on the thread that starts tracing
and on threads started later.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode

from unified_profiler.spi import ApiTracer
from unified_profiler_torch.api.modes import push_mode
from unified_profiler_torch.api.names import OperatorDetector, function_name, operator_name

Invoke: TypeAlias = Callable[[tuple[Any, ...], Any], Any]

_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
"""Torch functions written in Python call these to check for a mode."""


class _TracingMode(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
    """Passes every call to the tracer."""

    def __init__(self, tracer: ApiTracer) -> None:
        super().__init__()
        self.active = True
        self.traced = _TracedFunctions(tracer, self)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record a call."""
        if torch.compiler.is_compiling() or not self.active:
            return func(*args, **kwargs) if kwargs else func(*args)
        return self.traced[func](args, kwargs)


class _TracedFunctions(dict[Any, Any]):
    """The traced replacement of each function, created on its first call."""

    def __init__(self, tracer: ApiTracer, mode: _TracingMode) -> None:
        super().__init__()
        self._tracer, self._mode = tracer, mode
        self._detector = OperatorDetector()
        self._running = threading.local()

    def __missing__(self, function: Any) -> Invoke:
        """Create the replacement of a function."""
        self[function] = invoke = self._trace(function)
        return invoke

    def _trace(self, function: Any) -> Invoke:
        name, operator = function_name(function), operator_name(function)
        if name is None:
            return lambda args, kwargs: function(*args, **kwargs) if kwargs else function(*args)
        has_check = isinstance(function, FunctionType) and not set(_CHECKS).isdisjoint(function.__globals__)
        if self._tracer.inside and has_check:
            return self._tracer.timed(self._with_inner_calls(function), name)
        as_method = self._tracer.timed(function, name)
        if operator is None:
            return as_method
        as_operator = self._tracer.timed(function, operator)
        is_operator, caller = self._detector.is_operator, sys._getframe

        def invoke(args: tuple[Any, ...], kwargs: Any) -> Any:
            return (as_operator if is_operator(caller(2)) else as_method)(args, kwargs)

        return invoke

    def _with_inner_calls(self, function: FunctionType) -> Callable[..., Any]:
        """Return the function with the mode active inside it.

        A function first checks for a mode and would be passed to it again forever, so a copy without the check is used.
        """
        namespace = function.__globals__ | dict.fromkeys(_CHECKS, lambda *_: False)
        copy = FunctionType(
            function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        mode, running = self._mode, self._running

        def call(*args: Any, **kwargs: Any) -> Any:
            previous = getattr(running, "function", None)
            if previous is function:  # it has a check that is not in _CHECKS
                return function(*args, **kwargs)
            running.function = function
            try:
                with mode:
                    return copy(*args, **kwargs)
            finally:
                running.function = previous

        return call


def trace_functions(tracer: ApiTracer) -> None:
    """Trace all functions that a function mode receives."""
    mode = _TracingMode(tracer)
    remove = push_mode(mode)

    def undo() -> None:
        mode.active = False
        remove()

    tracer.undo_at_end(undo)
