"""Counts the calls of an operator or layer of which only the pieces were recorded."""

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
"""The smallest share of nested operators for which a framework's calls are recognized by nesting."""


def count_calls(events: EventTable, shown: Flags, rows: Keys) -> Ints:
    """Return 1 for one event of each call, else 0.

    An operator of a framework whose operators nest, such as PyTorch, is a call if it is not inside another one of the
    same row, and all gradients of one forward call are one call. For graphs, whose pieces do not nest, see
    `_calls_in_graphs`. If some calls are of the row's own operator, others, such as layout changes for it, are pieces.
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
    """Keep one of the gradients of the same forward call, which is found by the operator's sequence number."""
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
    calls[gradients[call < 0]] = False  # gradients of pieces
    return _first(calls, gradients[call >= 0], np.stack([rows.codes[gradients], call])[:, call >= 0])


def _calls_in_graphs(events: EventTable, flat: Flags, rows: Keys) -> Flags:
    """Keep one of the pieces of each call.

    All work of an optimizer in a step is one call; otherwise the pieces of one module are. If some pieces are the row's
    own operator, only they count, since a graph may have moved it into the module of its successor, and each time a
    module calls it is a call. Gradients outside of modules count as often as their most frequent kernel.
    """
    module, direction = coded(events, "module").codes, coded(events, "direction")
    update, backward = (direction.where(name.__eq__) for name in ("update", "backward"))
    own = flat & _own_operator(events, rows)
    counted = _own_calls(events, flat, rows) | (flat & update)
    scope = np.where(update, -1, module)
    keys = np.stack([rows.codes, ints(events, "step"), scope])
    repeated = counted & own & ~update & ((module >= 0) != backward)
    counted = _most_frequent(counted, np.flatnonzero(repeated), keys, coded(events, "name").codes)
    once = np.flatnonzero(counted & ~repeated & (update | (module >= 0)))
    return _first(counted, once, keys[:, once])


def _most_frequent(calls: Flags, pieces: Ints, keys: Ints, name: Codes) -> Flags:
    """Keep only the most frequent name of pieces with the same keys."""
    kinds, kind, counts = np.unique(
        np.vstack([keys[:, pieces], name[pieces]]), axis=1, return_inverse=True, return_counts=True
    )
    order = np.lexsort((-counts, *kinds[:-1]))
    chosen = order[np.unique(kinds[:-1, order], axis=1, return_index=True)[1]]
    counted = calls.copy()
    counted[pieces] = np.isin(kind.reshape(-1), chosen)
    return counted


def _own_calls(events: EventTable, calls: Flags, rows: Keys) -> Flags:
    """Keep the calls of each row's own operator, if there are any."""
    own = calls & _own_operator(events, rows)
    with_own = np.bincount(rows.codes, weights=own, minlength=len(rows.values)) > 0
    return calls & (own | ~with_own[rows.codes])


def _own_operator(events: EventTable, rows: Keys) -> Flags:
    """Return the pieces whose operator is that of their row, or of the same family."""
    family = families()
    number: dict[str, int] = {}
    operators = coded(events, "op")
    of_op = [number.setdefault(family.get(op, op), len(number)) for op in operators.values]
    of_row = [-2 if name is None else number.get(family.get(name, name), -2) for name, _ in rows.values]
    flags: Flags = np.array([*of_op, -1])[operators.codes] == np.array(of_row or [-2])[rows.codes]
    return flags


def _first(calls: Flags, pieces: Ints, keys: Ints) -> Flags:
    """Keep only the first of pieces with the same keys."""
    counted = calls.copy()
    counted[pieces] = False
    counted[pieces[np.unique(keys, axis=1, return_index=True)[1]]] = True
    return counted


def _flat(events: EventTable, shown: Flags, parent: Ints) -> Flags:
    """Return the events of frameworks whose operators do not nest."""
    operators = shown & coded(events, "kind").where({Kind.OP.value, Kind.KERNEL.value}.__contains__)
    inside = nearest(parent, parent=parent, wanted=operators) >= 0
    framework = coded(events, "framework")
    flags = np.zeros(len(events), np.bool_)
    for code in range(len(framework.values)):
        own = operators & (framework.codes == code)
        if own.any() and inside[own].mean() < _NESTING:
            flags |= framework.codes == code
    return flags
