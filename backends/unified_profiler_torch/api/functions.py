"""Calls of torch's functions, methods and operators, seen by a function mode.

It sees everything that takes or makes tensors, however it was imported, on the thread on which tracing begins and on
those started since.
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
from unified_profiler_torch.api.modes import put_in
from unified_profiler_torch.api.names import Operators, function_name, operator_name

Invoke: TypeAlias = Callable[[tuple[Any, ...], Any], Any]

_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
"""By these a function of torch written in Python asks whether there is a mode."""


class _Mode(TorchFunctionMode):  # type: ignore[misc]  # torch has no types here
    """Hands every call to the tracer."""

    def __init__(self, tracer: ApiTracer) -> None:
        super().__init__()
        self.active = True
        self.invoke = _Invokes(tracer, self)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Record a call."""
        if torch.compiler.is_compiling() or not self.active:
            return func(*args, **kwargs) if kwargs else func(*args)
        return self.invoke[func](args, kwargs)


class _Invokes(dict[Any, Any]):
    """What to call instead of a function, made when it is called first."""

    def __init__(self, tracer: ApiTracer, mode: _Mode) -> None:
        super().__init__()
        self._tracer, self._mode = tracer, mode
        self._operators = Operators()
        self._within = threading.local()

    def __missing__(self, function: Any) -> Invoke:
        """Find out how to record a function."""
        self[function] = invoke = self._invoke(function)
        return invoke

    def _invoke(self, function: Any) -> Invoke:
        name, operator = function_name(function), operator_name(function)
        if name is None:
            return lambda args, kwargs: function(*args, **kwargs) if kwargs else function(*args)
        if self._tracer.inside and isinstance(function, FunctionType) and _asks(function):
            return self._tracer.timed(self._seen_inside(function), name)
        called = self._tracer.timed(function, name)
        return called if operator is None else self._either(called, self._tracer.timed(function, operator))

    def _either(self, called: Invoke, operated: Invoke) -> Invoke:
        is_operator, caller = self._operators.is_operator, sys._getframe

        def invoke(args: tuple[Any, ...], kwargs: Any) -> Any:
            return (operated if is_operator(caller(2)) else called)(args, kwargs)

        return invoke

    def _seen_inside(self, function: FunctionType) -> Callable[..., Any]:
        """Return the function with the mode on within it.

        A function asks first whether there is a mode, and would come back here for ever: the copy does not ask.
        """
        namespace = function.__globals__ | dict.fromkeys(_CHECKS, _no)
        copy = FunctionType(
            function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        mode, within = self._mode, self._within

        def call(*args: Any, **kwargs: Any) -> Any:
            previous = getattr(within, "function", None)
            if previous is function:  # it asked in a way that is not known here
                return function(*args, **kwargs)
            within.function = function
            try:
                with mode:
                    return copy(*args, **kwargs)
            finally:
                within.function = previous

        return call


def _asks(function: FunctionType) -> bool:
    return not set(_CHECKS).isdisjoint(function.__globals__)


def _no(*_: Any) -> bool:
    return False


def trace_functions(tracer: ApiTracer) -> None:
    """Trace all functions that a function mode sees."""
    mode = _Mode(tracer)
    remove = put_in(mode)

    def undo() -> None:
        mode.active = False
        remove()

    tracer.undo_at_end(undo)
