"""Assigns canonical operators to torch events: operator (`op`), cause (`origin`) and `direction`.

Each distinct name is looked up once, in table.py; the results are passed down the tree of nested events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags, Tree
from unified_profiler_torch.canonical.table import BACKWARD, FORWARD, RECOMPUTE, UPDATE, lookup
from unified_profiler_torch.read.args_layouts import MISSING

_MAX_ORDER = 8
"""Gradients of gradients are followed up to this order."""


@dataclass(frozen=True)
class Canonical:
    """Indices into `names` and `DIRECTIONS`, one per event, -1 for none."""

    names: list[str]
    op: Ints
    origin: Ints
    direction: Ints

    def copy_to_device_work(self, rows: Ints, launches: Ints, launching_ops: Ints) -> None:
        """Copy to work on a device the values of the call that launched it and of the operator around that call."""
        self.op[rows] = np.where(launching_ops >= 0, self.op[launching_ops], -1)
        self.origin[rows], self.direction[rows] = self.origin[launches], self.direction[launches]


def canonicalize(
    tree: Tree, names: Ints, texts: Sequence[str], is_op: Flags, sequence: Ints, start: Ints, lane: Ints
) -> Canonical:
    """Find op, origin and direction of every event.

    The origin of a forward event is the innermost Keras layer around it, else the outermost composite, else the
    outermost operator that the table lists. Reshapes and transposes next to an attention operator belong to it.
    Recomputed events in the backward pass are treated like forward events. All events in an autograd node have the
    origin of the operator that created the node; all events in an optimizer have that optimizer. In a node of unknown
    origin the rule of the forward pass applies.

    Args:
        tree: Nesting of the events.
        names: The name of each event, an index into `texts`.
        texts: The distinct names.
        is_op: Flags of operators and torch's own annotations; the names of other events are not looked up.
        sequence: Sequence numbers, `MISSING` for none.
        start: Start times.
        lane: Thread numbers.
    """
    by_name = _NameTable.build(texts, np.bincount(names[is_op], minlength=len(texts)) > 0)
    entry, rows = np.where(is_op, names, len(texts)), np.arange(len(names))
    marker = tree.inherit(np.where(by_name.marker_direction[entry] >= 0, rows, -1), outermost=False)
    in_marker, is_marker = marker >= 0, marker == rows
    direction = np.where(in_marker, by_name.marker_direction[entry[marker]], FORWARD)
    recomputes = direction == RECOMPUTE
    computes = (direction == FORWARD) | (recomputes & ~is_marker)
    forward = _outermost_operators(tree, by_name, entry, computes)
    forward = _assign_reshapes(tree, by_name.ops, np.where(computes, forward, -1), forward, start, lane)
    forward = _assign_layers(tree, by_name.ops, np.where(computes, by_name.layer[entry], -1), forward)
    scope = tree.inherit(np.where(recomputes & is_marker, rows, -1), outermost=False)
    has_origin = np.where(computes, forward >= 0, direction == BACKWARD)
    differentiable = np.flatnonzero(has_origin & is_op & ~is_marker & ~by_name.is_engine[entry])
    pairs = _match_nodes(
        np.flatnonzero(is_marker & (direction == BACKWARD)), differentiable, by_name.stem[entry], sequence, start, scope
    )
    has_cause, cause = in_marker & ~recomputes, np.where(is_marker, by_name.cause[entry], -1)
    origin = _origins(np.where(computes, forward, -1), cause, np.where(has_cause, marker, -1), pairs)
    if (unknown := has_cause & (origin < 0)).any():
        origin[unknown] = _outermost_operators(tree, by_name, entry, has_cause & ~by_name.is_engine[entry])[unknown]
    op = np.where(is_marker, by_name.marker_op[entry], by_name.kernel[entry])
    return Canonical(list(by_name.ops), op, origin, direction)


def _origins(forward: Ints, cause: Ints, marker: Ints, pairs: tuple[Ints, Ints]) -> Ints:
    """Return the origin of every event, -1 where unknown.

    The gradient of a gradient has the origin of the backward operator that it differentiates, which is known only
    after the origins of the first backward pass.

    Args:
        forward: Origins of forward and recomputed events; -1 for all others.
        cause: The origin that the name of a marker gives to all events inside it.
        marker: The node or optimizer around an event, -1 for none.
        pairs: Nodes and the operators that they differentiate.
    """
    node, operator = pairs
    origin = forward
    for _ in range(_MAX_ORDER):
        cause[node] = np.where(origin[operator] >= 0, origin[operator], cause[node])
        previous, origin = origin, np.where(marker >= 0, cause[marker], forward)
        if np.array_equal(origin, previous):
            break
    return origin


def _outermost_operators(tree: Tree, by_name: _NameTable, entry: Ints, selected: Flags) -> Ints:
    """Return for each event the outermost selected composite around it, else the outermost selected operator."""
    composite = tree.inherit(np.where(selected, by_name.composite[entry], -1), outermost=True)
    kernel = tree.inherit(np.where(selected, by_name.kernel[entry], -1), outermost=True)
    return np.where(composite >= 0, composite, kernel)


def _assign_layers(tree: Tree, ops: Index, own_layer: Ints, forward: Ints) -> Ints:
    """Set the origin of events to the innermost layer around them, except for activations that are its argument."""
    if not (own_layer >= 0).any():
        return forward
    table, layer = lookup(), tree.inherit(own_layer, outermost=False)
    has_activation, is_activation = (
        np.array([*(op in listed for op in ops), False]) for listed in (table.with_activation, table.activations)
    )
    keeps_origin = (layer < 0) | (has_activation[layer] & is_activation[forward])
    return np.where(keeps_origin, forward, layer)


def _assign_reshapes(tree: Tree, ops: Index, own: Ints, forward: Ints, start: Ints, lane: Ints) -> Ints:
    """Set the origin of reshapes and transposes next to an operator that owns them, such as attention."""
    for owner, reshapes in lookup().adjacent.items():
        if owner in ops and len(tops := np.flatnonzero((own >= 0) & ((tree.parent < 0) | (own[tree.parent] < 0)))):
            tops = tops[np.lexsort((start[tops], lane[tops]))]
            is_reshape = np.isin(own[tops], [ops[name] for name in reshapes if name in ops])
            owned = np.full(len(own), -1, np.int64)
            owned[tops[_adjacent_reshapes(own[tops], lane[tops], ops[owner], is_reshape)]] = ops[owner]
            owned = tree.inherit(owned, outermost=True)
            forward = np.where(owned >= 0, owned, forward)
    return forward


def _adjacent_reshapes(origin: Ints, lane: Ints, owner: int, is_reshape: Flags) -> Flags:
    """Flag reshapes directly before or after the owner, with only reshapes in between, in the order of execution."""
    index = np.arange(len(origin))
    previous = np.maximum.accumulate(np.where(is_reshape, -1, index))
    following = np.minimum.accumulate(np.where(is_reshape, len(origin), index)[::-1])[::-1]
    flags = np.zeros(len(origin), np.bool_)
    for neighbor, exists in ((previous, previous >= 0), (following, following < len(origin))):
        other = np.where(exists, neighbor, 0)
        flags |= exists & (origin[other] == owner) & (lane[other] == lane)
    return flags & is_reshape


def _match_nodes(
    nodes: Ints, operators: Ints, stem: Ints, sequence: Ints, start: Ints, scope: Ints
) -> tuple[Ints, Ints]:
    """Return the autograd nodes that have an operator, and the operators that they differentiate.

    An operator has the sequence number that the next node gets, so it is the last operator with this number before the
    node. Every thread counts separately: a pair with different names comes from two threads. Recomputed events in the
    backward pass have their own graph.

    Args:
        nodes: Rows of the nodes.
        operators: Rows of the operators.
        stem: The part of each event's name that operators and nodes share, -1 for nodes of any operator.
        sequence: Sequence numbers, `MISSING` for none.
        start: Start times.
        scope: The recomputation around each event, -1 for none.
    """
    rows = np.concatenate([operators, nodes])
    is_node = np.repeat([False, True], [len(operators), len(nodes)])[sequence[rows] != MISSING]
    rows = rows[sequence[rows] != MISSING]
    order = np.lexsort((start[rows], sequence[rows], scope[rows]))
    rows, is_node = rows[order], is_node[order]
    last = np.maximum.accumulate(np.where(is_node, -1, np.arange(len(rows))))[is_node]
    node, operator = rows[is_node], rows[last]
    same_graph = (sequence[node] == sequence[operator]) & (scope[node] == scope[operator])
    same_name = (stem[node] < 0) | (stem[operator] == stem[node])
    matches = (last >= 0) & same_graph & same_name
    return node[matches], operator[matches]


@dataclass(frozen=True)
class _NameTable:
    """Properties of each distinct name; the entry after the last name is for events that are not operators."""

    ops: Index
    """Codes of the canonical operators that the other columns refer to."""
    kernel: Ints
    composite: Ints
    layer: Ints
    """The operator of a layer with this name."""
    cause: Ints
    """The operator that a node of this name differentiates, or the optimizer of this name."""
    marker_op: Ints
    marker_direction: Ints
    """The direction of all events inside a marker of this name."""
    is_engine: Flags
    """Names of the autograd engine itself, which are never an origin."""
    stem: Ints
    """The part that an operator's name shares with its autograd node, -1 for nodes of any operator."""

    @classmethod
    def build(cls, texts: Sequence[str], used: Flags) -> _NameTable:
        """Look up the names that are used."""
        ops, stems, table = Index(), Index(), lookup()
        columns = np.full((8, len(texts) + 1), -1, np.int64)
        for code in np.flatnonzero(used).tolist():
            name = texts[code]
            kernel, composite, stem = table.kernel(name), table.function(name), table.stem(name)
            direction, cause = table.marker(name) or (-1, None)
            marker_op = cause if direction == UPDATE else kernel
            codes = [-1 if op is None else ops[op] for op in (kernel, composite, table.layer(name), cause, marker_op)]
            columns[:, code] = *codes, direction, kernel == "x:Dispatch", -1 if stem is None else stems[stem]
        kernels, composites, layers, causes, marker_ops, directions, is_engine, stem_codes = columns
        return cls(ops, kernels, composites, layers, causes, marker_ops, directions, is_engine == 1, stem_codes)
