"""Detects Cells and compiled functions with an optimizer in their graph, where it runs without a call from Python."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

OPTIMIZER_MODULES = ("mindspore.nn.optim.optimizer", "mindspore.experimental.optim.optimizer")
"""Each has a class `Optimizer`; those of `mindspore.mint.optim` derive from the second."""

_has_optimizer: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Results by function or Cell: what these refer to hardly changes once they have been called."""


def optimizer_classes() -> tuple[type, ...]:
    """Return the base classes of optimizers whose modules are imported."""
    return tuple(sys.modules[name].Optimizer for name in OPTIMIZER_MODULES if name in sys.modules)


def has_optimizer(value: Any) -> bool:
    """Return whether a value is an optimizer or a Cell that contains one."""
    if not isinstance(value, sys.modules["mindspore.nn.cell"].Cell):
        return False
    if value not in _has_optimizer:
        optimizers = optimizer_classes()
        _has_optimizer[value] = any(isinstance(cell, optimizers) for _, cell in value.cells_and_names())
    return _has_optimizer[value]


def uses_optimizer(function: Any, owner: Any = None) -> bool:
    """Return whether a compiled function has an optimizer in its graph; `owner` is the object if it is a method.

    Considers what the function references, and what the functions that it references reference in turn.
    """
    if function not in _has_optimizer:
        references = list(_references(function, owner))
        indirect = (_references(value, owner) for value in references if isinstance(value, (FunctionType, MethodType)))
        _has_optimizer[function] = any(map(has_optimizer, chain(references, *indirect)))
    return _has_optimizer[function]


def _references(function: Any, owner: Any) -> Iterator[Any]:
    """Yield the closure variables of a function, and the globals and attributes of its owner that it names."""
    owner = getattr(function, "__self__", owner)
    function = inspect.unwrap(getattr(function, "__func__", function))  # beneath the wrapper of ms.jit
    if not isinstance(function, FunctionType):
        return
    for variable in function.__closure__ or ():
        with suppress(ValueError):  # not bound yet
            yield variable.cell_contents
    attributes = vars(owner) if hasattr(owner, "__dict__") else {}
    cells = owner._cells if isinstance(owner, sys.modules["mindspore.nn.cell"].Cell) else {}
    namespaces = (function.__globals__, attributes, cells, *map(vars, type(owner).__mro__))
    yield from (names[name] for name in function.__code__.co_names for names in namespaces if name in names)
