"""Which events a viewer joins by an arrow: a launch and its kernel, a forward operator and its backward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from unified_profiler.analysis.columns import Flags
from unified_profiler.model.nesting import Ints, whole_numbers
from unified_profiler.model.schema import EventTable, Kind


@dataclass(frozen=True)
class Links:
    """Arrows of one name, from row to row."""

    name: str
    source: Ints
    target: Ints


def launch_links(events: EventTable) -> Links:
    """Join the calls that launch work and the work on the device, by correlation id."""
    key = _ints(events, "correlation_id")
    call = _is(events, "kind", Kind.RUNTIME.value)
    return _links("launch", events, key, source=call, target=~call & ~_is(events, "kind", Kind.COUNTER.value))


def backward_links(events: EventTable) -> Links:
    """Join forward operators and their backward, by sequence id.

    Several operators can carry one id: the last forward one to begin is the one autograd saw, the first backward one
    to begin encloses the others.
    """
    key = _ints(events, "sequence_id")
    backward = _is(events, "direction", "backward")
    forward = ~backward & ~_is(events, "direction", "update")
    start = events.column("start_ns").to_numpy()
    target = np.zeros(len(events), np.bool_)
    target[_first_of_each(key, start, backward & (key >= 0))] = True
    source = np.zeros(len(events), np.bool_)
    source[_first_of_each(key, -start, forward & (key >= 0))] = True
    return _links("backward", events, key, source=source, target=target)


def _links(name: str, events: EventTable, key: Ints, *, source: Flags, target: Flags) -> Links:
    sources, targets = np.flatnonzero(source & (key >= 0)), np.flatnonzero(target & (key >= 0))
    if not len(sources):
        return Links(name, sources, sources)
    sources = sources[np.argsort(key[sources], kind="stable")]
    place = np.minimum(np.searchsorted(key[sources], key[targets]), len(sources) - 1)
    found = sources[place]
    start = events.column("start_ns").to_numpy()
    # Clocks of devices drift: an arrow back in time is an error to viewers.
    drawn = (key[found] == key[targets]) & (start[found] < start[targets])
    return Links(name, found[drawn], targets[drawn])


def _first_of_each(key: Ints, order: Ints, among: Flags) -> Ints:
    rows = np.flatnonzero(among)
    rows = rows[np.lexsort((order[rows], key[rows]))]
    first: Ints = rows[np.unique(key[rows], return_index=True)[1]]
    return first


def _ints(events: EventTable, name: str) -> Ints:
    return whole_numbers(events.column(name))


def _is(events: EventTable, name: str, value: str) -> Flags:
    flags: Flags = pc.equal(events.column(name), value).fill_null(False).to_numpy()
    return flags
