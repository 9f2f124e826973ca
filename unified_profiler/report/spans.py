"""The events of a trace that last, as arrays: what call tree and timeline are drawn from."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.ancestry import parent_rows
from unified_profiler.analysis.categories import categories, category_codes
from unified_profiler.analysis.columns import Coded, coded, ints
from unified_profiler.analysis.op_tree import op_tree
from unified_profiler.analysis.tracks import TrackLayout, lay_out_tracks
from unified_profiler.model.nesting import Ints, of_kind
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.model.trace import Trace

_SORTS = {
    Kind.STEP.value: "step",
    Kind.REGION.value: "region",
    Kind.MODULE.value: "module",
    Kind.API_CALL.value: "api",
    Kind.COMPILE.value: "compile",
    Kind.RUNTIME.value: "runtime",
}
_NO_SPANS = frozenset({Kind.COUNTER.value, Kind.MEMORY.value})


class Spans:
    """One entry per span in every array."""

    def __init__(self, trace: Trace) -> None:
        self.info = trace.info
        lasting = coded(trace.events, "kind").where(lambda kind: kind not in _NO_SPANS)
        self.events: EventTable = trace.events if lasting.all() else trace.events.filter(pa.array(lasting))
        self.start = ints(self.events, "start_ns")
        self.duration = ints(self.events, "duration_ns")
        self.own = ints(self.events, "self_ns")
        self.depth = ints(self.events, "depth")
        self.steps = np.flatnonzero(of_kind(self.events, Kind.STEP))
        """The rows that are steps."""

    @cached_property
    def parent(self) -> Ints:
        """The row of the span around each, -1 without one."""
        return parent_rows(self.events)

    @cached_property
    def name(self) -> Coded:
        """The names."""
        return coded(self.events, "name")

    @cached_property
    def lanes(self) -> TrackLayout:
        """The threads and streams."""
        return lay_out_tracks(self.events)

    @cached_property
    def category(self) -> Ints:
        """The index of each span's sort in `sorts()`; kernels have that of the operator that they work for."""
        names = sorts()
        kind = coded(self.events, "kind")
        by_kind = np.array([*(names.index(_SORTS[text]) if text in _SORTS else -1 for text in kind.values), -1])
        codes = by_kind[kind.codes]
        codes = np.where(codes < 0, category_codes(self.events), codes)
        kernels = np.flatnonzero(kind.where(Kind.KERNEL.value.__eq__))
        if len(kernels):
            launcher = op_tree(self.events).launcher[kernels]
            codes[kernels[launcher >= 0]] = codes[launcher[launcher >= 0]]
        return codes


def sorts() -> tuple[str, ...]:
    """Return what spans are told apart by: the categories of operators, and what else there is."""
    return (*categories(), *_SORTS.values())
