"""Finds events that a viewer joins by arrows: launches and kernels, forward operators and their backward operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from unified_profiler.analysis.columns import Flags, ints, numbered
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable, Kind


@dataclass(frozen=True)
class Links:
    """Arrows of one name, from row to row."""

    name: str
    source: Ints
    target: Ints


def launch_links(events: EventTable, trace: Ints) -> Links:
    """Join runtime calls and the device work they launch, by correlation id.

    Args:
        events: The events of several traces.
        trace: Number of the trace of each event.
    """
    key = _keys(events, "correlation_id", trace)
    call = _equals(events, "kind", Kind.RUNTIME.value)
    work = ~call & ~_equals(events, "kind", Kind.COUNTER.value)
    return _links("launch", events, key, np.flatnonzero(call & (key >= 0)), np.flatnonzero(work & (key >= 0)))


def backward_links(events: EventTable, trace: Ints) -> Links:
    """Join forward operators and their backward operators, by sequence id.

    Several operators can have the same id: autograd recorded the last forward operator to start, and the first backward
    operator to start encloses the others.

    Args:
        events: The events of several traces.
        trace: Number of the trace of each event.
    """
    key, start = _keys(events, "sequence_id", trace), ints(events, "start_ns")
    backward = _equals(events, "direction", "backward")
    forward = ~backward & ~_equals(events, "direction", "update")
    sources = _first_of_each(key, -start, forward & (key >= 0))
    return _links("backward", events, key, sources, np.sort(_first_of_each(key, start, backward & (key >= 0))))


def _keys(events: EventTable, name: str, trace: Ints) -> Ints:
    """Return a column of ids, made different for different traces, since ids are unique only within a trace."""
    key = ints(events, name)
    if not len(key) or trace[0] == trace[-1]:
        return key
    given = np.flatnonzero(key >= 0)
    keys = np.full(len(key), -1, np.int64)
    keys[given] = numbered([trace[given], key[given]])
    return keys


def _links(name: str, events: EventTable, key: Ints, sources: Ints, targets: Ints) -> Links:
    """Link each target to a source with the same key that starts before it."""
    if not len(sources):
        return Links(name, sources, sources)
    sources = sources[np.argsort(key[sources], kind="stable")]
    source = sources[np.minimum(np.searchsorted(key[sources], key[targets]), len(sources) - 1)]
    start = ints(events, "start_ns")
    # Device clocks drift, and viewers reject arrows back in time.
    is_linked = (key[source] == key[targets]) & (start[source] < start[targets])
    return Links(name, source[is_linked], targets[is_linked])


def _first_of_each(key: Ints, order: Ints, among: Flags) -> Ints:
    rows = np.flatnonzero(among)
    rows = rows[np.lexsort((order[rows], key[rows]))]
    first: Ints = rows[np.unique(key[rows], return_index=True)[1]]
    return first


def _equals(events: EventTable, name: str, value: str) -> Flags:
    flags: Flags = pc.equal(events.column(name), value).fill_null(False).to_numpy()
    return flags
