"""Finds the layers, losses, optimizers and graphs that are alive in the process when recording ends.

Most are created before the profiler is armed, and Keras keeps no list of them, so the garbage collector's list of all
objects is searched once. Nothing is kept alive and no user code runs: only classes are compared, and names are read
from the instances' own dictionaries. Objects that `gc.freeze()` removed from that list are not included.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import compress
from types import FunctionType
from typing import Any

import msgspec

from unified_profiler_tensorflow.canonical.live_names import LiveNames
from unified_profiler_tensorflow.canonical.path import NodePath
from unified_profiler_tensorflow.read.live_objects import LAYER, LOSS, METRIC, OPTIMIZER, LiveObjects
from unified_profiler_tensorflow.record.live_graph_details import collect_node_details
from unified_profiler_tensorflow.record.live_graphs import forward_types, graphs_that_ran, unscoped_node_owners

_GRAPH = "graph"
_BASES = (  # later entries win: a metric of tf_keras is also a layer
    (LAYER, "tensorflow.python.module.module", "Module"),
    *((LAYER, f"{keras}.layers", "Layer") for keras in ("keras", "tf_keras")),
    *((METRIC, f"{keras}.metrics", "Metric") for keras in ("keras", "tf_keras")),
    *((LOSS, f"{keras}.losses", "Loss") for keras in ("keras", "tf_keras")),
    *((OPTIMIZER, f"{keras}.optimizers", "Optimizer") for keras in ("keras", "tf_keras")),
    (OPTIMIZER, "tf_keras.optimizers.legacy", "Optimizer"),
    (OPTIMIZER, "tensorflow.python.training.optimizer", "Optimizer"),
    (_GRAPH, "tensorflow.python.framework.ops", "Graph"),
)
_FRAMEWORK = frozenset({"keras", "tf_keras", "tensorflow"})
"""Packages that define framework classes; classes from all others are the user's own."""
_NAMED = frozenset({LAYER, LOSS, OPTIMIZER})
"""Kinds of objects that open a scope of their own name; metrics do not."""


def collect_live_objects(executed: Collection[str], report: Callable[[str], None], *, with_flops: bool) -> LiveObjects:
    """Return the names and classes of live objects, and the attributes of graph nodes.

    Args:
        executed: The nodes that were recorded, by their names in their graphs.
        report: Called with a sentence about anything that could not be read.
        with_flops: Whether to read the node attributes from which FLOPs are computed.
    """
    # by id, since a metaclass may make a class unhashable
    kinds = {id(cls): kind for kind, base in _imported_bases() for cls in _subclass_tree(base)}
    names: dict[str, set[tuple[str, str]]] = {}
    graphs = []
    for instance in _instances(kinds):
        kind = kinds[id(type(instance))]
        if kind == _GRAPH:
            graphs.append(instance)
        elif kind in _NAMED and (name := _name_of(instance)):
            names.setdefault(name, set()).add((kind, _class_of(instance)))
    named = LiveObjects(names={name: sorted(classes) for name, classes in sorted(names.items())}, flops=with_flops)
    try:
        return _add_graph_nodes(named, graphs_that_ran(graphs, executed))
    except Exception as error:  # noqa: BLE001  reads the program's graphs through attributes that TensorFlow may change
        report(f"The nodes of live graphs could not be read: {type(error).__name__}: {error}")
        return named


def _add_graph_nodes(named: LiveObjects, graphs: Sequence[Any]) -> LiveObjects:
    live = LiveNames.of(named)

    @cache
    def has_no_origin(scope: str) -> bool:
        return NodePath(f"{scope}/any", live).origin(None) is None

    return msgspec.structs.replace(
        named,
        roots=unscoped_node_owners(graphs),
        gradients=forward_types(graphs, lambda node: has_no_origin(node.rpartition("/")[0])),
        nodes=collect_node_details(graphs) if named.flops else {},
    )


def _imported_bases() -> Iterator[tuple[str, type]]:
    """Yield the base classes that are already imported; those of Keras 3 only if its backend is TensorFlow."""
    config = sys.modules.get("keras.config")
    excluded = () if config and config.backend() == "tensorflow" else ("keras.",)
    for kind, module, name in _BASES:
        base = vars(sys.modules.get(module, gc)).get(name)
        if isinstance(base, type) and not module.startswith(excluded):
            yield kind, base


def _subclass_tree(base: type) -> Iterator[type]:
    seen, pending = set(), [base]
    while pending:
        cls = pending.pop()
        if id(cls) not in seen:
            seen.add(id(cls))
            pending += type.__subclasses__(cls)
            yield cls


def _instances(class_ids: Collection[int]) -> list[Any]:
    """Return all objects whose `type()` is one of these classes; an overridden `__class__` is ignored."""
    objects = gc.get_objects()
    return list(compress(objects, map(class_ids.__contains__, map(id, map(type, objects)))))


def _name_of(instance: Any) -> str | None:
    """Return the name of an object if it is set already, without evaluating a user's `name` property."""
    attributes = object.__getattribute__(instance, "__dict__")
    names = (attributes.get(key) for key in ("name", "_name"))
    return next((name for name in names if type(name) is str and name), None)


def _class_of(instance: Any) -> str:
    """Return the name of the nearest class that the framework itself defines.

    A layer that applies another one without opening a scope for it has the other's class; a loss that wraps a Keras
    function has the function's name, which is also the name of the class with the same loss.
    """
    attributes = object.__getattribute__(instance, "__dict__")
    name = next((cls.__name__ for cls in type(instance).__mro__ if _is_framework(cls)), "")
    if name == "TimeDistributed" and "layer" in attributes:
        return _class_of(attributes["layer"])
    function = attributes.get("fn")
    if name == "LossFunctionWrapper" and type(function) is FunctionType and _is_framework(function):
        return function.__name__
    return name


def _is_framework(definition: Any) -> bool:
    return str(definition.__module__).partition(".")[0] in _FRAMEWORK
