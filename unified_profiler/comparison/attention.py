"""Recognizes attention that a framework runs as single operators: two matrix products around a softmax.

A framework without a fused operator, or a model that computes attention by hand, has no row called Attention. The
pieces are recognized by their module, if modules were recorded, or by the order of operators.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np

from unified_profiler.analysis.ancestry import nearest, parent_rows
from unified_profiler.analysis.columns import Flags, coded, ints, thread_numbers
from unified_profiler.comparison.families import families
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind

ATTENTION = "Attention"
_SOFTMAX = "Softmax"
_PRODUCTS = frozenset({"MatMul", "Einsum"})
_SCALING = frozenset({"Mul", "Div", "Add", "Sub", "Sum", "Cast", "Clip", "Max", "Min", "Dropout"})
_MASKING = frozenset(
    {"Where", "Trilu", "ConstantOfShape", "Range", "Not", "And", "Or", "Equal", "Less", "LessOrEqual", "Greater"}
    | {"GreaterOrEqual", "ScatterND", "ScatterElements"}
)
_LAYOUTS = frozenset(name for name, family in families().items() if family == "x:DataMovement") | {"x:Alloc", "x:NoOp"}
_BETWEEN = _SCALING | _MASKING | _LAYOUTS
_BATCHED_RANK = 3


def attention_pieces(events: EventTable) -> Ints:
    """Return 1 for pieces of an attention, forward and backward, 2 for those that represent its calls, else 0."""
    search = _Search(events)
    forward = search.by_order() | search.by_module()
    member = forward | search.gradients_of(forward)
    return member.astype(np.int64) + (member & search.origin_is({_SOFTMAX}))


class _Search:
    """The events of one trace, as the search for attention needs them."""

    def __init__(self, events: EventTable) -> None:
        self._events = events
        self._origin = coded(events, "origin")
        self._direction = coded(events, "direction")
        self._module = coded(events, "module")
        self._parent = parent_rows(events)

    def origin_is(self, names: frozenset[str] | set[str]) -> Flags:
        return self._origin.where(names.__contains__)

    @cached_property
    def _forward(self) -> Flags:
        operators = coded(self._events, "kind").where({Kind.OP.value, Kind.KERNEL.value}.__contains__)
        return operators & ~self._direction.where({"backward", "update"}.__contains__)

    def by_order(self) -> Flags:
        """Mark each softmax, the matrix products around it, scaling and masking in between, and adjacent layouts.

        Only outermost operators are examined; the operators inside them follow.
        """
        outer = nearest(self._parent, parent=self._parent, wanted=self._forward) < 0
        tops = np.flatnonzero(self._forward & outer)
        lane = thread_numbers(self._events)
        tops = tops[np.lexsort((ints(self._events, "start_ns")[tops], lane[tops]))]
        flags = np.zeros(len(self._events), np.bool_)
        flags[tops[self._around_softmax(tops, lane[tops])]] = True
        return flags | (nearest(self._parent, parent=self._parent, wanted=flags) >= 0)

    def _around_softmax(self, tops: Ints, lane: Ints) -> Flags:
        softmax, product = self.origin_is({_SOFTMAX})[tops], self._batched_products()[tops]
        before, after = _nearest_unskipped(self.origin_is(_BETWEEN)[tops])
        at = np.flatnonzero(softmax & (before >= 0) & (after < len(tops)))
        at = at[product[before[at]] & product[after[at]] & (lane[before[at]] == lane[after[at]])]
        covered = _covered(len(tops), before[at], after[at])
        layout = self.origin_is(_LAYOUTS)[tops]
        return covered | (layout & _adjacent(covered, lane, *_nearest_unskipped(layout)))

    def _batched_products(self) -> Flags:
        """Mark matrix products of stacks of matrices; all products if shapes were not recorded."""
        return self.origin_is(_PRODUCTS) & ~coded(self._events, "input_shapes").where(_has_plain_matrix)

    def by_module(self) -> Flags:
        """Mark the pieces in modules named attention that contain a softmax and matrix products."""
        named = coded(self._events, "kind").where(Kind.MODULE.value.__eq__)
        named &= coded(self._events, "name").where(lambda name: ATTENTION.lower() in name.lower())
        inside = self._forward & np.isin(self._module.codes, np.unique(self._module.codes[named]))
        for names in (_PRODUCTS, {_SOFTMAX}):
            inside &= np.isin(self._module.codes, self._module.codes[inside & self.origin_is(names)])
        return inside & (self._module.codes >= 0) & self.origin_is(_PRODUCTS | {_SOFTMAX} | _BETWEEN)

    def gradients_of(self, forward: Flags) -> Flags:
        """Mark the gradients of forward operators: by sequence number, or by module and origin."""
        backward = self._direction.where("backward".__eq__)
        sequence = ints(self._events, "sequence_id")
        last = _last_by_number(sequence, np.flatnonzero(self._forward), ints(self._events, "start_ns"))
        known = backward & (sequence >= 0) & np.isin(sequence, sequence[last[forward[last]]])
        known |= backward & (nearest(self._parent, parent=self._parent, wanted=known) >= 0)
        key = self._module.codes.astype(np.int64) * len(self._origin.values) + self._origin.codes
        in_module = (self._module.codes >= 0) & (self._origin.codes >= 0)
        return known | (backward & in_module & (sequence < 0) & np.isin(key, key[forward & in_module]))


def _nearest_unskipped(skipped: Flags) -> tuple[Ints, Ints]:
    """Return for each index the nearest index before it, and after it, that is not skipped."""
    indices = np.arange(len(skipped))
    before = np.maximum.accumulate(np.where(skipped, -1, indices))
    after = np.minimum.accumulate(np.where(skipped, len(indices), indices)[::-1])[::-1]
    return np.append(-1, before)[:-1], np.append(after, len(indices))[1:]


def _covered(count: int, first: Ints, last: Ints) -> Flags:
    """Mark the indices from each first to its last."""
    edges = np.bincount(first, minlength=count + 1) - np.bincount(last + 1, minlength=count + 1)
    flags: Flags = np.cumsum(edges)[:count] > 0
    return flags


def _adjacent(wanted: Flags, lane: Ints, before: Ints, after: Ints) -> Flags:
    """Mark the indices whose neighbor on either side is wanted and on the same thread."""
    flags = np.zeros(len(wanted), np.bool_)
    for neighbor, known in ((before, before >= 0), (after, after < len(wanted))):
        other = np.where(known, neighbor, 0)
        flags |= known & wanted[other] & (lane[other] == lane)
    return flags


def _last_by_number(sequence: Ints, operators: Ints, start: Ints) -> Ints:
    """Return the last operator of each sequence number, to which the gradient belongs."""
    operators = operators[sequence[operators] >= 0]
    operators = operators[np.lexsort((start[operators], sequence[operators]))]
    is_last = np.append(np.diff(sequence[operators]) != 0, [True] * bool(len(operators)))
    last: Ints = operators[is_last.astype(np.bool_)]
    return last


def _has_plain_matrix(shapes: str) -> bool:
    """Return whether one of the first two inputs has fewer dimensions than a stack of matrices."""
    try:
        inputs: Any = json.loads(shapes)
    except ValueError:
        return False
    ranks = [len(each) for each in inputs[:2] if _is_shape(each)] if isinstance(inputs, list) else []
    return len(ranks) == 2 and min(ranks) < _BATCHED_RANK


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(size, int) for size in value)
