"""Recognizes attention that a framework runs as single operators: two matrix products around a softmax.

A framework without a fused operator, or a model that computes attention by hand, has no row called Attention. Its
pieces are recognized by the module that they ran in, where modules were recorded, and else by the order of operators.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unified_profiler.analysis.ancestry import nearest, parent_rows
from unified_profiler.analysis.columns import Flags, coded, ints
from unified_profiler.analysis.op_calls import numbered
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


@dataclass(frozen=True)
class AttentionPieces:
    """Which events of one trace are pieces of an attention, and which of these stand for its calls."""

    member: Flags
    call: Flags

    @classmethod
    def of(cls, events: EventTable) -> AttentionPieces:
        """Recognize the pieces, forward and backward."""
        search = _Search(events)
        forward = search.by_order() | search.by_module()
        member = forward | search.gradients_of(forward)
        return cls(member, member & search.origin_is({_SOFTMAX}))


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
        """Flag a softmax, the matrix products before and after it, what scales or masks between, and layouts beside.

        Only operators that no other operator encloses are looked at; what is inside them follows.
        """
        outer = nearest(self._parent, parent=self._parent, wanted=self._forward) < 0
        tops = np.flatnonzero(self._forward & outer)
        lane = numbered([ints(self._events, name) for name in ("pid", "tid")])
        tops = tops[np.lexsort((ints(self._events, "start_ns")[tops], lane[tops]))]
        flags = np.zeros(len(self._events), np.bool_)
        flags[tops[self._around_softmax(tops, lane[tops])]] = True
        return flags | (nearest(self._parent, parent=self._parent, wanted=flags) >= 0)

    def _around_softmax(self, tops: Ints, lane: Ints) -> Flags:
        softmax, product = self.origin_is({_SOFTMAX})[tops], self._batched_products()[tops]
        before, after = _beyond(self.origin_is(_BETWEEN)[tops])
        at = np.flatnonzero(softmax & (before >= 0) & (after < len(tops)))
        at = at[product[before[at]] & product[after[at]] & (lane[before[at]] == lane[after[at]])]
        covered = _covered(len(tops), before[at], after[at])
        layout = self.origin_is(_LAYOUTS)[tops]
        return covered | (layout & _beside(covered, lane, *_beyond(layout)))

    def _batched_products(self) -> Flags:
        """Flag matrix products of stacks of matrices; where shapes were not recorded, all of them."""
        return self.origin_is(_PRODUCTS) & ~coded(self._events, "input_shapes").where(_has_plain_matrix)

    def by_module(self) -> Flags:
        """Flag the pieces in modules that are called attention and hold a softmax between matrix products."""
        named = coded(self._events, "kind").where(Kind.MODULE.value.__eq__)
        named &= coded(self._events, "name").where(lambda name: ATTENTION.lower() in name.lower())
        inside = self._forward & np.isin(self._module.codes, np.unique(self._module.codes[named]))
        for names in (_PRODUCTS, {_SOFTMAX}):
            inside &= np.isin(self._module.codes, self._module.codes[inside & self.origin_is(names)])
        return inside & (self._module.codes >= 0) & self.origin_is(_PRODUCTS | {_SOFTMAX} | _BETWEEN)

    def gradients_of(self, forward: Flags) -> Flags:
        """Flag the gradients of flagged operators: those with their sequence numbers, or of their module and origin."""
        backward = self._direction.where("backward".__eq__)
        sequence = ints(self._events, "sequence_id")
        last = _last_by_number(sequence, np.flatnonzero(self._forward), ints(self._events, "start_ns"))
        known = backward & (sequence >= 0) & np.isin(sequence, sequence[last[forward[last]]])
        known |= backward & (nearest(self._parent, parent=self._parent, wanted=known) >= 0)
        place = self._module.codes.astype(np.int64) * len(self._origin.values) + self._origin.codes
        in_module = (self._module.codes >= 0) & (self._origin.codes >= 0)
        return known | (backward & in_module & (sequence < 0) & np.isin(place, place[forward & in_module]))


def _beyond(skipped: Flags) -> tuple[Ints, Ints]:
    """Return the last place before, and the first place after, each place that is not skipped itself."""
    places = np.arange(len(skipped))
    before = np.maximum.accumulate(np.where(skipped, -1, places)) if len(places) else places
    after = np.minimum.accumulate(np.where(skipped, len(places), places)[::-1])[::-1] if len(places) else places
    return np.append(-1, before)[:-1], np.append(after, len(places))[1:]


def _covered(count: int, first: Ints, last: Ints) -> Flags:
    """Flag the places from each first to the last that belongs to it."""
    edges = np.bincount(first, minlength=count + 1) - np.bincount(last + 1, minlength=count + 1)
    flags: Flags = np.cumsum(edges)[:count] > 0
    return flags


def _beside(wanted: Flags, lane: Ints, before: Ints, after: Ints) -> Flags:
    """Flag the places next to a wanted one of the same thread, on either side."""
    flags = np.zeros(len(wanted), np.bool_)
    for neighbor, known in ((before, before >= 0), (after, after < len(wanted))):
        other = np.where(known, neighbor, 0)
        flags |= known & wanted[other] & (lane[other] == lane)
    return flags


def _last_by_number(sequence: Ints, operators: Ints, start: Ints) -> Ints:
    """Return the last operator of each sequence number, which is the one that its gradient belongs to."""
    operators = operators[sequence[operators] >= 0]
    operators = operators[np.lexsort((start[operators], sequence[operators]))]
    is_last = np.append(np.diff(sequence[operators]) != 0, [True] * bool(len(operators)))
    last: Ints = operators[is_last.astype(np.bool_)]
    return last


def _has_plain_matrix(shapes: str) -> bool:
    """Say whether one of the first two inputs has fewer dimensions than a stack of matrices."""
    try:
        inputs: Any = json.loads(shapes)
    except ValueError:
        return False
    ranks = [len(each) for each in inputs[:2] if _is_shape(each)] if isinstance(inputs, list) else []
    return len(ranks) == 2 and min(ranks) < _BATCHED_RANK


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(size, int) for size in value)
