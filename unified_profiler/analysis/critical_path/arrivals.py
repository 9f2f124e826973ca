"""Determines when the last rank entered each synchronizing collective: the ranks before it wait until then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import Flags, ints
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable

ARRIVALS = pa.schema(
    {
        "number": pa.int64(),
        **dict.fromkeys(("rank", "cycle"), pa.int32()),
        **dict.fromkeys(("start_ns", "end_ns", "ready_ns"), pa.int64()),
        "last_rank": pa.int32(),
        "last_cycle": pa.int32(),
    }
)
"""One row per rank and collective: when the rank was in it, and when and by which rank it was complete."""


@dataclass(frozen=True)
class Arrivals:
    """The collectives of one trace that were matched with those of other ranks."""

    number: Ints
    start: Ints
    end: Ints
    ready: Ints
    """When the last rank entered."""
    is_last: Flags
    """Whether this rank was the last to enter."""

    @classmethod
    def none(cls) -> Arrivals:
        """Return no collectives."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, empty, empty, empty.astype(np.bool_))

    @classmethod
    def of(cls, events: EventTable, table: pa.Table) -> Arrivals:
        """Return the collectives of the trace that events belong to."""
        if not len(table) or not len(events):
            return cls.none()
        rank, cycle = (ints(events.slice(0, 1), name)[0] for name in ("rank", "cycle"))
        rows = table.filter(pa.array((ints(table, "rank") == rank) & (ints(table, "cycle") == cycle)))
        number, start, end, ready = (ints(rows, name) for name in ("number", "start_ns", "end_ns", "ready_ns"))
        is_last = (ints(rows, "last_rank") == rank) & (ints(rows, "last_cycle") == cycle)
        return cls(number, start, end, ready, is_last)

    def waiting(self) -> Arrivals:
        """Return the collectives in which this rank waited; those that ended before all had entered are left out.

        The latter happens only if the clocks of the ranks differ.
        """
        return self._filtered(~self.is_last & (self.ready > self.start) & (self.ready <= self.end))

    def entries(self) -> Arrivals:
        """Return the collectives in which this rank was the last to enter."""
        return self._filtered(self.is_last)

    def _filtered(self, kept: Flags) -> Arrivals:
        return Arrivals(self.number[kept], self.start[kept], self.end[kept], self.ready[kept], self.is_last[kept])


def arrivals_table(collectives: pa.Table) -> pa.Table:
    """Return the arrivals of all ranks, from the rows of synchronizing_collectives.sql."""
    if not len(collectives):
        return ARRIVALS.empty_table()
    rows = collectives.select(["step", "name", "nth"]).to_pylist()
    keys = [f"{row['step']} {row['nth']} {row['name']}" for row in rows]
    _, number = np.unique(keys, return_inverse=True)
    start = ints(collectives, "start_ns")
    order = np.lexsort((start, number))
    last = np.zeros(int(number.max()) + 1, np.int64)
    last[number[order]] = order
    last = last[number]
    columns = {
        "number": number,
        **{name: collectives.column(name) for name in ("rank", "cycle", "start_ns", "end_ns")},
        "ready_ns": start[last],
        "last_rank": collectives.column("rank").take(last),
        "last_cycle": collectives.column("cycle").take(last),
    }
    return pa.table({name: columns[name] for name in ARRIVALS.names}).cast(ARRIVALS)
