"""What the runs of v1 sessions tell about steps: those that train, and others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from unified_profiler.spi.patching import Report, SharedPatch, Undo, replace, undo_all
from unified_profiler_tensorflow.steps.training import Trains


def _wrap_runs(module: ModuleType, listeners: Mapping[Trains, Report]) -> Undo:
    """Wrap the runs of both classes of sessions."""
    run = _wrap_run(module.BaseSession, WeakKeyDictionary(), listeners)
    return undo_all(*(replace(owner, "run", run) for owner in (module.Session, module.InteractiveSession)))


RUNS = SharedPatch(_wrap_runs)
"""Runs of sessions, by how they train."""


def _wrap_run(
    base: Any, known: WeakKeyDictionary[Any, dict[int, Trains]], listeners: Mapping[Trains, Report]
) -> Callable[..., Any]:
    """Wrap what sessions inherit, and look it up at each call.

    So this wrapper stays the outer one when a recorder wraps `BaseSession.run` later: a step that ends here ends after
    the recorder has seen the run.
    """

    @functools.wraps(base.run)
    def run(self: Any, fetches: Any, *args: Any, **kwargs: Any) -> Any:
        result = base.run(self, fetches, *args, **kwargs)
        leaves = list(_leaves(fetches))
        key = hash(tuple(leaf if isinstance(leaf, str) else id(leaf) for leaf in leaves))
        kinds = known.setdefault(self.graph, {})
        if key not in kinds:
            kinds[key] = _kind_of_run(self.graph, leaves)
        report = listeners.get(kinds[key])
        if report is not None:
            report(key)
        return result

    return run


def _leaves(fetches: Any) -> Iterator[Any]:
    if isinstance(fetches, Mapping):
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        for item in fetches:
            yield from _leaves(item)
    else:
        yield fetches


def _kind_of_run(graph: Any, leaves: list[Any]) -> Trains:
    """Look for an optimizer's update among all that the fetches depend on."""
    waiting = [op for op in (_op_of(graph, leaf) for leaf in leaves) if op is not None]
    seen = set(waiting)
    while waiting:
        op = waiting.pop()
        if op.type.startswith(_UPDATES):
            return Trains.BY_OPTIMIZER
        following = {tensor.op for tensor in op.inputs} | set(op.control_inputs)
        waiting += following - seen
        seen |= following
    return Trains.NOT


_UPDATES = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")
"""How the types of operators that update a variable by an optimizer's rule begin."""


def _op_of(graph: Any, leaf: Any) -> Any:
    try:
        element = graph.as_graph_element(leaf)
    except (TypeError, ValueError, KeyError):  # something of several parts, such as a SparseTensor: a result, no update
        return None
    return getattr(element, "op", element)
