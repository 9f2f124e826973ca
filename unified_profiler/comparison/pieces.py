"""What is compared: the events of a run that take time, each with the row that it belongs to and the step it ran in.

Three sorts: operators, the application's regions, and calls of the API. Each moment of a thread counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unified_profiler.analysis.ancestry import nearest, parent_rows, self_time
from unified_profiler.analysis.columns import Flags, coded, ints
from unified_profiler.analysis.op_calls import numbered, outermost, shown_calls
from unified_profiler.analysis.op_tree import op_tree
from unified_profiler.comparison.attention import AttentionPieces
from unified_profiler.comparison.calls import count_calls
from unified_profiler.comparison.keys import Keys, combined
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind, Layer

MakeKeys: TypeAlias = Callable[[EventTable], Keys]

PYTHON = "x:Python"
"""Row of what the framework's own annotations spend outside of operators: its Python."""
OUTSIDE_REGIONS = "x:OutsideRegions"
"""Row of what of a step lies in no region."""
COMPILED = "x:Compiled"
"""Canonical operator of a region that was compiled as a whole."""


@dataclass(frozen=True)
class Pieces:
    """Events of one trace, one entry each."""

    row: Keys
    part: Keys
    """What a row consists of: kernels, shapes, full names."""
    step: Ints
    """-1 outside of steps."""
    host_ns: Ints
    device_ns: Ints
    called: Keys
    """The row that counts the piece as a call: that of an optimizer counts its annotation."""
    counted: Ints
    """1 for the first piece of each call."""
    flops: Ints
    whole_ns: Ints
    """Time of the whole call, with all that is inside it."""
    call_ns: Ints
    """The same where single calls are compared, those of the API; else -1."""
    lane: Ints
    """Numbers of threads."""
    attention: Ints
    """1 for pieces of an attention that has no operator of its own, 2 for those of them that stand for its calls."""

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.step)


def operator_pieces(events: EventTable, *, row: MakeKeys, part: MakeKeys, canonical: bool = False) -> Pieces:
    """Return the operators of one trace: self times on the host, and the device work that each launched.

    Args:
        events: The trace.
        row: What makes the rows.
        part: What rows consist of.
        canonical: Whether rows are canonical operators. Then what the framework's own annotations take outside of
            operators has a row of its own, and pieces are counted as calls of what they are pieces of.
    """
    tree = op_tree(events, merge_duplicates=False)
    shown = shown_calls(events, tree) | (tree.on_device & (tree.launcher < 0))
    rows = row(events)
    unlaunched = np.where(tree.on_device & (tree.launcher < 0), ints(events, "duration_ns"), 0)
    return _chosen(
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
        lane=_lanes(events),
        attention=_attention(events) if canonical else np.zeros(len(events), np.int64),
    )


def region_pieces(events: EventTable) -> Pieces:
    """Return the regions of one trace, and what of each step lies in none of them."""
    node = coded(events, "kind").where({Kind.REGION.value, Kind.STEP.value}.__contains__)
    node &= coded(events, "layer").where(Layer.APPLICATION.value.__eq__)
    names = combined(events, "name")
    step = coded(events, "kind").where(Kind.STEP.value.__eq__)
    return _spans(
        events, node, row=names.replaced(step, (OUTSIDE_REGIONS, None)), part=names.replaced(node, (None, None))
    )


def api_pieces(events: EventTable, called: Callable[[str], str]) -> Pieces:
    """Return the API calls of one trace, in rows by what `called` makes of their names."""
    node = coded(events, "kind").where(Kind.API_CALL.value.__eq__)
    names = combined(events, "name")
    rows = Keys(names.codes, [(None if name is None else called(name), None) for name, _ in names.values])
    return _spans(events, node, row=rows.distinct(), part=names, call_ns=ints(events, "duration_ns"))


def _spans(events: EventTable, node: Flags, *, row: Keys, part: Keys, call_ns: Ints | None = None) -> Pieces:
    direct = parent_rows(events)
    own = self_time(ints(events, "duration_ns"), nearest(direct, parent=direct, wanted=node), node)
    nothing = np.zeros(len(events), np.int64)
    return _chosen(
        node,
        row=row,
        part=part,
        called=row,
        step=ints(events, "step"),
        host_ns=own,
        device_ns=nothing,
        counted=outermost(events, node, row.codes).astype(np.int64),
        flops=nothing,
        whole_ns=nothing,
        call_ns=nothing - 1 if call_ns is None else call_ns,
        lane=_lanes(events),
        attention=nothing,
    )


def _annotations(events: EventTable) -> Flags:
    """Flag the framework's own annotations, but for regions that were compiled as a whole: they have no operators."""
    spans = coded(events, "kind").where({Kind.REGION.value, Kind.STEP.value, Kind.MODULE.value}.__contains__)
    return spans & ~coded(events, "op").where(COMPILED.__eq__)


def _attention(events: EventTable) -> Ints:
    pieces = AttentionPieces.of(events)
    return pieces.member.astype(np.int64) + pieces.call


def _lanes(events: EventTable) -> Ints:
    return numbered([ints(events, name) for name in ("pid", "tid")])


def _chosen(shown: Flags, *, row: Keys, part: Keys, called: Keys, **columns: Ints) -> Pieces:
    chosen: Mapping[str, Ints] = {name: values[shown] for name, values in columns.items()}
    return Pieces(row=row.of(shown), part=part.of(shown), called=called.of(shown), **chosen)
