"""What functions, optimizers and gradient tapes tell about steps in loops written by hand.

Within a function an optimizer or a tape is only traced: that marks the function as one which trains.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from unified_profiler.spi.call_sites import call_site
from unified_profiler.spi.patching import Inside, Report, SharedPatch, Undo, outermost, replace, undo_all
from unified_profiler_tensorflow.steps.keras import is_eager, is_traced, made_by_keras, torch_compiles, within_fit
from unified_profiler_tensorflow.steps.training import Trains


class _Tracing:
    """Functions under way, and what was seen to happen in which while it was traced."""

    def __init__(self) -> None:
        self.inside = Inside()
        self.running: list[Any] = []
        self._marks: WeakKeyDictionary[Any, Trains] = WeakKeyDictionary()

    def mark(self, how: Trains) -> None:
        """Note that what is traced now trains: the function that was called, and the graphs that are built."""
        graph = sys.modules["tensorflow.python.framework.ops"].get_default_graph()
        while graph is not None:
            self._add(graph, how)
            graph = getattr(graph, "outer_graph", None)
        if self.inside.now is not None:
            self._add(self.inside.now, how)
        elif self.running:  # a strategy traces its replicas on threads of their own, while the caller waits
            self._add(self.running[-1], how)

    def kind_of(self, function: Any) -> Trains:
        """Return how a function, polymorphic or concrete, trains."""
        graph = getattr(function, "graph", None)
        marks = (self._marks.get(function), None if graph is None else self._marks.get(graph))
        return min((mark for mark in marks if mark is not None), default=Trains.NOT)

    def _add(self, what: Any, how: Trains) -> None:
        self._marks[what] = min(how, self._marks.get(what, how))


_tracing = _Tracing()


def _wrap_functions(module: ModuleType, listeners: Mapping[Trains, Report]) -> Undo:
    """Wrap the calls of functions, polymorphic and concrete."""
    concrete = import_module(f"{module.__package__}.concrete_function").ConcreteFunction
    owners = (module.Function, concrete)
    return undo_all(*(replace(owner, "__call__", _wrap_function(owner, listeners)) for owner in owners))


FUNCTIONS = SharedPatch(_wrap_functions)
"""Outermost calls of functions, by how they train."""


def _wrap_function(owner: Any, listeners: Mapping[Trains, Report]) -> Callable[..., Any]:
    """Report outermost calls from eager code: others only build a graph."""
    original = vars(owner)["__call__"]
    executing_eagerly = sys.modules["tensorflow.python.eager.context"].executing_eagerly

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if _tracing.inside.now is not None or not executing_eagerly():
            return original(self, *args, **kwargs)
        _tracing.inside.now = self
        _tracing.running.append(self)
        try:
            result = original(self, *args, **kwargs)
        finally:
            _tracing.running.remove(self)
            _tracing.inside.now = None
        report = listeners.get(_tracing.kind_of(self))
        if report is not None and not within_fit(sys._getframe(1)):
            report(id(self))
        return result

    return __call__


# --- optimizers ---------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer", "apply"),
    "tf_keras.src.optimizers.optimizer": ("_BaseOptimizer", "apply_gradients"),
    "tf_keras.src.optimizers.legacy.optimizer_v2": ("OptimizerV2", "apply_gradients"),
    "tensorflow.python.training.optimizer": ("Optimizer", "apply_gradients"),
}
"""Module -> class and method of each family of optimizers."""


def optimizer_made(module: ModuleType, report: Report) -> Undo:
    """Tell of optimizers that the script makes, and mark the functions in which any is applied.

    Those that Keras makes by itself, for a compiled model which was loaded, announce no training.
    """
    owner, method = _optimizer_of(module)
    original = vars(owner)["__init__"]

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        if not made_by_keras(sys._getframe(1)):
            report(id(self))

    return undo_all(
        replace(owner, "__init__", __init__),
        replace(owner, method, _marking(vars(owner)[method], Trains.BY_OPTIMIZER)),
    )


def _marking(original: Callable[..., Any], how: Trains) -> Callable[..., Any]:
    compiling = torch_compiles()

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not compiling() and is_traced():
            _tracing.mark(how)
        return original(self, *args, **kwargs)

    return call


def after_optimizer(module: ModuleType, report: Report) -> Undo:
    """Tell of eager updates; in a function the update is only traced."""
    owner, method = _optimizer_of(module)
    original = vars(owner)[method]
    inside = Inside()
    compiling = torch_compiles()

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        if compiling():
            return original(self, *args, **kwargs)
        with outermost(inside, self) as first:
            result = original(self, *args, **kwargs)
        if first and is_eager() and not within_fit(sys._getframe(1)):
            report(id(self))
        return result

    return replace(owner, method, apply)


def _optimizer_of(module: ModuleType) -> tuple[Any, str]:
    name, method = OPTIMIZERS[module.__name__]
    return getattr(module, name), method


# --- gradients ----------------------------------------------------------------------------------------------------


def after_gradient(module: ModuleType, report: Report) -> Undo:
    """Tell the calls apart by the line that makes them, so that of two losses in one step the last one ends it."""
    original = module.GradientTape.gradient

    @functools.wraps(original)
    def gradient(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_traced():
            _tracing.mark(Trains.BY_GRADIENT)
        result = original(self, *args, **kwargs)
        if is_eager():
            report(call_site(sys._getframe(1), package="tensorflow"))
        return result

    return replace(module.GradientTape, "gradient", gradient)
