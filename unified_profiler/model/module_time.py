"""Which module of the model an event belongs to, from the calls of modules that were recorded.

Forward, an event belongs to the innermost module that encloses it. Backward, where an operator carries the sequence
number of the forward operator that it differentiates, it belongs to the module of that one. Work of a device belongs
to the module of the call that launched it. Where modules waited for the work that they queued, whatever thread did it,
the work belongs to the module that waited for it. What an event says of its module itself comes first; such a path is
relative to the module around the event if it begins with a dot.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unified_profiler.model.columns import Index, look_up, text
from unified_profiler.model.nesting import Ints, of_kind, whole_numbers, with_column
from unified_profiler.model.schema import EventTable, Kind, Layer
from unified_profiler.model.tree import Tree

Flags = npt.NDArray[np.bool_]

BACKWARD, RECOMPUTE = "backward", "recompute"
RELATIVE = "."
"""Begins the path of a module that is relative to the module around the event."""
_MOST_ORDERS = 8
"""Gradients of gradients are followed up to this order."""


def module_calls(events: EventTable) -> Flags:
    """Say which events are calls of modules that the facade recorded."""
    return of_kind(events, Kind.MODULE) & _says(events, "layer", Layer.API.value)


def carry_modules(events: EventTable, *, waited: bool = False) -> EventTable:
    """Give nested events the path of the module they belong to, where they do not say it themselves.

    Args:
        events: The events of a trace.
        waited: Whether calls of modules waited, at their beginning and end, for work that was queued.
    """
    modules = module_calls(events)
    told, paths = _codes(events, "module")
    if not modules.any() and not any(path.startswith(RELATIVE) for path in paths):
        return events
    tree = tree_of(events)
    around = tree.inherit(np.where(modules, told, -1), outermost=False)
    model = tree.inherit(np.where(modules, told, -1), outermost=True)
    told, paths = _absolute(told, np.where(around == model, -1, around), paths)
    own = np.where(told >= 0, told, around)
    found = _with_gradients(tree, own, _differentiated(events, tree))
    if waited:
        found = np.where(found < 0, _in_time(events, tree, modules, told), found)
    return with_column(events, "module", text(_by_launch(events, found), paths))


def _with_gradients(tree: Tree, own: Ints, pairs: tuple[Ints, Ints]) -> Ints:
    """Give the nodes of backward passes, and what is in them, the modules of the operators that they differentiate.

    These may be in a backward pass themselves, as those that the gradient of a gradient differentiates.
    """
    nodes, operators = pairs
    found = own
    for _ in range(_MOST_ORDERS):
        given = np.full(len(own), -1, np.int64)
        given[nodes] = found[operators]
        following = np.where(own < 0, tree.inherit(given, outermost=False), own)
        if np.array_equal(following, found):
            break
        found = following
    return found


def _absolute(told: Ints, around: Ints, paths: list[str]) -> tuple[Ints, list[str]]:
    """Resolve paths that are relative to the module around their event; the outermost module is in no path."""
    relative = np.array([*(path.startswith(RELATIVE) for path in paths), False])[told]
    pairs, which = np.unique(np.stack([told[relative], around[relative]]), axis=1, return_inverse=True)
    known = Index(dict(zip(paths, range(len(paths)), strict=True)))
    codes = [known[paths[path][1:] if outer < 0 else paths[outer] + paths[path]] for path, outer in pairs.T.tolist()]
    told = told.copy()
    told[relative] = np.array(codes, np.int64)[which.reshape(-1)]
    return told, list(known)


def models(events: EventTable) -> dict[str, str]:
    """Return for the path of each module that was called, or has events, that of the outermost module it ran in."""
    modules = module_calls(events)
    told, paths = _codes(events, "module")
    outermost = tree_of(events).inherit(np.where(modules, told, -1), outermost=True)
    inside = (told >= 0) & (outermost >= 0)
    pairs = np.unique(np.stack([told[inside], outermost[inside]]), axis=1).T.tolist()
    parts = {module for module, model in pairs if module != model}
    pairs.sort(key=lambda pair: pair[1] not in parts)  # a part of a model that was called alone is no model
    return {paths[module]: paths[model] for module, model in pairs}


def backward_nodes(events: EventTable) -> Flags:
    """Say which events are nodes of a backward pass of which the module is known."""
    told, _ = _codes(events, "module")
    return _nodes(events, tree_of(events)) & (told >= 0)


def recomputed_calls(events: EventTable) -> EventTable:
    """Return the events with the calls of modules that a backward pass makes to compute again marked as such."""
    codes, texts = _codes(events, "direction")
    modules = module_calls(events)
    if RECOMPUTE not in texts or not modules.any():
        return events
    again = texts.index(RECOMPUTE)
    codes = np.where(modules & (_direction_around(events, tree_of(events)) == again), again, codes)
    return with_column(events, "direction", text(codes, texts))


def operators_outside(events: EventTable, nodes: Ints) -> Flags:
    """Say which operators are neither among these events nor within one of them, nor of a backward pass."""
    return of_kind(events, Kind.OP) & (outermost_of(events, nodes) < 0) & ~_says(events, "direction", BACKWARD)


def outermost_of(events: EventTable, rows: Ints) -> Ints:
    """Return for each event the outermost of these rows that it is in, itself included, -1 for none."""
    own = np.full(len(events), -1, np.int64)
    own[rows] = rows
    return tree_of(events).inherit(own, outermost=True)


def tree_of(events: EventTable) -> Tree:
    """Return the tree of nested events whose rows are their ids."""
    return Tree(whole_numbers(events.column("parent_id")), whole_numbers(events.column("depth")))


def _codes(events: EventTable, column: str) -> tuple[Ints, list[str]]:
    values = events.column(column).unify_dictionaries().combine_chunks()
    return whole_numbers(values.indices), values.dictionary.to_pylist()


def _says(events: EventTable, column: str, value: str) -> Flags:
    codes, texts = _codes(events, column)
    flags: Flags = codes == (texts.index(value) if value in texts else -2)
    return flags


def _code(events: EventTable, column: str, value: str) -> int:
    _, texts = _codes(events, column)
    return texts.index(value) if value in texts else -2


def _direction_around(events: EventTable, tree: Tree) -> Ints:
    """Return the direction of the closest native event with one that encloses each event, as a code, -1 for none."""
    codes, _ = _codes(events, "direction")
    own = np.where(_says(events, "layer", Layer.API.value), -1, codes)
    return np.where(tree.parent >= 0, tree.inherit(own, outermost=False)[tree.parent], -1)


def _nodes(events: EventTable, tree: Tree) -> Flags:
    """Say which events are nodes of a backward pass: the outermost ones of it, also if it runs within another node."""
    inside = _direction_around(events, tree) == _code(events, "direction", BACKWARD)
    has_number = whole_numbers(events.column("sequence_id")) >= 0
    nodes: Flags = _says(events, "direction", BACKWARD) & has_number & ~inside
    return nodes


def _differentiated(events: EventTable, tree: Tree) -> tuple[Ints, Ints]:
    """Return nodes of backward passes, and for each the last event before it that has its sequence number.

    What is computed again within a backward pass has its own graph: only nodes within it differentiate it.
    """
    sequence, start = whole_numbers(events.column("sequence_id")), whole_numbers(events.column("start_ns"))
    again = _says(events, "direction", RECOMPUTE) & ~_says(events, "layer", Layer.API.value)
    again &= _direction_around(events, tree) != _code(events, "direction", RECOMPUTE)
    scope = tree.inherit(np.where(again, np.arange(len(again)), -1), outermost=False)
    rows = np.flatnonzero((sequence >= 0) & ~of_kind(events, Kind.COMPILE))
    rows = rows[np.lexsort((start[rows], sequence[rows], scope[rows]))]
    is_node = _nodes(events, tree)[rows]
    last = np.maximum.accumulate(np.where(is_node, -1, np.arange(len(rows))))[is_node]
    nodes, found = rows[is_node], rows[last]
    fits = (last >= 0) & (sequence[nodes] == sequence[found]) & (scope[nodes] == scope[found])
    return nodes[fits], found[fits]


def _in_time(events: EventTable, tree: Tree, modules: Flags, told: Ints) -> Ints:
    """Return for each operator the innermost module that was running when it began, on whatever thread."""
    found = np.full(len(told), -1, np.int64)
    start = whole_numbers(events.column("start_ns"))
    end = start + whole_numbers(events.column("duration_ns"))
    calls = np.flatnonzero(modules)
    if len(np.unique(whole_numbers(events.column("tid"))[calls])) > 1:
        return found  # modules ran side by side: nobody can tell whose work it was
    calls = calls[np.argsort(start[calls], kind="stable")]
    operators = np.flatnonzero(of_kind(events, Kind.OP) & (tree.parent < 0) | of_kind(events, Kind.KERNEL))
    place = np.searchsorted(start[calls], start[operators], side="right") - 1
    around = np.where(place >= 0, calls[place], -1)
    while len(ended := np.flatnonzero((around >= 0) & (end[around] <= start[operators]))):
        around[ended] = tree.nearest(around[ended], modules)
    found[operators] = np.where(around >= 0, told[around], -1)
    return tree.inherit(found, outermost=False)


def _by_launch(events: EventTable, module: Ints) -> Ints:
    """Give the work of a device the module of the call that launched it."""
    correlation = whole_numbers(events.column("correlation_id"))
    launches = np.flatnonzero((correlation >= 0) & (module >= 0))
    waiting = np.flatnonzero((correlation >= 0) & (module < 0))
    launch = look_up(correlation[waiting], correlation[launches])
    module = module.copy()
    module[waiting[launch >= 0]] = module[launches[launch[launch >= 0]]]
    return module
