"""Extracts the counters of a run: hardware samples, counters of native profilers, and allocated memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.columns import ints
from unified_profiler.model.nesting import Ints, is_kind
from unified_profiler.model.run import Run
from unified_profiler.model.schema import EventTable, Kind, Layer

ALLOCATED = "memory allocated since recording began"
"""Name of the counter computed from the allocations that native profilers recorded."""


_TEXTS = {"name": pa.string(), "device": pa.string(), "layer": pa.string()}
_SCHEMA = pa.schema({**_TEXTS, "cycle": pa.int32(), "start_ns": pa.int64(), "value": pa.float64(), "bytes": pa.int64()})


@dataclass(frozen=True)
class Counter:
    """The values of one counter over time."""

    rank: int
    name: str
    device: str | None
    hardware: bool
    """Whether it was sampled from the hardware."""
    time_ns: Ints
    value: npt.NDArray[np.float64]
    most_in_cycle: int
    """The largest number of values in one cycle."""

    @property
    def unit(self) -> str:
        """Unit of the values: `%`, `bytes`, `bytes/s`, or empty."""
        if self.name == ALLOCATED:
            return "bytes"
        last = self.name.rpartition(" ")[2]
        return last if last in {"%", "bytes", "bytes/s"} else ""


def counters(run: Run) -> Sequence[Counter]:
    """Return the counters of all ranks, by rank, name and device."""
    return [counter for rank in run.ranks for counter in _rank_counters(run.select(rank=rank), rank)]


def _rank_counters(run: Run, rank: int) -> Iterator[Counter]:
    tables = [trace.events for trace in run.traces]
    counted = _joined([table.filter(pa.array(is_kind(table, Kind.COUNTER))) for table in tables])
    hardware = pc.equal(counted.column("layer"), Layer.HARDWARE.value)
    for name, device in _distinct(counted):
        rows = pc.and_(pc.equal(counted.column("name"), name), _equal(counted.column("device"), device))
        curve = counted.filter(pc.and_(rows, counted.column("value").is_valid()))
        if len(curve):
            sampled = bool(pc.any(pc.and_(rows, hardware)).as_py())
            values = curve.column("value").to_numpy()
            yield Counter(rank, name, device, sampled, ints(curve, "start_ns"), values, _most_in_cycle(curve))
    yield from _allocated(rank, [_joined([table.filter(pa.array(is_kind(table, Kind.MEMORY)))]) for table in tables])


def _allocated(rank: int, cycles: Sequence[pa.Table]) -> Iterator[Counter]:
    """Yield the allocated bytes of each device, relative to the minimum of each cycle.

    Frees between cycles are not recorded, so a sum must not continue into the next cycle.
    """
    for device in pa.chunked_array([cycle.column("device").unique() for cycle in cycles], pa.string()).unique():
        own = [cycle.filter(_equal(cycle.column("device"), device.as_py())) for cycle in cycles]
        totals = [np.cumsum(ints(cycle, "bytes", null=0)).astype(np.float64) for cycle in own]
        above_lowest = [total - total.min(initial=0.0) for total in totals]
        time_ns = np.concatenate([ints(cycle, "start_ns") for cycle in own])
        values = np.concatenate(above_lowest)
        yield Counter(rank, ALLOCATED, device.as_py(), False, time_ns, values, max(map(len, own)))


def _most_in_cycle(curve: pa.Table) -> int:
    return int(np.unique(ints(curve, "cycle"), return_counts=True)[1].max())


def _joined(tables: Sequence[EventTable]) -> pa.Table:
    selected = [table.select(_SCHEMA.names).cast(_SCHEMA) for table in tables]
    return pa.concat_tables([_SCHEMA.empty_table(), *selected]).sort_by("start_ns")


def _distinct(counted: pa.Table) -> list[tuple[str, str | None]]:
    groups = counted.group_by(["name", "device"]).aggregate([]).to_pylist()
    return sorted(((row["name"], row["device"]) for row in groups), key=lambda key: (key[0], key[1] or ""))


def _equal(column: pa.ChunkedArray, value: str | None) -> pa.ChunkedArray:
    return column.is_null() if value is None else pc.equal(column, value).fill_null(False)
