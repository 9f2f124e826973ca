"""Hooks tf.functions, optimizers and gradient tapes to detect steps in handwritten training loops.

Inside a tf.function an optimizer or a tape is only traced, which marks the function as one that trains.
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
from unified_profiler.spi.patching import (
    Inside,
    Invoke,
    Report,
    SharedPatch,
    Undo,
    outermost,
    replace,
    undo_all,
    wrap_method,
)
from unified_profiler_tensorflow.steps.keras import (
    is_created_by_keras,
    is_eager,
    is_inside_fit,
    is_traced,
    torch_compile_check,
)
from unified_profiler_tensorflow.steps.training import CALL_BEGINS, CallSignal, TrainingEvidence


class _FunctionCalls:
    """The running functions, and the evidence of training that was seen while each function was traced."""

    def __init__(self) -> None:
        self.inside = Inside()
        self.running: list[Any] = []
        self._evidence: WeakKeyDictionary[Any, TrainingEvidence] = WeakKeyDictionary()

    def mark(self, evidence: TrainingEvidence) -> None:
        """Mark the function being traced as one that trains: the called function, and all graphs being built."""
        graph = sys.modules["tensorflow.python.framework.ops"].get_default_graph()
        while graph is not None:
            self._add(graph, evidence)
            graph = getattr(graph, "outer_graph", None)
        if self.inside.now is not None:
            self._add(self.inside.now, evidence)
        elif self.running:  # a strategy traces its replicas on threads of their own, while the caller waits
            self._add(self.running[-1], evidence)

    def evidence(self, function: Any) -> TrainingEvidence:
        """Return the strongest evidence that a polymorphic or concrete function trains."""
        marked = (target for target in (function, getattr(function, "graph", None)) if target in self._evidence)
        return min((self._evidence[target] for target in marked), default=TrainingEvidence.NONE)

    def _add(self, target: Any, evidence: TrainingEvidence) -> None:
        self._evidence[target] = min(evidence, self._evidence.get(target, evidence))


_calls = _FunctionCalls()


def _wrap_functions(module: ModuleType, listeners: Mapping[CallSignal, Report]) -> Undo:
    concrete = import_module(f"{module.__package__}.concrete_function").ConcreteFunction
    owners = (module.Function, concrete)
    return undo_all(*(replace(owner, "__call__", _wrap_function(owner, listeners)) for owner in owners))


FUNCTIONS: SharedPatch[CallSignal] = SharedPatch(_wrap_functions)
"""Outermost calls of tf.functions, polymorphic and concrete, by the evidence that they train."""


def _wrap_function(owner: Any, listeners: Mapping[CallSignal, Report]) -> Callable[..., Any]:
    """Report outermost calls from eager code; others only build a graph."""
    original = vars(owner)["__call__"]
    executing_eagerly = sys.modules["tensorflow.python.eager.context"].executing_eagerly

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if _calls.inside.now is not None or not executing_eagerly():
            return original(self, *args, **kwargs)
        if (report := listeners.get(CALL_BEGINS)) is not None:
            report(id(self))
        _calls.inside.now = self
        _calls.running.append(self)
        try:
            result = original(self, *args, **kwargs)
        finally:
            _calls.running.remove(self)
            _calls.inside.now = None
        report = listeners.get(_calls.evidence(self))
        if report is not None and not is_inside_fit(sys._getframe(1)):
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
"""Module -> class and update method of each family of optimizers."""


def after_optimizer_created(module: ModuleType, report: Report) -> Undo:
    """Report optimizers that the script creates, and mark the functions in which any optimizer is applied.

    Optimizers that Keras creates itself, for a compiled model that was loaded, do not indicate training.
    """
    owner, method = _optimizer_method(module)
    original = vars(owner)["__init__"]

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        if not is_created_by_keras(sys._getframe(1)):
            report(id(self))

    return undo_all(replace(owner, "__init__", __init__), replace(owner, method, _mark_function(vars(owner)[method])))


def _mark_function(original: Callable[..., Any]) -> Callable[..., Any]:
    is_compiling = torch_compile_check()

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_compiling() and is_traced():
            _calls.mark(TrainingEvidence.OPTIMIZER)
        return original(self, *args, **kwargs)

    return apply


def after_optimizer(module: ModuleType, report: Report) -> Undo:
    """Report eager updates; inside a function the update is only traced."""
    owner, method = _optimizer_method(module)
    original = vars(owner)[method]
    inside = Inside()
    is_compiling = torch_compile_check()

    @functools.wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        with outermost(inside, self) as first:
            result = original(self, *args, **kwargs)
        if first and is_eager() and not is_inside_fit(sys._getframe(1)):
            report(id(self))
        return result

    return replace(owner, method, apply)


def _optimizer_method(module: ModuleType) -> tuple[Any, str]:
    name, method = OPTIMIZERS[module.__name__]
    return getattr(module, name), method


# --- gradients ----------------------------------------------------------------------------------------------------


def after_gradient(module: ModuleType, report: Report) -> Undo:
    """Report gradient computations by the calling line, so that of two losses in one step the last one ends it."""
    original = module.GradientTape.gradient

    @functools.wraps(original)
    def gradient(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_traced():
            _calls.mark(TrainingEvidence.GRADIENT)
        result = original(self, *args, **kwargs)
        if is_eager():
            report(call_site(sys._getframe(1), package="tensorflow"))
        return result

    return replace(module.GradientTape, "gradient", gradient)


def at_tape(module: ModuleType, report: Report) -> Undo:
    """Report eager code that begins to record operations for gradients."""

    def around(invoke: Invoke, tape: Any, _args: tuple[Any, ...]) -> Any:
        if is_eager():
            report(id(tape))
        return invoke()

    return wrap_method(module.GradientTape, "__enter__", around)
