"""Who made the nodes of the graphs that are alive, where their names do not tell: the places in Python that did it.

Graphs are only read, and only those that may have run. A name that means different things in different graphs is left
out; and everything is, if there is more to read than fits into the time that this may take.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from unified_profiler_tensorflow.read.live_objects import INPUT, METRIC, OPTIMIZER, TAPE, UNSURE

BUDGET_NS = 300_000_000
"""So long may one look at all graphs take."""
_INPUT_PIPELINE = "Dataset_"
"""How the names of graphs begin that `tf.data` makes of functions."""
_WRITES = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
_READ = "ReadVariableOp"
_KERAS = re.compile(r"[/\\](?:tf_)?keras[/\\]src[/\\](?:(metrics|optimizers)[/\\])?")
_OF_METRICS = frozenset({"compute_metrics", "get_metrics_result", "update_metrics"})
"""Functions of Keras's trainers in which metrics of the user's compute."""
_SORTS = {"metrics": METRIC, "optimizers": OPTIMIZER}
_GRADIENTS = re.compile(r"tensorflow[/\\]python[/\\]ops[/\\]\w+_grad\.py$")
_GRADIENT = re.compile(r"_(\w+?)(?:Grad(?:V\d)?)?")
_TAPE = "gradient_tape/"
_DIFFERENTIATING = re.compile(r"tensorflow[/\\]python[/\\](?:eager[/\\]imperative_grad|ops[/\\]gradients_util)\.py$")
"""Where TensorFlow calls gradients, among them those that somebody wrote for a function: their nodes have no scope."""
_NOT_RUN = frozenset({"Const", "Placeholder"})

T = TypeVar("T")
Owner = Callable[[Any], "str | None"]


def graphs_that_ran(graphs: Iterable[Any], executed: Collection[str]) -> list[Any]:
    """Return the graphs that may have run, none if there are too many.

    Of a function that ran, all nodes ran that write variables, whatever TensorFlow optimized away, and one at least of
    those that read them. Graphs of sessions hold much that is not run together.

    Args:
        graphs: The graphs.
        executed: The nodes that were recorded, by their names in their graphs.
    """
    with suppress(TimeoutError):
        return [graph for graph in within_budget(graphs) if _may_have_run(graph, executed)]
    return []


def _may_have_run(graph: Any, executed: Collection[str]) -> bool:
    nodes = [op for op in graph.get_operations() if op.type not in _NOT_RUN]
    if graph.building_function and any(op.type in _WRITES and op.name not in executed for op in nodes):
        return False
    told = [op for op in nodes if op.type == _READ] or nodes
    return any(op.name in executed for op in told)


def owners_of_roots(graphs: Iterable[Any]) -> dict[str, str]:
    """Return which nodes without a scope are parts of input pipelines, of gradients, of metrics or of optimizers.

    The graph tells the first, the place in TensorFlow or Keras where a node was made the others.
    """
    owned = ((op, owner) for graph in graphs for owner in [_owner(graph)] for op in graph.get_operations())
    with suppress(TimeoutError):
        return _unanimous((op, owner) for op, owner in within_budget(owned) if "/" not in op.name)
    return {}


def forward_types(graphs: Iterable[Any], is_unknown: Callable[[str], bool]) -> dict[str, str]:
    """Return of which type of node others are the gradient, told by the function that made them.

    Args:
        graphs: The graphs.
        is_unknown: Says whether the name of a node does not tell it.
    """
    nodes = within_budget(op for graph in graphs for op in graph.get_operations())
    gradients = (op for op in nodes if op.name.startswith(_TAPE) and is_unknown(op.name))
    with suppress(TimeoutError):
        return _unanimous((op, _differentiated) for op in gradients)
    return {}


def within_budget(things: Iterable[T]) -> Iterator[T]:
    """Yield things for as long as one look may take.

    Raises:
        TimeoutError: There were more.
    """
    deadline = time.monotonic_ns() + BUDGET_NS
    for thing in things:
        if time.monotonic_ns() > deadline:
            raise TimeoutError
        yield thing


def _unanimous(nodes: Iterable[tuple[Any, Owner]]) -> dict[str, str]:
    found: dict[str, set[str | None]] = {}
    for op, owner in nodes:
        if op.type not in _NOT_RUN:
            found.setdefault(op.name, set()).add(owner(op))
    unsure = {name: UNSURE for name, owners in found.items() if len(owners) > 1 and TAPE in owners}
    return unsure | {name: owner for name, (owner, *others) in found.items() if owner and not others}


def _owner(graph: Any) -> Owner:
    """Return what tells the owners of a graph's nodes: one look for all of them, where that is enough."""
    if any(op.type in _WRITES or op.name.startswith(_TAPE) for op in graph.get_operations()):
        return _maker
    # a pipeline that writes variables is a loop over a dataset, which TensorFlow makes a part of the dataset
    owner = INPUT if str(getattr(graph, "name", "")).startswith(_INPUT_PIPELINE) else None
    return lambda _: owner


def _maker(op: Any) -> str | None:
    """Return whose code made a node: the innermost frame that is a tape's, or a metric's or an optimizer's of Keras."""
    for frame in reversed(_frames(op)):
        if _DIFFERENTIATING.search(frame.filename):
            return TAPE
        place = _KERAS.search(frame.filename)
        if place and place[1]:
            return _SORTS[place[1]]
        if place and frame.name in _OF_METRICS:
            return METRIC
    return None


def _differentiated(op: Any) -> str | None:
    """Return the type whose gradient function made a node; such functions are called `_SoftmaxGrad`."""
    names = (frame.name for frame in _frames(op) if _GRADIENTS.search(frame.filename))
    function = _GRADIENT.fullmatch(next(names, ""))
    return function[1] if function else None


def _frames(op: Any) -> list[Any]:
    return list(op.traceback or ())
