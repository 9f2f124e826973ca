"""Finding the layers, losses, optimizers and graphs that are alive in the process, when recording ends.

They are mostly made before anything is armed, and Keras keeps no list of them; so the garbage collector's list of all
objects is gone through, once. Nothing is kept alive and no code of the user's runs: only classes are compared, and
names read from the instances' own dictionaries. Objects that `gc.freeze()` took out of that list are not found.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import compress
from types import FunctionType
from typing import Any

import msgspec

from unified_profiler_tensorflow.canonical.live_names import Live
from unified_profiler_tensorflow.canonical.path import NodePath
from unified_profiler_tensorflow.read.live_objects import LAYER, LOSS, METRIC, OPTIMIZER, LiveObjects
from unified_profiler_tensorflow.record.live_graph_details import details_of
from unified_profiler_tensorflow.record.live_graphs import forward_types, graphs_that_ran, owners_of_roots

_GRAPH = "graph"
_BASES = (  # a class further down wins: a metric of tf_keras is a layer, too
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
"""Packages whose classes are known; all others are the user's own."""
_NAMED = frozenset({LAYER, LOSS, OPTIMIZER})
"""Sorts of objects that open a scope of their name; metrics do not."""


def live_objects(executed: Collection[str], report: Callable[[str], None], *, with_flops: bool) -> LiveObjects:
    """Return what is alive.

    Args:
        executed: The nodes that were recorded, by their names in their graphs.
        report: Called with a sentence about what could not be read.
        with_flops: Whether to read also what tells how much the nodes of graphs compute.
    """
    sorts = _sorts_of_classes()
    names: dict[str, set[tuple[str, str]]] = {}
    graphs = []
    for instance in _instances(sorts):
        sort = sorts[id(type(instance))]
        if sort == _GRAPH:
            graphs.append(instance)
        elif sort in _NAMED and (name := _name_of(instance)):
            names.setdefault(name, set()).add((sort, _class_of(instance)))
    named = LiveObjects(names={name: sorted(found) for name, found in sorted(names.items())}, flops=with_flops)
    try:
        return _with_nodes(named, graphs_that_ran(graphs, executed))
    except Exception as error:  # noqa: BLE001  graphs of the program, by ways that another TensorFlow may not have
        report(f"What the graphs tell about nodes is not known: {type(error).__name__}: {error}")
        return named


def _with_nodes(named: LiveObjects, graphs: Sequence[Any]) -> LiveObjects:
    live = Live.of(named)

    @cache
    def is_unknown(scope: str) -> bool:
        return NodePath(f"{scope}/any", live).origin(None) is None

    return msgspec.structs.replace(
        named,
        roots=owners_of_roots(graphs),
        gradients=forward_types(graphs, lambda node: is_unknown(node.rpartition("/")[0])),
        nodes=details_of(graphs) if named.flops else {},
    )


def _sorts_of_classes() -> dict[int, str]:
    """Return the sorts of all classes whose objects are looked for, by the `id` of the class.

    By `id`, since a class may have a metaclass that makes it unhashable.
    """
    return {id(cls): sort for sort, base in _bases() for cls in _with_subclasses(base)}


def _bases() -> Iterator[tuple[str, type]]:
    """Yield the base classes in what is imported already; Keras does not count where it computes with another one."""
    for sort, module, name in _BASES:
        found = vars(sys.modules.get(module, gc)).get(name)
        if isinstance(found, type) and not (module.startswith("keras.") and _keras_backend() != "tensorflow"):
            yield sort, found


def _keras_backend() -> str | None:
    config = sys.modules.get("keras.config")
    return config.backend() if config else None


def _with_subclasses(base: type) -> Iterator[type]:
    seen, waiting = set(), [base]
    while waiting:
        cls = waiting.pop()
        if id(cls) not in seen:
            seen.add(id(cls))
            waiting += type.__subclasses__(cls)
            yield cls


def _instances(classes: Mapping[int, Any]) -> list[Any]:
    """Return all objects of these very classes, whatever they say about their class themselves."""
    every = gc.get_objects()
    return list(compress(every, map(classes.__contains__, map(id, map(type, every)))))


def _name_of(instance: Any) -> str | None:
    """Return the name of an object, if it has one yet; a property of the user's that computes it is not asked."""
    said = object.__getattribute__(instance, "__dict__")
    found = (said.get(key) for key in ("name", "_name"))
    return next((name for name in found if type(name) is str and name), None)


def _class_of(instance: Any) -> str:
    """Return the name of the nearest class that the framework itself defines.

    A layer that applies another one, without a scope for it, has the other's class; a loss that is made of a function
    of Keras's has the function's name, which is that of the class with the same loss.
    """
    said = object.__getattribute__(instance, "__dict__")
    name = next((cls.__name__ for cls in type(instance).__mro__ if _is_known(cls)), "")
    if name == "TimeDistributed" and "layer" in said:
        return _class_of(said["layer"])
    function = said.get("fn")
    if name == "LossFunctionWrapper" and type(function) is FunctionType and _is_known(function):
        return function.__name__
    return name


def _is_known(defined: Any) -> bool:
    return str(defined.__module__).partition(".")[0] in _FRAMEWORK
