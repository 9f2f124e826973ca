"""From a cycle that has ended to its Trace: captures normalized, events assembled, what is known of them completed.

Both ways of delivery come through here, in the process that recorded and in any other; so nothing here, nor in a
normalizer, may ask the process it runs in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from unified_profiler.model.assembly import assemble
from unified_profiler.model.foreign_values import native_metadata
from unified_profiler.model.option_effects import without_effect
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
    """All that a trace is made of."""

    window: Window
    info: TraceInfo
    """What is known of the trace before its events are."""
    captures: tuple[NativeCapture, ...] = ()
    step: int | None = None
    """The last step that began in it; failures name it."""
    keep_native: bool = False
    options: tuple[str, ...] = ()
    """Options that were switched on."""
    max_events: int = 0
    """How many events the trace may hold; 0 for any number."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What came of a cycle."""

    trace: Trace | None
    """None if not even what could be read could be put together."""
    keep_native: bool
    """Whether the native files are to be kept: as asked for, or since one of them could not be read."""


@dataclass(frozen=True)
class _Recorded:
    """What one backend gave in a cycle."""

    backend: Backend
    capture: NativeCapture
    events: EventTable


def finish(cycle: EndedCycle, find_backend: FindBackend, faults: FaultLog, *, kept_in: Path | None) -> Finished:
    """Make the trace of a cycle.

    Args:
        cycle: What was recorded.
        find_backend: Gives the backend of a name.
        faults: Where a capture that cannot be read is reported; the trace is made of the others.
        kept_in: Where the native files of such a capture will be found, below the name of its backend.
    """
    recorded, keep = [], cycle.keep_native
    for capture in cycle.captures:
        name = capture.backend
        with faults.guard(name, "normalize", cycle=cycle.window.cycle, step=cycle.step) as outcome:
            backend = find_backend(name)
            recorded.append(_Recorded(backend, capture, backend.normalizer().normalize(capture)))
        if outcome.failed and kept_in is not None:
            keep = True
            faults.add_to_last(kept=kept_in / name)
    trace: Trace | None = None
    with faults.guard("profiler", "assemble", cycle=cycle.window.cycle) as outcome:
        trace = _trace_of(cycle, recorded)
    if outcome.failed and kept_in is not None:
        keep = True
        faults.add_to_last(kept=kept_in)
    return Finished(trace=trace, keep_native=keep)


def _trace_of(cycle: EndedCycle, recorded: Sequence[_Recorded]) -> Trace:
    events = [result.events for result in recorded]
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
    unsupported = {one.value for result in recorded for one in frozenset(Capability) - result.backend.capabilities}
    missing = without_effect(assembled, set(cycle.options) - unsupported, waited=window.waited)
    info = info.model_copy(update={"hints": (*info.hints, *missing)})
    return Trace(assembled, info.model_copy(update=_from_events(assembled, window, recorded)))


def _from_events(events: EventTable, window: Window, recorded: Sequence[_Recorded]) -> dict[str, Any]:
    """Return what only the events tell."""
    steps = pc.min_max(events.column("step"))
    versions = {result.backend.name: result.capture.framework_version or "" for result in recorded}
    return {
        "frameworks": {**window.traced, **versions},
        "first_step": steps["min"].as_py(),
        "last_step": steps["max"].as_py(),
        "event_count": len(events),
        "native": {result.backend.name: native_metadata(result.events) for result in recorded},
    }
