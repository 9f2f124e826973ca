"""Limits the number of events of a cycle by dropping all events after a cutoff time, with a hint for the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc

from unified_profiler.model.schema import EventTable
from unified_profiler.recording.window import Step, Window


@dataclass(frozen=True, kw_only=True)
class LimitedCycle:
    """The events of a cycle within the limit.

    Attributes:
        window: Steps, regions, calls and counters.
        native: The events of each backend.
        hint: Describes what was dropped; None if nothing was.
    """

    window: Window
    native: Sequence[EventTable]
    hint: str | None = None


def limit_events(window: Window, native: Sequence[EventTable], *, most: int) -> LimitedCycle:
    """Drop the last steps of a cycle with too many events, or the end of its first step.

    Args:
        window: The recording of the facade.
        native: The events of the native profilers.
        most: Maximum number of operators, kernels and calls; 0 for no limit.
    """
    tables = [*native, *([] if window.calls is None else [window.calls])]
    count = sum(map(len, tables))
    if not most or count <= most:
        return LimitedCycle(window=window, native=native)
    until = _cutoff(window.steps, tables, most)
    limited = LimitedCycle(window=_window_until(window, until), native=[_until(table, until) for table in native])
    kept = sum(map(len, limited.native)) + (0 if limited.window.calls is None else len(limited.window.calls))
    whole = sum(step.finished for step in limited.window.steps)
    advice = "Record fewer steps, or allow more events" if whole else "Allow more events to have a whole step"
    hint = (
        f"{count} events were recorded in {len(window.steps)} steps, more than max_events allows ({most}): the trace "
        f"has the first {kept} of them, {whole} whole steps. {advice} (`max_events`, `run --max-events`; 0: no limit)."
    )
    return replace(limited, hint=hint)


def _cutoff(steps: Sequence[Step], tables: Sequence[EventTable], most: int) -> int:
    """Return the start of the step with the first excess event; within the first step, the start of that event."""
    starts = np.concatenate([table["start_ns"].to_numpy() for table in tables])
    first_excess = int(np.partition(starts, most)[most])
    return max((step.start_ns for step in steps[1:] if step.start_ns <= first_excess), default=first_excess)


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
