"""Extracts the work of devices from the events of one trace: kernels, copies and collectives, with their launches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from unified_profiler.analysis.columns import Coded, Flags, coded, ints, ints_at, numbered
from unified_profiler.analysis.kept import kept
from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind

COLUMNS = ("kind", "device", "stream", "step", "start_ns", "duration_ns", "correlation_id")
"""The event columns that device work is extracted from."""

CLASSES = ("compute", "communication", "copy")
"""Classes of device work; bit `i` of a class mask stands for the class `i`."""
_CLASS_OF_KIND = {Kind.KERNEL.value: 0, Kind.COLLECTIVE.value: 1, Kind.COPY.value: 2}
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class DeviceWork:
    """The work of all devices of one trace, one entry per piece, ordered by start and end.

    Attributes:
        row: The row of each piece in the events.
        start: When it began.
        end: When it ended.
        device: Its device.
        stream: Its stream, -1 if unknown.
        step: The step that launched it, -1 if unknown.
        work_class: Its class, an index into `CLASSES`.
        launch: The row of the host's call that launched it, -1 if unknown.
        launch_start: When that call began; the largest number where it is unknown.
        launch_end: When it returned; the largest number where it is unknown.
    """

    row: Ints
    start: Ints
    end: Ints
    device: Coded
    stream: Ints
    step: Ints
    work_class: Ints
    launch: Ints
    launch_start: Ints
    launch_end: Ints

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.row)

    def lanes(self, *, by_stream: bool) -> list[Ints]:
        """Return the pieces of each device, or of each stream of each device, as indices in order of start."""
        return groups_of(self.lane_numbers(by_stream=by_stream)) if len(self) else []

    def lane_numbers(self, *, by_stream: bool) -> Ints:
        """Return the number of the device, or of the stream, of each piece."""
        return numbered([self.device.codes, self.stream] if by_stream else [self.device.codes])


@kept
def device_work(events: EventTable) -> DeviceWork:
    """Return the device work of one trace."""
    kind, device = coded(events, "kind"), coded(events, "device")
    on_host = ~device.where(is_accelerator)
    rows = np.flatnonzero(kind.where(_CLASS_OF_KIND.__contains__) & ~on_host)
    starts, durations = ints(events, "start_ns"), ints(events, "duration_ns")
    rows = rows[_order(starts[rows], starts[rows] + durations[rows])]
    launch = launches_of(events, rows, calls=on_host, is_runtime=kind.where(Kind.RUNTIME.value.__eq__))
    launched, called = launch >= 0, starts[launch]
    class_of_code = np.array([*(_CLASS_OF_KIND.get(value, -1) for value in kind.values), -1], np.int64)
    return DeviceWork(
        row=rows,
        start=starts[rows],
        end=starts[rows] + durations[rows],
        device=Coded(device.codes[rows], device.values),
        stream=ints_at(events, "stream", rows),
        step=ints_at(events, "step", rows),
        work_class=class_of_code[kind.codes[rows]],
        launch=launch,
        launch_start=np.where(launched, called, _NEVER),
        launch_end=np.where(launched, called + durations[launch], _NEVER),
    )


def _order(start: Ints, end: Ints) -> Ints | slice:
    """Return the order by start and end; profilers mostly write events in this order."""
    is_ordered = (start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] >= end[:-1]))
    return slice(None) if is_ordered.all() else np.lexsort((end, start))


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
    from_runtime = is_runtime[candidates]
    candidates = np.concatenate([candidates[from_runtime], candidates[~from_runtime]])
    index = look_up(correlation[rows], correlation[candidates])
    return np.where(index >= 0, candidates[index], -1)


def groups_of(group: npt.NDArray[np.int64]) -> list[Ints]:
    """Return the indices of each group in their order; groups are sorted by number."""
    order = np.argsort(group, kind="stable")
    borders = np.flatnonzero(np.diff(group[order])) + 1
    return [order[a:b] for a, b in pairwise([0, *borders.tolist(), len(order)])]
