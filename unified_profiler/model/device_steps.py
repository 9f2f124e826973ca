"""Assigns the events of devices to steps: to the step that launched the work, not to the one that the host was in.

A device runs behind its host, often by more than a step, so the host's times do not apply to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unified_profiler.model.columns import distinct_pairs, look_up
from unified_profiler.model.nesting import Ints, has_text, int_column, text_codes
from unified_profiler.model.schema import EventTable, Kind, Layer
from unified_profiler.model.tree import Flags

WORK = frozenset({Kind.KERNEL.value, Kind.COPY.value, Kind.COLLECTIVE.value})
"""Kinds of work that a device does."""

_OF_HOST = frozenset({Kind.STEP.value, Kind.MEMORY.value, Kind.COUNTER.value})
"""Kinds that refer to a device but are recorded by the host, at a time of the host."""


def assign_device_steps(events: EventTable, step: Ints) -> Ints:
    """Return the step of each event, -1 for none, with those of device events corrected.

    An event of a device belongs to the step of the call that launched it. Without a launch it belongs to the step that
    the native profiler recorded for it, else to the step in whose window on the device it ran, if there is exactly one.
    The window of a step begins and ends with the work that it launched on that device.

    Args:
        events: The events of a trace.
        step: The step in which each event began, on the host.
    """
    device, names = text_codes(events, "device")
    rows = np.flatnonzero(_flagged(device, [not name.startswith("cpu") for name in names]) & ~_is_of_host(events))
    if not len(rows):
        return step
    step, recorded = step.copy(), int_column(events, "step")[rows]
    launch = _launches(events, rows)
    step[rows] = np.where(launch >= 0, step[launch], recorded)
    kind, kinds = text_codes(events, "kind")
    is_work = _flagged(kind[rows], [name in WORK for name in kinds])
    spans = _Spans.of(events, device)
    windows = spans.windows(rows[is_work & (launch >= 0) & (step[rows] >= 0)], step)
    unknown = rows[(launch < 0) & (recorded < 0)]
    step[unknown] = spans.only_window(unknown, windows)
    return step


def _is_of_host(events: EventTable) -> Flags:
    kind, kinds = text_codes(events, "kind")
    return _flagged(kind, [name in _OF_HOST for name in kinds]) | ~has_text(events, "layer", Layer.RUNTIME.value)


def _flagged(codes: Ints, by_code: list[bool]) -> Flags:
    flags: Flags = np.array([*by_code, False])[codes]
    return flags


def _launches(events: EventTable, rows: Ints) -> Ints:
    """Return the row of the call that launched each of the device events, -1 if unknown."""
    correlation = int_column(events, "correlation_id")
    is_call = has_text(events, "kind", Kind.RUNTIME.value) & (correlation >= 0)
    is_call[rows] = False
    calls = np.flatnonzero(is_call)
    index = look_up(correlation[rows], correlation[calls])
    return np.where(index >= 0, calls[index], -1) if len(calls) else index


@dataclass(frozen=True)
class _Window:
    """The time from the first to the last work of a step on a device."""

    device: int
    step: int
    start: int
    end: int


@dataclass(frozen=True)
class _Spans:
    """Start, end and device of all events."""

    start: Ints
    end: Ints
    device: Ints

    @classmethod
    def of(cls, events: EventTable, device: Ints) -> _Spans:
        start = int_column(events, "start_ns")
        return cls(start, start + int_column(events, "duration_ns"), device)

    def windows(self, rows: Ints, step: Ints) -> list[_Window]:
        """Return the windows of the work in these rows."""
        devices, steps, index = distinct_pairs(self.device[rows], step[rows])
        first = np.full(len(devices), np.iinfo(np.int64).max)
        last = np.full(len(devices), np.iinfo(np.int64).min)
        np.minimum.at(first, index, self.start[rows])
        np.maximum.at(last, index, self.end[rows])
        columns = (column.tolist() for column in (devices, steps, first, last))
        return [_Window(*values) for values in zip(*columns, strict=True)]

    def only_window(self, rows: Ints, windows: list[_Window]) -> Ints:
        """Return the step of the only window in which each of the rows lies, -1 if there is none or several."""
        count, step = np.zeros(len(rows), np.int64), np.full(len(rows), -1, np.int64)
        start, end, device = self.start[rows], self.end[rows], self.device[rows]
        for window in windows if len(rows) else ():
            inside = (device == window.device) & (start >= window.start) & (end <= window.end)
            count += inside
            step[inside] = window.step
        return np.where(count == 1, step, -1)
