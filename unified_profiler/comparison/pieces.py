"""Selects the events that a diff compares, each with its row and step: operators, user regions or API calls.

The time of each thread counts once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unified_profiler.analysis.ancestry import nearest, parent_rows, self_time
from unified_profiler.analysis.columns import Flags, coded, ints, thread_numbers
from unified_profiler.analysis.op_calls import outermost, shown_calls
from unified_profiler.analysis.op_tree import op_tree
from unified_profiler.comparison.attention import attention_pieces
from unified_profiler.comparison.calls import count_calls
from unified_profiler.comparison.keys import Keys, column_keys
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind, Layer

MakeKeys: TypeAlias = Callable[[EventTable], Keys]

PYTHON = "x:Python"
"""The row of the time that the framework's own annotations spend outside of operators: its Python."""
OUTSIDE_REGIONS = "x:OutsideRegions"
"""The row of the time of a step outside all regions."""
COMPILED = "x:Compiled"
"""The canonical operator of a region that was compiled as a whole."""


@dataclass(frozen=True)
class Pieces:
    """Events of one trace, one entry each."""

    row: Keys
    part: Keys
    """The parts of a row: kernels, shapes, full names."""
    step: Ints
    """-1 outside of steps."""
    host_ns: Ints
    device_ns: Ints
    called: Keys
    """The row that counts the piece as a call; an optimizer's row counts its annotation."""
    counted: Ints
    """1 for the first piece of each call."""
    flops: Ints
    whole_ns: Ints
    """Total time of the call."""
    call_ns: Ints
    """The same for API calls, else -1."""
    lane: Ints
    """Numbers of threads."""
    attention: Ints
    """1 for pieces of an attention that has no operator of its own, 2 for those of them that stand for its calls."""

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.step)


def operator_pieces(events: EventTable, *, row: MakeKeys, part: MakeKeys, canonical: bool = False) -> Pieces:
    """Return the operators of one trace: self times on the host, and the device work that each launched.

    Args:
        events: The trace.
        row: Returns the rows.
        part: Returns the parts of the rows.
        canonical: Whether rows are canonical operators. Then the time of the framework's own annotations outside of
            operators has its own row, and the pieces of one call count as one call.
    """
    tree = op_tree(events, merge_duplicates=False)
    shown = shown_calls(events, tree) | (tree.on_device & (tree.launcher < 0))
    rows = row(events)
    unlaunched = np.where(tree.on_device & (tree.launcher < 0), ints(events, "duration_ns"), 0)
    return _select(
        shown,
        row=rows.replaced(_annotations(events), (PYTHON, None)) if canonical else rows,
        part=part(events),
        called=rows,
        step=ints(events, "step"),
        host_ns=tree.cpu.own,
        device_ns=tree.device.own + unlaunched,
        counted=count_calls(events, shown, rows) if canonical else shown.astype(np.int64),
        flops=ints(events, "flops", null=0),
        whole_ns=np.where(tree.device.total > 0, tree.device.total, tree.cpu.total),
        call_ns=np.full(len(events), -1),
        lane=thread_numbers(events),
        attention=attention_pieces(events) if canonical else np.zeros(len(events), np.int64),
    )


def region_pieces(events: EventTable) -> Pieces:
    """Return the regions of one trace, and the rest of each step."""
    node = coded(events, "kind").where({Kind.REGION.value, Kind.STEP.value}.__contains__)
    node &= coded(events, "layer").where(Layer.APPLICATION.value.__eq__)
    names = column_keys(events, "name")
    step = coded(events, "kind").where(Kind.STEP.value.__eq__)
    return _spans(
        events, node, row=names.replaced(step, (OUTSIDE_REGIONS, None)), part=names.replaced(node, (None, None))
    )


def api_pieces(events: EventTable, called: Callable[[str], str]) -> Pieces:
    """Return the API calls of one trace; `called` converts their names to rows."""
    node = coded(events, "kind").where(Kind.API_CALL.value.__eq__)
    names = column_keys(events, "name")
    rows = Keys(names.codes, [(None if name is None else called(name), None) for name, _ in names.values])
    return _spans(events, node, row=rows.distinct(), part=names, call_ns=ints(events, "duration_ns"))


def _spans(events: EventTable, node: Flags, *, row: Keys, part: Keys, call_ns: Ints | None = None) -> Pieces:
    direct = parent_rows(events)
    own = self_time(ints(events, "duration_ns"), nearest(direct, parent=direct, wanted=node), node)
    zeros = np.zeros(len(events), np.int64)
    return _select(
        node,
        row=row,
        part=part,
        called=row,
        step=ints(events, "step"),
        host_ns=own,
        device_ns=zeros,
        counted=outermost(events, node, row.codes).astype(np.int64),
        flops=zeros,
        whole_ns=zeros,
        call_ns=zeros - 1 if call_ns is None else call_ns,
        lane=thread_numbers(events),
        attention=zeros,
    )


def _annotations(events: EventTable) -> Flags:
    """Return the framework's own annotations, except regions compiled as a whole, which have no operators."""
    spans = coded(events, "kind").where({Kind.REGION.value, Kind.STEP.value, Kind.MODULE.value}.__contains__)
    return spans & ~coded(events, "op").where(COMPILED.__eq__)


def _select(shown: Flags, *, row: Keys, part: Keys, called: Keys, **columns: Ints) -> Pieces:
    selected = {name: values[shown] for name, values in columns.items()}
    return Pieces(row=row.of(shown), part=part.of(shown), called=called.of(shown), **selected)
