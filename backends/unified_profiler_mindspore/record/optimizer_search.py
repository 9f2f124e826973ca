"""Which Cells and compiled functions have an optimizer in their graph, where it runs without a call from Python."""

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

_known: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""The answers so far, by function or Cell: what these refer to hardly changes once they have been called."""


def has_optimizer(thing: Any) -> bool:
    """Say whether something is an optimizer or a Cell that holds one."""
    cell = sys.modules["mindspore.nn.cell"].Cell
    if not isinstance(thing, cell):
        return False
    if thing not in _known:
        optimizers = tuple(sys.modules[name].Optimizer for name in OPTIMIZER_MODULES if name in sys.modules)
        _known[thing] = any(isinstance(one, optimizers) for _, one in thing.cells_and_names())
    return _known[thing]


def works_with_optimizer(function: Any, owner: Any = None) -> bool:
    """Say whether a compiled function, a method of `owner` if it is one, works with an optimizer in its graph.

    Looked at is what it names, and what the functions that it names name in turn.
    """
    if function not in _known:
        named = list(_named(function, owner))
        further = (_named(one, owner) for one in named if isinstance(one, (FunctionType, MethodType)))
        _known[function] = any(map(has_optimizer, chain(named, *further)))
    return _known[function]


def _named(function: Any, owner: Any) -> Iterator[Any]:
    """Yield what a function closes over, the globals it names, and the attributes of its owner that it names."""
    owner = getattr(function, "__self__", owner)
    function = inspect.unwrap(getattr(function, "__func__", function))  # beneath the wrapper that ms.jit puts around it
    if not isinstance(function, FunctionType):
        return
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a name that is not bound yet
            yield cell.cell_contents
    attributes = vars(owner) if hasattr(owner, "__dict__") else {}
    cells = owner._cells if isinstance(owner, sys.modules["mindspore.nn.cell"].Cell) else {}
    places = (function.__globals__, attributes, cells, *map(vars, type(owner).__mro__))
    yield from (place[name] for name in function.__code__.co_names for place in places if name in place)
