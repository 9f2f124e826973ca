"""The events of one trace as arrays: which of them are work, on which thread they are, and which kind of segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unified_profiler.analysis.ancestry import nearest, parent_rows
from unified_profiler.analysis.columns import Coded, Flags, coded, ints, thread_numbers
from unified_profiler.analysis.conventions import matches_convention
from unified_profiler.analysis.data_loading import loads_data
from unified_profiler.analysis.devices.work import is_accelerator
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind, Layer
from unified_profiler.spi import EventConventions

COLUMNS = (
    *("id", "parent_id", "depth", "name", "op", "origin", "direction", "kind", "layer", "framework"),
    *("start_ns", "duration_ns", "step", "cycle", "rank", "pid", "tid", "thread", "device", "stream"),
    *("correlation_id", "attributes"),
)
"""The event columns that the graph is built from."""

KINDS = ("op", "kernel", "copy", "collective", "compile", "runtime", "sync", "data", "gap", "launch", "delay")
"""The kinds of segments of a critical path."""

_KIND_OF = {
    Kind.OP: "op",
    Kind.KERNEL: "kernel",
    Kind.COPY: "copy",
    Kind.COLLECTIVE: "collective",
    Kind.COMPILE: "compile",
    Kind.RUNTIME: "runtime",
}
_WORK = (Kind.KERNEL, Kind.COPY, Kind.COLLECTIVE)
_SPANS = (Kind.STEP, Kind.REGION, Kind.API_CALL, Kind.MODULE)


def kind_code(name: str) -> int:
    """Return the number of a kind of segment."""
    return KINDS.index(name)


@dataclass(frozen=True, eq=False)
class TraceColumns:
    """The events of one trace, one entry per event; each array is computed when first used."""

    events: EventTable
    conventions: Mapping[str, EventConventions]

    @cached_property
    def start(self) -> Ints:
        """When each event starts."""
        return ints(self.events, "start_ns")

    @cached_property
    def end(self) -> Ints:
        """When each event ends."""
        return self.start + ints(self.events, "duration_ns")

    @cached_property
    def name(self) -> Coded:
        """The names."""
        return coded(self.events, "name")

    @cached_property
    def correlation(self) -> Ints:
        """The number that links a launch and its work, -1 if there is none."""
        return ints(self.events, "correlation_id")

    @cached_property
    def thread(self) -> Ints:
        """The number of each event's thread."""
        return thread_numbers(self.events)

    def is_kind(self, *kinds: Kind) -> Flags:
        """Return the events of some kinds."""
        return self._kind.where({kind.value for kind in kinds}.__contains__)

    @cached_property
    def _kind(self) -> Coded:
        return coded(self.events, "kind")

    @cached_property
    def on_device(self) -> Flags:
        """Whether each event is on an accelerator."""
        return coded(self.events, "device").where(is_accelerator)

    @cached_property
    def work(self) -> Flags:
        """Whether each event is work of an accelerator."""
        return self.on_device & self.is_kind(*_WORK)

    @cached_property
    def host(self) -> Flags:
        """Whether each event takes time on a host thread."""
        spans = self.is_kind(*_KIND_OF, *_SPANS) & ~self.on_device & (self.end > self.start)
        return spans & ~coded(self.events, "layer").where(Layer.HARDWARE.value.__eq__)

    @cached_property
    def calls(self) -> Ints:
        """Rows of the host's calls of a device's runtime that have a correlation id."""
        return np.flatnonzero(self.is_kind(Kind.RUNTIME) & ~self.on_device & (self.correlation >= 0))

    @cached_property
    def parent(self) -> Ints:
        """The row of the event that encloses each one on its host thread, -1 if there is none."""
        parent = parent_rows(self.events)
        return nearest(parent, parent=parent, wanted=self.host)

    @cached_property
    def is_sync(self) -> Flags:
        """Whether each event is a call with which the host waits for a device."""
        waits = matches_convention(self.events, self.conventions, "synchronizing_calls")
        return self.is_kind(Kind.RUNTIME) & ~self.on_device & waits

    @cached_property
    def loads_data(self) -> Ints:
        """The row of the data loading that each event is or belongs to, -1 if it belongs to none."""
        loads = loads_data(self.events, self.conventions)
        rows = np.arange(len(self.start))
        return nearest(rows, parent=self.parent, wanted=loads & self.host) if loads.any() else np.full(len(rows), -1)

    @cached_property
    def loads_ahead(self) -> Flags:
        """Whether each event takes data from workers that load it in the background."""
        return self.host & matches_convention(self.events, self.conventions, "background_loading")

    @cached_property
    def kind(self) -> Ints:
        """The kind of segment that each event's own time is."""
        known = {kind.value: kind_code(name) for kind, name in _KIND_OF.items()}
        codes = np.array([*(known.get(text, kind_code("gap")) for text in self._kind.values), kind_code("gap")])
        kinds = codes[self._kind.codes]
        kinds[self.is_sync] = kind_code("sync")
        kinds[self.loads_data >= 0] = kind_code("data")
        return kinds
