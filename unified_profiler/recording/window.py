"""Holds everything that the facade itself recorded in one cycle: steps, regions, API calls and hardware counters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.model.nesting import is_kind
from unified_profiler.model.plain import json_text
from unified_profiler.model.schema import EventTable, Kind, Layer, event_table
from unified_profiler.recording.regions import NamedSpan


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of the window."""

    number: int
    start_ns: int
    end_ns: int
    finished: bool = True
    """False for the step in which recording ended without a call of `step()`."""
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Window:
    """The recording of one cycle, from START to STOP."""

    cycle: int
    start_ns: int
    end_ns: int
    tid: int
    thread: str
    pid: int = field(default_factory=os.getpid)
    steps: tuple[Step, ...]
    regions: tuple[NamedSpan, ...]
    calls: EventTable | None = None
    """API calls and module calls."""
    counters: EventTable | None = None
    """Hardware counters."""
    waited: bool = False
    """Whether API calls waited for the work that they queued."""
    traced: Mapping[str, str] = field(default_factory=dict)
    """Versions of the frameworks whose calls were traced, by backend name."""

    def to_events(self) -> EventTable:
        """Return steps and regions as events of the application layer."""
        spans = [*(self._step_span(step) for step in self.steps), *self.regions]
        return event_table(
            {
                "name": [span.name for span in spans],
                "layer": Layer.APPLICATION.value,
                "kind": [Kind.STEP.value] * len(self.steps) + [Kind.REGION.value] * len(self.regions),
                "start_ns": [span.start_ns for span in spans],
                "duration_ns": [span.end_ns - span.start_ns for span in spans],
                "step": [step.number for step in self.steps] + [None] * len(self.regions),
                "pid": self.pid,
                "tid": [span.tid for span in spans],
                "thread": [span.thread for span in spans],
                "attributes": [span.attributes for span in spans],
            },
            rows=len(spans),
        )

    def without_empty_step(self, native: Sequence[EventTable]) -> Window:
        """Drop an unfinished last step in which nothing happened, as between the last step() and stop()."""
        if not self.steps or self.steps[-1].finished:
            return self
        tables = [*native, *([] if self.calls is None else [self.calls])]
        starts = [span.start_ns for span in self.regions] + [_latest_start(events) for events in tables]
        return self if max(starts, default=0) >= self.steps[-1].start_ns else replace(self, steps=self.steps[:-1])

    def _step_span(self, step: Step) -> NamedSpan:
        attributes = {**step.attributes, **({} if step.finished else {"finished": False})}
        text = json_text(attributes) if attributes else None
        return NamedSpan(f"step {step.number}", step.start_ns, step.end_ns, self.tid, self.thread, text)


def _latest_start(events: EventTable) -> int:
    """Return the latest start of an event that has a duration, step annotations excluded."""
    counts = pc.and_(pc.greater(events.column("duration_ns"), 0), pa.array(~is_kind(events, Kind.STEP)))
    return pc.max(events.column("start_ns").filter(counts)).as_py() or 0
