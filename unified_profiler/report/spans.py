"""Arrays of the spans (events with a duration) of a trace, for the call tree and the timeline."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.ancestry import parent_rows
from unified_profiler.analysis.categories import categories, category_codes
from unified_profiler.analysis.columns import Coded, coded, ints
from unified_profiler.analysis.op_tree import op_tree
from unified_profiler.analysis.tracks import TrackLayout, lay_out_tracks
from unified_profiler.model.nesting import Ints, is_kind
from unified_profiler.model.schema import EventTable, Kind
from unified_profiler.model.trace import Trace
from unified_profiler.report.own_frames import without_own_frames

_KIND_CATEGORY = {
    Kind.STEP.value: "step",
    Kind.REGION.value: "region",
    Kind.MODULE.value: "module",
    Kind.API_CALL.value: "api",
    Kind.COMPILE.value: "compile",
    Kind.RUNTIME.value: "runtime",
}
_NO_SPANS = frozenset({Kind.COUNTER.value, Kind.MEMORY.value})


class TraceSpans:
    """The spans of a trace less the profiler's own frames, one array entry each."""

    def __init__(self, trace: Trace) -> None:
        self.info = trace.info
        lasting = coded(trace.events, "kind").where(lambda kind: kind not in _NO_SPANS)
        events = trace.events if lasting.all() else trace.events.filter(pa.array(lasting))
        self.events: EventTable = without_own_frames(events)
        self.start = ints(self.events, "start_ns")
        self.duration = ints(self.events, "duration_ns")
        self.own = ints(self.events, "self_ns")
        self.depth = ints(self.events, "depth")
        self.steps = np.flatnonzero(is_kind(self.events, Kind.STEP))
        """Rows of steps."""

    @cached_property
    def parent(self) -> Ints:
        """Row of the enclosing span, -1 if none."""
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
        """Index of the category in `span_categories()`; kernels have that of the operator that launched them."""
        names, kind = span_categories(), coded(self.events, "kind")
        indices = {text: names.index(category) for text, category in _KIND_CATEGORY.items()}
        by_kind = np.array([*(indices.get(text, -1) for text in kind.values), -1])
        codes = by_kind[kind.codes]
        codes = np.where(codes < 0, category_codes(self.events), codes)
        kernels = np.flatnonzero(kind.where(Kind.KERNEL.value.__eq__))
        if len(kernels):
            launcher = op_tree(self.events).launcher[kernels]
            codes[kernels[launcher >= 0]] = codes[launcher[launcher >= 0]]
        return codes


def span_categories() -> tuple[str, ...]:
    """Return the categories of operators, and those of other kinds of spans."""
    return tuple(dict.fromkeys((*categories(), *_KIND_CATEGORY.values())))
