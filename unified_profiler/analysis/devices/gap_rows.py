"""Describes the idle times of devices, and for the longest what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.ancestry import nearest, parent_rows, self_time
from unified_profiler.analysis.columns import Coded, coded, ints, thread_numbers
from unified_profiler.analysis.devices import gaps as _gaps
from unified_profiler.analysis.devices import work as _work
from unified_profiler.analysis.devices.gaps import CAUSES, Gaps, find_gaps
from unified_profiler.analysis.devices.work import DeviceWork, device_work
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import TEXT, EventTable, Kind, Layer
from unified_profiler.spi import EventConventions

COLUMNS = ("rank", "cycle", "id", "parent_id", "layer", "stack", *_work.COLUMNS, *_gaps.COLUMNS)
"""The event columns that the rows are computed from."""

GAPS = pa.schema(
    {
        **dict.fromkeys(("rank", "cycle", "step"), pa.int32()),
        "device": TEXT,
        **dict.fromkeys(("stream", "start_ns", "duration_ns"), pa.int64()),
        "cause": TEXT,
        "next_work": TEXT,
        "launch_start_ns": pa.int64(),
        "host_activity": pa.string(),
        "host_activity_ns": pa.int64(),
        "host_region": pa.string(),
        "host_source": pa.string(),
    }
)
"""One row per gap between two pieces of work of a device.

`step` and `launch_start_ns` are those of the work that ended it. The columns of the host are known only for the longest
gaps of each trace: what its launching thread spent most of the gap in, the user's region around that, and the Python
frame; null if it did nothing that was recorded.
"""

_CONTAINERS = frozenset({Kind.STEP.value, Kind.REGION.value, Kind.MODULE.value, Kind.MEMORY.value, Kind.COUNTER.value})


def gap_rows(
    events: EventTable, conventions: Mapping[str, EventConventions], *, by_stream: bool, described: int
) -> pa.Table:
    """Return the gaps of one trace, in order of start.

    Args:
        events: The events.
        conventions: The conventions of each framework.
        by_stream: Whether the gaps of each stream are returned instead of those of each device.
        described: How many of the longest gaps get the columns of the host.
    """
    work = device_work(events)
    gaps = find_gaps(events, work, conventions, by_stream=by_stream)
    if not len(gaps.start):
        return GAPS.empty_table()
    rows, launched = work.row[gaps.work], work.launch[gaps.work] >= 0
    following = events.select(["rank", "cycle", "step", "device", "stream", "name"]).take(pa.array(rows))
    table = pa.table(
        {
            **{name: following.column(name) for name in ("rank", "cycle", "step", "device")},
            "stream": following.column("stream") if by_stream else pa.nulls(len(rows), pa.int64()),
            "start_ns": gaps.start,
            "duration_ns": gaps.end - gaps.start,
            "cause": pa.DictionaryArray.from_arrays(pa.array(gaps.cause, pa.int32()), pa.array(CAUSES)),
            "next_work": following.column("name"),
            "launch_start_ns": pa.array(work.launch_start[gaps.work], mask=~launched),
            **_host_columns(events, work, gaps, described),
        }
    ).cast(GAPS)
    return table.take(pa.array(np.argsort(gaps.start, kind="stable")))


def _host_columns(events: EventTable, work: DeviceWork, gaps: Gaps, described: int) -> dict[str, pa.Array]:
    longest = np.argsort(gaps.start - gaps.end, kind="stable")[:described]
    launched = longest[work.launch[gaps.work[longest]] >= 0]
    host = _HostActivity(events) if len(launched) else None
    rows: list[dict[str, Any]] = [{} for _ in gaps.start]
    for gap in launched.tolist() if host else ():
        launch = work.launch[gaps.work[gap]]
        rows[gap] = host.during(int(gaps.start[gap]), int(gaps.end[gap]), launch=int(launch))  # type: ignore[union-attr]
    names = [name for name in GAPS.names if name.startswith("host_")]
    return {name: pa.array([row.get(name) for row in rows], GAPS.field(name).type) for name in names}


class _HostActivity:
    """Looks up what a host thread did in an interval."""

    def __init__(self, events: EventTable) -> None:
        self.start = ints(events, "start_ns")
        self.end = self.start + ints(events, "duration_ns")
        self.thread, self.parent = thread_numbers(events), parent_rows(events)
        self.name, self.stack, kind = coded(events, "name"), coded(events, "stack"), coded(events, "kind")
        self.works = ~kind.where(_CONTAINERS.__contains__)
        self.is_region = kind.where(Kind.REGION.value.__eq__)
        self.is_region &= coded(events, "layer").where(Layer.APPLICATION.value.__eq__)

    def during(self, start: int, end: int, *, launch: int) -> dict[str, Any]:
        """Return the columns of the host for a gap that ended by a launch."""
        rows = np.flatnonzero((self.thread == self.thread[launch]) & (self.start < end) & (self.end > start))
        overlap = np.zeros(len(self.start), np.int64)
        overlap[rows] = np.minimum(self.end[rows], end) - np.maximum(self.start[rows], start)
        busy = rows[self.works[rows]]
        node = np.zeros(len(self.start), np.bool_)
        node[busy] = True
        own = self_time(overlap, nearest(np.where(node, self.parent, -1), parent=self.parent, wanted=node), node)
        idle = end - start - int(own.sum())
        name, spent = _largest(self.name, busy, own)
        region, _ = _largest(self.name, rows[self.is_region[rows]], overlap)
        if name is None or spent < idle:
            return {"host_activity_ns": idle, "host_region": region}
        of_name = busy[self.name.codes[busy] == self.name.values.index(name)]
        stack = self.stack.codes[of_name[np.argmax(own[of_name])]]
        source = self.stack.values[stack].rpartition(";")[2] if stack >= 0 else None
        return {"host_activity": name, "host_activity_ns": spent, "host_region": region, "host_source": source}


def _largest(names: Coded, rows: Ints, amount: Ints) -> tuple[str | None, int]:
    """Return the name with the largest sum over some rows, and that sum."""
    if not len(rows):
        return None, 0
    codes, index = np.unique(names.codes[rows], return_inverse=True)
    sums = np.zeros(len(codes), np.int64)
    np.add.at(sums, index, amount[rows])
    return names.values[codes[np.argmax(sums)]], int(sums.max())
