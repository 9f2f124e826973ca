"""Makes the Trace of an ended cycle: normalizes captures, assembles events and completes the trace info.

This runs in the recording process or in a later reader, so neither this code nor a normalizer may depend on the state
of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from unified_profiler.model.assembly import assemble
from unified_profiler.model.foreign_values import native_metadata
from unified_profiler.model.option_effects import with_queued_calls, without_effect
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EventTable
from unified_profiler.model.trace import Trace
from unified_profiler.recording.event_limit import limit_events
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.window import Window
from unified_profiler.spi import Backend, Capability, NativeCapture

FindBackend = Callable[[str], Backend]


@dataclass(frozen=True, kw_only=True)
class EndedCycle:
    """The data that a trace is made from."""

    window: Window
    info: TraceInfo
    """The part of the trace's info that does not depend on its events."""
    captures: tuple[NativeCapture, ...] = ()
    step: int | None = None
    """The last step that began in the cycle, for failures."""
    keep_native: bool = False
    options: tuple[str, ...] = ()
    """Enabled options."""
    max_events: int = 0
    """Limit of events in the trace; 0 for no limit."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The result of a cycle."""

    trace: Trace | None
    """None if the events could not be assembled."""
    keep_native: bool
    """Whether to keep the native files: as configured, or because one of them could not be read."""


@dataclass(frozen=True)
class _NormalizedCapture:
    """The events of one backend in a cycle."""

    backend: Backend
    capture: NativeCapture
    events: EventTable


def finish(cycle: EndedCycle, find_backend: FindBackend, faults: FaultLog, *, kept_in: Path | None) -> Finished:
    """Make the trace of a cycle.

    Args:
        cycle: The recorded data.
        find_backend: Returns a backend by name.
        faults: Log for unreadable captures; the trace is made from the others.
        kept_in: Future location of the native files of such a capture, in a folder named after its backend.
    """
    normalized, keep = [], cycle.keep_native
    for capture in cycle.captures:
        name = capture.backend
        with faults.guard(name, "normalize", cycle=cycle.window.cycle, step=cycle.step) as outcome:
            backend = find_backend(name)
            normalized.append(_NormalizedCapture(backend, capture, backend.normalizer().normalize(capture)))
        if outcome.failed and kept_in is not None:
            keep = True
            faults.add_to_last(kept=kept_in / name)
    trace: Trace | None = None
    with faults.guard("profiler", "assemble", cycle=cycle.window.cycle) as outcome:
        trace = _trace_of(cycle, normalized)
    if outcome.failed and kept_in is not None:
        keep = True
        faults.add_to_last(kept=kept_in)
    return Finished(trace=trace, keep_native=keep)


def _trace_of(cycle: EndedCycle, normalized: Sequence[_NormalizedCapture]) -> Trace:
    events = [result.events for result in normalized]
    limited = limit_events(cycle.window.without_empty_step(events), events, most=cycle.max_events)
    native, window, info = limited.native, limited.window, cycle.info
    if limited.hint is not None:
        info = info.model_copy(update={"hints": (*info.hints, limited.hint), "complete": False})
    assembled = assemble(
        native,
        calls=window.calls,
        waited=window.waited,
        own=window.to_events(),
        counters=window.counters,
        cycle=window.cycle,
        rank=info.rank,
        host=info.host,
    )
    unsupported = {c.value for result in normalized for c in frozenset(Capability) - result.backend.capabilities}
    missing = without_effect(assembled, set(cycle.options) - unsupported, waited=window.waited)
    queuing = {result.backend.name for result in normalized if result.backend.abilities.event_conventions.queues_work}
    queued = with_queued_calls(assembled, queuing, waited=window.waited)
    update = {"hints": (*info.hints, *missing, *queued), **_info_fields(assembled, window, normalized)}
    return Trace(assembled, info.model_copy(update=update))


def _info_fields(events: EventTable, window: Window, normalized: Sequence[_NormalizedCapture]) -> dict[str, Any]:
    steps = pc.min_max(events.column("step"))
    versions = {result.backend.name: result.capture.framework_version or "" for result in normalized}
    return {
        "frameworks": {**window.traced, **versions},
        "first_step": steps["min"].as_py(),
        "last_step": steps["max"].as_py(),
        "event_count": len(events),
        "native": {result.backend.name: native_metadata(result.events) for result in normalized},
    }
