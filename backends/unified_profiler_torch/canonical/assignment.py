"""Canonical operators of torch events: what each is (`op`), what caused it (`origin`) and in which direction.

Names are looked up once per distinct name, in canonical_table.py; the rest is handed down the tree of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints
from unified_profiler.model.tree import Flags, Tree
from unified_profiler_torch.canonical.table import BACKWARD, FORWARD, RECOMPUTE, UPDATE, lookup
from unified_profiler_torch.read.args import MISSING

_MOST_ORDERS = 8
"""Gradients of gradients are followed up to this order."""


@dataclass(frozen=True)
class Canonical:
    """Numbers into `names` and `DIRECTIONS`, one per event, -1 for none."""

    names: list[str]
    op: Ints
    origin: Ints
    direction: Ints

    def follow(self, rows: Ints, launches: Ints, launching_ops: Ints) -> None:
        """Give work on a device what the call that launched it has."""
        self.op[rows] = np.where(launching_ops >= 0, self.op[launching_ops], -1)
        self.origin[rows], self.direction[rows] = self.origin[launches], self.direction[launches]


def canonicalize(
    tree: Tree, names: Ints, texts: Sequence[str], is_op: Flags, sequence: Ints, start: Ints, lane: Ints
) -> Canonical:
    """Find op, origin and direction of every event.

    The origin of a forward event is the innermost layer of Keras that encloses it, else the outermost composite, else
    the outermost operator with a name.
    What only brings tensors into the layout that an attention takes, or out of the one it gives, belongs to it.
    The same holds for what is computed again in the backward pass.
    Everything in an autograd node has the origin of the operator that made the node, everything in an
    optimizer that optimizer. What a node of unknown origin calls is its own origin, as in forward.

    Args:
        tree: How the events nest.
        names: The name of each event, as a number.
        texts: The names.
        is_op: Which events are operators or torch's own annotations; other names mean nothing here.
        sequence: Sequence numbers, `MISSING` for none.
        start: Start times.
        lane: Numbers of threads.
    """
    by_name = _ByName.of(texts, np.bincount(names[is_op], minlength=len(texts)) > 0)
    at, rows = np.where(is_op, names, len(texts)), np.arange(len(names))
    marker = tree.inherit(np.where(by_name.mark[at] >= 0, rows, -1), outermost=False)
    marked, is_marker = marker >= 0, marker == rows
    direction = np.where(marked, by_name.mark[at[marker]], FORWARD)
    recomputes = direction == RECOMPUTE
    computes = (direction == FORWARD) | (recomputes & ~is_marker)
    forward = _outermost(tree, by_name, at, computes)
    forward = _with_layouts(tree, by_name.ops, np.where(computes, forward, -1), forward, start, lane)
    forward = _with_layers(tree, by_name.ops, np.where(computes, by_name.layer[at], -1), forward)
    scope = tree.inherit(np.where(recomputes & is_marker, rows, -1), outermost=False)
    known = np.where(computes, forward >= 0, direction == BACKWARD) & is_op & ~is_marker & ~by_name.is_plumbing[at]
    pairs = _Join(by_name.stem[at], sequence, start, scope).pairs(
        np.flatnonzero(is_marker & (direction == BACKWARD)), np.flatnonzero(known)
    )
    caused, cause = marked & ~recomputes, np.where(is_marker, by_name.cause[at], -1)
    origin = _origins(np.where(computes, forward, -1), cause, np.where(caused, marker, -1), pairs)
    if (unknown := caused & (origin < 0)).any():
        origin[unknown] = _outermost(tree, by_name, at, caused & ~by_name.is_plumbing[at])[unknown]
    return Canonical(list(by_name.ops), np.where(is_marker, by_name.own_op[at], by_name.kernel[at]), origin, direction)


def _origins(forward: Ints, cause: Ints, marker: Ints, pairs: tuple[Ints, Ints]) -> Ints:
    """Return the origin of every event, as far as it is known.

    The gradient of a gradient has the origin of the operator of a backward pass that it differentiates, which is
    itself known only after those of the first backward pass are.

    Args:
        forward: Origins of what is computed, and computed again; -1 for everything else.
        cause: What the name of a marker tells of the origin of all that is in it.
        marker: The node or optimizer that an event is in, -1 for none.
        pairs: Nodes and the operators that they differentiate.
    """
    node, operator = pairs
    origin = forward
    for _ in range(_MOST_ORDERS):
        cause[node] = np.where(origin[operator] >= 0, origin[operator], cause[node])
        found = np.where(marker >= 0, cause[marker], forward)
        if np.array_equal(found, origin):
            break
        origin = found
    return origin


def _outermost(tree: Tree, by_name: _ByName, at: Ints, wanted: Flags) -> Ints:
    """Return the operator of the outermost wanted composite, else of the outermost wanted operator, of each event."""
    composite = tree.inherit(np.where(wanted, by_name.composite[at], -1), outermost=True)
    return np.where(composite >= 0, composite, tree.inherit(np.where(wanted, by_name.kernel[at], -1), outermost=True))


def _with_layers(tree: Tree, ops: Index, own: Ints, forward: Ints) -> Ints:
    """Give events the origin of the innermost layer they are in, but for an activation that is an argument of it."""
    if not (own >= 0).any():
        return forward
    table, layer = lookup(), tree.inherit(own, outermost=False)
    has_activation, is_activation = (
        np.array([*(op in wanted for op in ops), False]) for wanted in (table.with_activation, table.activations)
    )
    keeps = (layer < 0) | (has_activation[layer] & is_activation[forward])
    return np.where(keeps, forward, layer)


def _with_layouts(tree: Tree, ops: Index, own: Ints, forward: Ints, start: Ints, lane: Ints) -> Ints:
    """Give changes of layout the origin of what they directly precede or follow, with nothing else between."""
    for owner, layouts in lookup().beside.items():
        if owner in ops and len(tops := np.flatnonzero((own >= 0) & ((tree.parent < 0) | (own[tree.parent] < 0)))):
            tops = tops[np.lexsort((start[tops], lane[tops]))]
            chosen = _beside(own[tops], lane[tops], ops[owner], [ops[name] for name in layouts if name in ops])
            above = np.full(len(own), -1, np.int64)
            above[tops[chosen]] = ops[owner]
            above = tree.inherit(above, outermost=True)
            forward = np.where(above >= 0, above, forward)
    return forward


def _beside(origin: Ints, lane: Ints, owner: int, layouts: Sequence[int]) -> Flags:
    """Flag the layouts between which and an owner there are only layouts; operators are in the order they ran in."""
    layout, places = np.isin(origin, layouts), np.arange(len(origin))
    before = np.maximum.accumulate(np.where(layout, -1, places))
    after = np.minimum.accumulate(np.where(layout, len(origin), places)[::-1])[::-1]
    flags = np.zeros(len(origin), np.bool_)
    for place, known in ((before, before >= 0), (after, after < len(origin))):
        other = np.where(known, place, 0)
        flags |= known & (origin[other] == owner) & (lane[other] == lane)
    return flags & layout


@dataclass(frozen=True)
class _Join:
    """Finds the operators that autograd nodes differentiate.

    An operator carries the number that the next node gets, so that it is the last one with this number. Every thread
    counts for itself: a pair of which the names do not fit either comes from different threads. What is computed again
    within the backward pass has its own graph.
    """

    stem: Ints
    sequence: Ints
    start: Ints
    scope: Ints
    """The recomputation that an event is in, -1 for none."""

    def pairs(self, nodes: Ints, operators: Ints) -> tuple[Ints, Ints]:
        """Return nodes and their operators; nodes without one are left out."""
        rows = np.concatenate([operators, nodes])
        is_node = np.repeat([False, True], [len(operators), len(nodes)])[self.sequence[rows] != MISSING]
        rows = rows[self.sequence[rows] != MISSING]
        order = np.lexsort((self.start[rows], self.sequence[rows], self.scope[rows]))
        rows, is_node = rows[order], is_node[order]
        last = np.maximum.accumulate(np.where(is_node, -1, np.arange(len(rows))))[is_node]
        nodes, found = rows[is_node], rows[last]
        called_alike = (self.stem[nodes] < 0) | (self.stem[found] == self.stem[nodes])
        same = (self.sequence[nodes] == self.sequence[found]) & (self.scope[nodes] == self.scope[found])
        fits = (last >= 0) & same & called_alike
        return nodes[fits], found[fits]


@dataclass(frozen=True)
class _ByName:
    """What each name means; the entry after the last name stands for "not an operator"."""

    ops: Index
    kernel: Ints
    composite: Ints
    layer: Ints
    """What a layer of that name is."""
    cause: Ints
    """What a node of that name is the gradient of, or which optimizer it is."""
    own_op: Ints
    mark: Ints
    """The direction that begins with it."""
    is_plumbing: Flags
    """Names of the engine itself, which are nobody's origin."""
    stem: Ints
    """What an operator and the node of its gradient have in common, -1 for nodes of any operator."""

    @classmethod
    def of(cls, texts: Sequence[str], used: Flags) -> _ByName:
        """Look up the names that are used."""
        ops, stems, table = Index(), Index(), lookup()
        columns = np.full((8, len(texts) + 1), -1, np.int64)
        for number in np.flatnonzero(used).tolist():
            name = texts[number]
            kernel, composite = table.kernel(name), table.function(name)
            direction, cause = table.marks(name) or (-1, None)
            own = cause if direction == UPDATE else kernel
            found = [-1 if op is None else ops[op] for op in (kernel, composite, table.layer(name), cause, own)]
            stem = table.stem(name)
            columns[:, number] = *found, direction, kernel == "x:Dispatch", -1 if stem is None else stems[stem]
        kernels, composites, layers, causes, own_ops, marks, is_plumbing, stem_of = columns
        return cls(ops, kernels, composites, layers, causes, own_ops, marks, is_plumbing == 1, stem_of)
