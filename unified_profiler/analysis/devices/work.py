"""Extracts the work of devices from the events of one trace: kernels, copies and collectives, with their launches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from unified_profiler.analysis.columns import Coded, Flags, coded, ints, numbered
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind

COLUMNS = ("kind", "device", "stream", "step", "start_ns", "duration_ns", "correlation_id")
"""The event columns that device work is extracted from."""

CLASSES = ("compute", "communication", "copy")
"""Classes of device work; bit `i` of a class mask stands for the class `i`."""
_CLASS_OF_KIND = {Kind.KERNEL.value: 0, Kind.COLLECTIVE.value: 1, Kind.COPY.value: 2}


@dataclass(frozen=True)
class DeviceWork:
    """The work of all devices of one trace, one entry per piece, ordered by start and end.

    Attributes:
        events: The events of the trace.
        row: The row of each piece in the events.
        start: When it began.
        end: When it ended.
        device: Its device.
        stream: Its stream, -1 if unknown.
        step: The step that launched it, -1 if unknown.
        work_class: Its class, an index into `CLASSES`.
        launch: The row of the host's call that launched it, -1 if unknown.
    """

    events: EventTable
    row: Ints
    start: Ints
    end: Ints
    device: Coded
    stream: Ints
    step: Ints
    work_class: Ints
    launch: Ints

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.row)

    @cached_property
    def launch_start(self) -> Ints:
        """When the call that launched each piece began; the largest number where it is unknown."""
        return self._of_launch(ints(self.events, "start_ns"))

    @cached_property
    def launch_end(self) -> Ints:
        """When the call that launched each piece returned; the largest number where it is unknown."""
        return self._of_launch(ints(self.events, "start_ns") + ints(self.events, "duration_ns"))

    def lanes(self, *, by_stream: bool) -> list[Ints]:
        """Return the pieces of each device, or of each stream of each device, as indices in order of start."""
        return groups_of(self.lane_numbers(by_stream=by_stream)) if len(self) else []

    def lane_numbers(self, *, by_stream: bool) -> Ints:
        """Return the number of the device, or of the stream, of each piece."""
        return numbered([self.device.codes, self.stream] if by_stream else [self.device.codes])

    def _of_launch(self, values: Ints) -> Ints:
        unknown = np.iinfo(np.int64).max
        return np.where(self.launch >= 0, values[self.launch], unknown) if len(values) else np.zeros(0, np.int64)


def device_work(events: EventTable) -> DeviceWork:
    """Return the device work of one trace."""
    kind, device = coded(events, "kind"), coded(events, "device")
    on_host = ~device.where(is_accelerator)
    rows = np.flatnonzero(kind.where(_CLASS_OF_KIND.__contains__) & ~on_host)
    start = ints(events, "start_ns")[rows]
    end = start + ints(events, "duration_ns")[rows]
    order = np.lexsort((end, start))
    rows = rows[order]
    class_of_code = np.array([*(_CLASS_OF_KIND.get(value, -1) for value in kind.values), -1], np.int64)
    return DeviceWork(
        events=events,
        row=rows,
        start=start[order],
        end=end[order],
        device=Coded(device.codes[rows], device.values),
        stream=ints(events, "stream")[rows],
        step=ints(events, "step")[rows],
        work_class=class_of_code[kind.codes[rows]],
        launch=launches_of(events, rows, calls=on_host, is_runtime=kind.where(Kind.RUNTIME.value.__eq__)),
    )


def is_accelerator(device: str) -> bool:
    """Return whether the name is that of an accelerator."""
    return not device.startswith("cpu")


def launches_of(events: EventTable, rows: Ints, *, calls: Flags, is_runtime: Flags) -> Ints:
    """Return the row of the call with the correlation id of each given row, -1 for none.

    Calls of the device's runtime take precedence over other events with the same id.
    """
    correlation = ints(events, "correlation_id")
    candidates = np.flatnonzero(calls & (correlation >= 0))
    if not len(candidates) or not len(rows):
        return np.full(len(rows), -1, np.int64)
    candidates = candidates[np.lexsort((~is_runtime[candidates], correlation[candidates]))]
    position = np.searchsorted(correlation[candidates], correlation[rows])
    candidate = candidates[np.minimum(position, len(candidates) - 1)]
    return np.where((correlation[candidate] == correlation[rows]) & (correlation[rows] >= 0), candidate, -1)


def groups_of(group: npt.NDArray[np.int64]) -> list[Ints]:
    """Return the indices of each group in their order; groups are sorted by number."""
    order = np.argsort(group, kind="stable")
    borders = np.flatnonzero(np.diff(group[order])) + 1
    return [order[a:b] for a, b in pairwise([0, *borders.tolist(), len(order)])]
