"""Assigns events to the modules of the model, based on the recorded module calls.

Forward, an event belongs to the innermost module call that encloses it. Backward, an operator that carries the
sequence number of the forward operator that it differentiates belongs to the module of that operator. Device work
belongs to the module of the call that launched it. Where module calls waited for the work that they queued, on any
thread, that work belongs to the call that waited. A module recorded with the event takes precedence; a path that begins
with a dot is relative to the module around the event.
"""

from __future__ import annotations

import numpy as np

from unified_profiler.model.columns import Index, look_up, text_column
from unified_profiler.model.nesting import Ints, has_text, int_column, is_kind, text_codes, with_column
from unified_profiler.model.schema import EventTable, Kind, Layer
from unified_profiler.model.tree import Flags, Tree

BACKWARD, RECOMPUTE = "backward", "recompute"
RELATIVE = "."
"""Prefix of a module path that is relative to the module around the event."""
_MAX_GRADIENT_ORDER = 8
"""Gradients of gradients are followed up to this order."""


def module_calls(events: EventTable) -> Flags:
    """Flag the module calls that the facade recorded."""
    return is_kind(events, Kind.MODULE) & has_text(events, "layer", Layer.API.value)


def assign_modules(events: EventTable, *, waited: bool = False) -> EventTable:
    """Fill in the module paths of nested events that have none.

    Args:
        events: The events of a trace.
        waited: Whether module calls waited for queued work at their beginning and end.
    """
    is_call = module_calls(events)
    recorded, paths = text_codes(events, "module")
    if not is_call.any() and not any(path.startswith(RELATIVE) for path in paths):
        return events
    tree = tree_of(events)
    enclosing = tree.inherit(np.where(is_call, recorded, -1), outermost=False)
    model = tree.inherit(np.where(is_call, recorded, -1), outermost=True)
    recorded, paths = _resolve_relative(recorded, np.where(enclosing == model, -1, enclosing), paths)
    own = np.where(recorded >= 0, recorded, enclosing)
    module = _assign_gradients(tree, own, _differentiated(events, tree))
    if waited:
        module = np.where(module < 0, _modules_by_time(events, tree, is_call, recorded), module)
    return with_column(events, "module", text_column(_copy_from_launch(events, module), paths))


def _assign_gradients(tree: Tree, own: Ints, pairs: tuple[Ints, Ints]) -> Ints:
    """Assign backward nodes, and events within them, to the modules of the operators that they differentiate.

    These operators may be in a backward pass themselves, as with gradients of gradients.
    """
    nodes, operators = pairs
    module = own
    for _ in range(_MAX_GRADIENT_ORDER):
        node_module = np.full(len(own), -1, np.int64)
        node_module[nodes] = module[operators]
        updated = np.where(own < 0, tree.inherit(node_module, outermost=False), own)
        if np.array_equal(updated, module):
            break
        module = updated
    return module


def _resolve_relative(recorded: Ints, enclosing: Ints, paths: list[str]) -> tuple[Ints, list[str]]:
    """Resolve paths relative to the enclosing module; paths do not contain the outermost module."""
    is_relative = np.array([*(path.startswith(RELATIVE) for path in paths), False])[recorded]
    pairs, inverse = np.unique(np.stack([recorded[is_relative], enclosing[is_relative]]), axis=1, return_inverse=True)
    index = Index(dict(zip(paths, range(len(paths)), strict=True)))
    codes = [index[paths[path][1:] if outer < 0 else paths[outer] + paths[path]] for path, outer in pairs.T.tolist()]
    resolved = recorded.copy()
    resolved[is_relative] = np.array(codes, np.int64)[inverse.reshape(-1)]
    return resolved, list(index)


def models(events: EventTable) -> dict[str, str]:
    """Return the path of the outermost module by the path of each module that was called or has events."""
    recorded, paths = text_codes(events, "module")
    outermost = tree_of(events).inherit(np.where(module_calls(events), recorded, -1), outermost=True)
    inside = (recorded >= 0) & (outermost >= 0)
    pairs = np.unique(np.stack([recorded[inside], outermost[inside]]), axis=1).T.tolist()
    submodules = {module for module, model in pairs if module != model}
    pairs.sort(key=lambda pair: pair[1] not in submodules)  # a submodule that was called alone is not a model
    return {paths[module]: paths[model] for module, model in pairs}


def backward_nodes(events: EventTable) -> Flags:
    """Flag the nodes of backward passes whose module is known."""
    module, _ = text_codes(events, "module")
    return _nodes(events, tree_of(events)) & (module >= 0)


