"""How often something was called, where its pieces are all that was recorded of it."""

from __future__ import annotations

import numpy as np

from unified_profiler.analysis.ancestry import nearest, parent_rows
from unified_profiler.analysis.columns import Codes, Flags, coded, ints
from unified_profiler.analysis.op_calls import outermost
from unified_profiler.comparison.families import families
from unified_profiler.comparison.keys import Keys
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind

_NESTING = 0.1
"""Part of the operators of a framework that lie within others, from which on nesting tells calls and their pieces."""


def count_calls(events: EventTable, shown: Flags, rows: Keys) -> Ints:
    """Return 1 for one event of each call, else 0.

    Operators that nest, as in PyTorch, are a call where they lie in no other of the same row; and all gradients of one
    forward call are one call. In graphs, where pieces lie side by side, it is what `_calls_in_graphs` finds. Where some
    calls are of the row's own operator, others, such as changes of layout for it, are pieces and no calls.
    """
    calls = outermost(events, shown, rows.codes)
    parent = parent_rows(events)
    flat = calls & _flat(events, shown, parent)
    nested = _own_calls(events, calls & ~flat, rows)
    counted = _first_of_gradient(events, nested, rows, parent) if nested.any() else nested
    if flat.any():
        counted |= _calls_in_graphs(events, flat, rows)
    return counted.astype(np.int64)


def _first_of_gradient(events: EventTable, calls: Flags, rows: Keys, parent: Ints) -> Flags:
    """Keep one of the gradients that belong to the same forward call, found by the sequence number of an operator."""
    sequence, direction = ints(events, "sequence_id"), coded(events, "direction")
    gradients = np.flatnonzero(calls & (sequence >= 0) & direction.where("backward".__eq__))
    forward = np.flatnonzero((sequence >= 0) & direction.where({"forward", "recompute"}.__contains__))
    if not len(gradients) or not len(forward):
        return calls
    forward = forward[np.lexsort((ints(events, "start_ns")[forward], sequence[forward]))]
    last = np.searchsorted(sequence[forward], sequence[gradients], side="right") - 1
    known = (last >= 0) & (sequence[forward[last]] == sequence[gradients])
    gradients = gradients[known]
    call = nearest(forward[last[known]], parent=parent, wanted=calls)
    calls = calls.copy()
    calls[gradients[call < 0]] = False  # of a piece
    return _first(calls, gradients[call >= 0], np.stack([rows.codes[gradients], call])[:, call >= 0])


def _calls_in_graphs(events: EventTable, flat: Flags, rows: Keys) -> Flags:
    """Keep one of the pieces of each call.

    All that an optimizer does in a step is one call; else the pieces of one module are. Where some pieces are the row's
    own operator only they count, since a graph may have moved it into the module of what follows it, and a module
    that calls it again is called again. Gradients outside of modules are called as often as their most frequent kernel.
    """
    module, direction = coded(events, "module").codes, coded(events, "direction")
    update, backward = (direction.where(way.__eq__) for way in ("update", "backward"))
    own = flat & _own_operator(events, rows)
    counted = _own_calls(events, flat, rows) | (flat & update)
    scope = np.where(update, -1, module)
    keys = np.stack([rows.codes, ints(events, "step"), scope])
    repeated = counted & own & ~update & ((module >= 0) != backward)
    counted = _most_frequent(counted, np.flatnonzero(repeated), keys, coded(events, "name").codes)
    once = np.flatnonzero(counted & ~repeated & (update | (module >= 0)))
    return _first(counted, once, keys[:, once])


def _most_frequent(calls: Flags, pieces: Ints, keys: Ints, name: Codes) -> Flags:
    """Of pieces that have the same keys, return only those of the name that occurs most."""
    kinds, kind, counts = np.unique(
        np.vstack([keys[:, pieces], name[pieces]]), axis=1, return_inverse=True, return_counts=True
    )
    order = np.lexsort((-counts, *kinds[:-1]))
    chosen = order[np.unique(kinds[:-1, order], axis=1, return_index=True)[1]]
    counted = calls.copy()
    counted[pieces] = np.isin(kind.reshape(-1), chosen)
    return counted


def _own_calls(events: EventTable, calls: Flags, rows: Keys) -> Flags:
    """Of each row keep the calls of its own operator, if there are any."""
    own = calls & _own_operator(events, rows)
    with_own = np.bincount(rows.codes, weights=own, minlength=len(rows.values)) > 0
    return calls & (own | ~with_own[rows.codes])


def _own_operator(events: EventTable, rows: Keys) -> Flags:
    """Flag the pieces that are the operator which their row is called by, or one of its family."""
    kin = families()
    number: dict[str, int] = {}
    operators = coded(events, "op")
    of_op = [number.setdefault(kin.get(op, op), len(number)) for op in operators.values]
    of_row = [-2 if name is None else number.get(kin.get(name, name), -2) for name, _ in rows.values]
    flags: Flags = np.array([*of_op, -1])[operators.codes] == np.array(of_row or [-2])[rows.codes]
    return flags


def _first(calls: Flags, pieces: Ints, keys: Ints) -> Flags:
    """Return the calls with only the first one of pieces that have the same keys."""
    counted = calls.copy()
    counted[pieces] = False
    counted[pieces[np.unique(keys, axis=1, return_index=True)[1]]] = True
    return counted


def _flat(events: EventTable, shown: Flags, parent: Ints) -> Flags:
    """Flag the events of frameworks whose operators do not nest."""
    operators = shown & coded(events, "kind").where({Kind.OP.value, Kind.KERNEL.value}.__contains__)
    inside = nearest(parent, parent=parent, wanted=operators) >= 0
    framework = coded(events, "framework")
    flags = np.zeros(len(events), np.bool_)
    for code in range(len(framework.values)):
        own = operators & (framework.codes == code)
        if own.any() and inside[own].mean() < _NESTING:
            flags |= framework.codes == code
    return flags
