"""Limits the number of events of a cycle: what began after a certain moment is left out, and a hint says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc

from unified_profiler.model.schema import EventTable
from unified_profiler.recording.window import Step, Window


@dataclass(frozen=True, kw_only=True)
class Limited:
    """What is left of a cycle.

    Attributes:
        window: Steps, regions, calls and counters.
        native: The events of each backend.
        hint: What was left out, in words; None if nothing was.
    """

    window: Window
    native: Sequence[EventTable]
    hint: str | None = None


def limit_events(window: Window, native: Sequence[EventTable], *, most: int) -> Limited:
    """Leave out the last steps of a cycle that has too many events, or the end of its first step.

    Args:
        window: What the facade saw.
        native: What the native profilers recorded.
        most: How many operators, kernels and calls may stay; 0 for all.
    """
    tables = [*native, *([] if window.calls is None else [window.calls])]
    count = sum(map(len, tables))
    if not most or count <= most:
        return Limited(window=window, native=native)
    until = _moment(window.steps, tables, most)
    left = Limited(window=_window_until(window, until), native=[_until(table, until) for table in native])
    kept = sum(map(len, left.native)) + (0 if left.window.calls is None else len(left.window.calls))
    whole = sum(step.finished for step in left.window.steps)
    advice = "Record fewer steps, or allow more events" if whole else "Allow more events to have a whole step"
    hint = (
        f"{count} events were recorded in {len(window.steps)} steps, more than max_events allows ({most}): the trace "
        f"has the first {kept} of them, {whole} whole steps. {advice} (`max_events`, `run --max-events`; 0 for any "
        "number)."
    )
    return replace(left, hint=hint)


def _moment(steps: Sequence[Step], tables: Sequence[EventTable], most: int) -> int:
    """Return from when on events are left out: the start of the step with the first event too many, or this event."""
    starts = np.concatenate([table["start_ns"].to_numpy() for table in tables])
    excess = int(np.partition(starts, most)[most])
    later = [step.start_ns for step in steps[1:] if step.start_ns <= excess]
    return max(later, default=excess)


def _window_until(window: Window, until: int) -> Window:
    return replace(
        window,
        end_ns=min(window.end_ns, until),
        steps=tuple(_step_until(step, until) for step in window.steps if step.start_ns < until),
        regions=tuple(
            span._replace(end_ns=min(span.end_ns, until)) for span in window.regions if span.start_ns < until
        ),
        calls=None if window.calls is None else _until(window.calls, until),
        counters=None if window.counters is None else _until(window.counters, until),
    )


def _step_until(step: Step, until: int) -> Step:
    return step if step.end_ns <= until else replace(step, end_ns=until, finished=False)


def _until(events: EventTable, until: int) -> EventTable:
    return events.filter(pc.less(events["start_ns"], until))
