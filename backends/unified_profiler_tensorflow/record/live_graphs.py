"""Determines which component created the nodes of live graphs, from the Python tracebacks stored with the nodes.

This is for nodes whose names do not identify their component. Graphs are only read, and only those that may have run.
A name that stands for nodes of different components is omitted; if reading exceeds its time limit, all names are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from unified_profiler_tensorflow.read.live_objects import INPUT, METRIC, OPTIMIZER, TAPE, UNSURE

BUDGET_NS = 300_000_000
"""Time limit of one pass over all graphs."""
_INPUT_PIPELINE = "Dataset_"
"""Prefix of the names of graphs that `tf.data` makes from functions."""
_WRITES = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
_READ = "ReadVariableOp"
_KERAS_FILE = re.compile(r"[/\\](?:tf_)?keras[/\\]src[/\\](?:(metrics|optimizers)[/\\])?")
_METRIC_FUNCTIONS = frozenset({"compute_metrics", "get_metrics_result", "update_metrics"})
"""Functions of Keras's trainers in which the user's metrics are computed."""
_FOLDER_OWNERS = {"metrics": METRIC, "optimizers": OPTIMIZER}
_GRADIENT_FILE = re.compile(r"tensorflow[/\\]python[/\\]ops[/\\]\w+_grad\.py$")
_GRADIENT_FUNCTION = re.compile(r"_(\w+?)(?:Grad(?:V\d)?)?")
_TAPE_SCOPE = "gradient_tape/"
_TAPE_FILE = re.compile(r"tensorflow[/\\]python[/\\](?:eager[/\\]imperative_grad|ops[/\\]gradients_util)\.py$")
"""Files in which TensorFlow calls gradient functions, including custom gradients, whose nodes have no scope."""
_NOT_RUN = frozenset({"Const", "Placeholder"})

T = TypeVar("T")
Labeler = Callable[[Any], "str | None"]


def graphs_that_ran(graphs: Iterable[Any], executed: Collection[str]) -> list[Any]:
    """Return the graphs that may have run; none if there are too many to read in time.

    If a function ran, all of its nodes that write variables ran, whatever TensorFlow optimized away, and at least one
    of those that read them. Graphs of sessions contain many nodes that are not run together. `executed` holds the
    recorded nodes, by their names in their graphs.
    """
    with suppress(TimeoutError):
        return [graph for graph in within_budget(graphs) if _may_have_run(graph, executed)]
    return []


def _may_have_run(graph: Any, executed: Collection[str]) -> bool:
    nodes = [op for op in graph.get_operations() if op.type not in _NOT_RUN]
    if graph.building_function and any(op.type in _WRITES and op.name not in executed for op in nodes):
        return False
    reads = [op for op in nodes if op.type == _READ]
    return any(op.name in executed for op in reads or nodes)


def unscoped_node_owners(graphs: Iterable[Any]) -> dict[str, str]:
    """Return which nodes without a scope belong to input pipelines, gradients, metrics or optimizers.

    Input pipelines are recognized by their graph, the others by the TensorFlow or Keras file that created the node.
    """
    nodes = ((op, find) for graph in graphs for find in [_owner_labeler(graph)] for op in graph.get_operations())
    with suppress(TimeoutError):
        return _consistent_labels((op, find) for op, find in within_budget(nodes) if "/" not in op.name)
    return {}


def forward_types(graphs: Iterable[Any], is_unknown: Callable[[str], bool]) -> dict[str, str]:
    """Return the type of the forward node for nodes in gradients, from the gradient function that created them.

    Only for nodes whose names do not identify the forward operator already: `is_unknown` returns whether that is so.
    """
    nodes = within_budget(op for graph in graphs for op in graph.get_operations())
    gradients = (op for op in nodes if op.name.startswith(_TAPE_SCOPE) and is_unknown(op.name))
    with suppress(TimeoutError):
        return _consistent_labels((op, _differentiated_type) for op in gradients)
    return {}


def within_budget(items: Iterable[T]) -> Iterator[T]:
    """Yield the items until the time limit of one pass is reached.

    Raises:
        TimeoutError: There were more.
    """
    deadline = time.monotonic_ns() + BUDGET_NS
    for item in items:
        if time.monotonic_ns() > deadline:
            raise TimeoutError
        yield item


def _consistent_labels(nodes: Iterable[tuple[Any, Labeler]]) -> dict[str, str]:
    """Return the label of each node name; names with several labels are UNSURE if one is a tape's, else omitted."""
    labels: dict[str, set[str | None]] = {}
    for op, find_label in nodes:
        if op.type not in _NOT_RUN:
            labels.setdefault(op.name, set()).add(find_label(op))
    unsure = {name: UNSURE for name, several in labels.items() if len(several) > 1 and TAPE in several}
    return unsure | {name: label for name, (label, *others) in labels.items() if label and not others}


def _owner_labeler(graph: Any) -> Labeler:
    """Return a function that finds the owner of a graph's nodes; it is constant where all have the same owner."""
    if any(op.type in _WRITES or op.name.startswith(_TAPE_SCOPE) for op in graph.get_operations()):
        return _creator
    # a pipeline that writes variables is a loop over a dataset, which TensorFlow makes a part of the dataset
    owner = INPUT if str(getattr(graph, "name", "")).startswith(_INPUT_PIPELINE) else None
    return lambda _: owner


def _creator(op: Any) -> str | None:
    """Return whose code created a node: the innermost frame of a tape, or of a Keras metric or optimizer."""
    for frame in reversed(_frames(op)):
        if _TAPE_FILE.search(frame.filename):
            return TAPE
        keras_file = _KERAS_FILE.search(frame.filename)
        if keras_file and keras_file[1]:
            return _FOLDER_OWNERS[keras_file[1]]
        if keras_file and frame.name in _METRIC_FUNCTIONS:
            return METRIC
    return None


def _differentiated_type(op: Any) -> str | None:
    """Return the node type whose gradient function, such as `_SoftmaxGrad`, created a node."""
    names = (frame.name for frame in _frames(op) if _GRADIENT_FILE.search(frame.filename))
    function = _GRADIENT_FUNCTION.fullmatch(next(names, ""))
    return function[1] if function else None


def _frames(op: Any) -> list[Any]:
    return list(op.traceback or ())