def mark_recomputed_calls(events: EventTable) -> EventTable:
    """Set the direction of module calls that a backward pass makes to recompute activations."""
    codes, texts = text_codes(events, "direction")
    is_call = module_calls(events)
    if RECOMPUTE not in texts or not is_call.any():
        return events
    is_recomputed = is_call & _is_enclosed_by(events, tree_of(events), RECOMPUTE)
    codes = np.where(is_recomputed, texts.index(RECOMPUTE), codes)
    return with_column(events, "direction", text_column(codes, texts))


def operators_outside(events: EventTable, nodes: Ints) -> Flags:
    """Flag the operators that are neither in a backward pass nor among or within the given events."""
    is_backward = has_text(events, "direction", BACKWARD)
    return is_kind(events, Kind.OP) & (outermost_of(events, nodes) < 0) & ~is_backward


def outermost_of(events: EventTable, rows: Ints) -> Ints:
    """Return for each event the outermost of the given rows that encloses or equals it, -1 for none."""
    own = np.full(len(events), -1, np.int64)
    own[rows] = rows
    return tree_of(events).inherit(own, outermost=True)


def tree_of(events: EventTable) -> Tree:
    """Return the tree of nested events whose ids are their rows."""
    return Tree(int_column(events, "parent_id"), int_column(events, "depth"))


def _is_enclosed_by(events: EventTable, tree: Tree, direction: str) -> Flags:
    """Flag the events whose closest enclosing native event with a direction has this one."""
    codes, texts = text_codes(events, "direction")
    own = np.where(has_text(events, "layer", Layer.API.value), -1, codes)
    enclosing = np.where(tree.parent >= 0, tree.inherit(own, outermost=False)[tree.parent], -1)
    flags: Flags = enclosing == (texts.index(direction) if direction in texts else -2)
    return flags


def _nodes(events: EventTable, tree: Tree) -> Flags:
    """Flag the nodes of backward passes: the outermost events, also of a pass that runs within another node."""
    has_sequence = int_column(events, "sequence_id") >= 0
    return has_text(events, "direction", BACKWARD) & has_sequence & ~_is_enclosed_by(events, tree, BACKWARD)


def _differentiated(events: EventTable, tree: Tree) -> tuple[Ints, Ints]:
    """Return nodes of backward passes, and for each the last earlier event with its sequence number.

    Operators recomputed within a backward pass have a graph of their own: only nodes within it differentiate them.
    """
    sequence, start = int_column(events, "sequence_id"), int_column(events, "start_ns")
    recomputes = has_text(events, "direction", RECOMPUTE) & ~has_text(events, "layer", Layer.API.value)
    recomputes &= ~_is_enclosed_by(events, tree, RECOMPUTE)
    scope = tree.inherit(np.where(recomputes, np.arange(len(events)), -1), outermost=False)
    rows = np.flatnonzero((sequence >= 0) & ~is_kind(events, Kind.COMPILE))
    rows = rows[np.lexsort((start[rows], sequence[rows], scope[rows]))]
    is_node = _nodes(events, tree)[rows]
    last = np.maximum.accumulate(np.where(is_node, -1, np.arange(len(rows))))[is_node]
    nodes, operators = rows[is_node], rows[last]
    matches = (last >= 0) & (sequence[nodes] == sequence[operators]) & (scope[nodes] == scope[operators])
    return nodes[matches], operators[matches]


def _modules_by_time(events: EventTable, tree: Tree, is_call: Flags, recorded: Ints) -> Ints:
    """Return for each operator the innermost module that was running when it began, on any thread."""
    module = np.full(len(recorded), -1, np.int64)
    start = int_column(events, "start_ns")
    end = start + int_column(events, "duration_ns")
    calls = np.flatnonzero(is_call)
    if len(np.unique(int_column(events, "tid")[calls])) > 1:
        return module  # modules ran concurrently, so the owner of an operator is ambiguous
    calls = calls[np.argsort(start[calls], kind="stable")]
    operators = np.flatnonzero(is_kind(events, Kind.OP) & (tree.parent < 0) | is_kind(events, Kind.KERNEL))
    index = np.searchsorted(start[calls], start[operators], side="right") - 1
    running = np.where(index >= 0, calls[index], -1)
    while len(ended := np.flatnonzero((running >= 0) & (end[running] <= start[operators]))):
        running[ended] = tree.nearest(running[ended], is_call)
    module[operators] = np.where(running >= 0, recorded[running], -1)
    return tree.inherit(module, outermost=False)


def _copy_from_launch(events: EventTable, module: Ints) -> Ints:
    """Assign device work to the module of the call that launched it."""
    correlation = int_column(events, "correlation_id")
    launches = np.flatnonzero((correlation >= 0) & (module >= 0))
    unassigned = np.flatnonzero((correlation >= 0) & (module < 0))
    launch = look_up(correlation[unassigned], correlation[launches])
    module = module.copy()
    module[unassigned[launch >= 0]] = module[launches[launch[launch >= 0]]]
    return module
