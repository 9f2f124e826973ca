"""Measures the devices of one trace: how long each was busy with each class of work, and idle for each cause.

One row per device (or stream) for the whole trace, and one per device and step. The engine may run these functions in
another process.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.columns import numbered
from unified_profiler.analysis.devices.class_times import MASKS, class_times, of_classes, together
from unified_profiler.analysis.devices.gaps import CAUSES, Gaps, find_gaps
from unified_profiler.analysis.devices.work import CLASSES, DeviceWork, device_work
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable
from unified_profiler.spi import EventConventions

TIMES = (
    *("span_ns", "busy_ns", "idle_ns", "compute_ns", "communication_ns", "copy_ns"),
    *("exposed_communication_ns", "exposed_copy_ns", "overlap_ns"),
)
"""The measured times of a device, in order."""

IDLE = tuple(f"{cause}_ns" for cause in CAUSES)
"""The idle time by cause; these add up to `idle_ns`."""

COMBINATIONS = {
    f"only_{'_'.join(names)}": names
    for names in (tuple(name for bit, name in enumerate(CLASSES) if mask >> bit & 1) for mask in range(1, MASKS))
}
"""Columns with the time in which exactly these classes ran at once; they add up to `busy_ns`."""

FACTS = pa.schema(
    {
        **dict.fromkeys(("rank", "cycle", "step"), pa.int32()),
        "device": pa.string(),
        "stream": pa.int64(),
        "whole": pa.bool_(),
        "work_count": pa.int64(),
        **dict.fromkeys((*TIMES, *IDLE, *COMBINATIONS), pa.int64()),
    }
)
"""One row per device and step, or per device, and of no cycle, where `whole` is true."""

_KEYS = ("whole", "rank", "cycle", "step", "device", "stream")


def device_facts(events: EventTable, conventions: Mapping[str, EventConventions], *, by_stream: bool) -> pa.Table:
    """Return the measurements of one trace.

    Args:
        events: The events.
        conventions: The conventions of each framework, by the name in the column `framework`.
        by_stream: Whether each stream is measured instead of each device.
    """
    work = device_work(events)
    if not len(work):
        return FACTS.empty_table()
    gaps = find_gaps(events, work, conventions, by_stream=by_stream)
    lane = work.lane_numbers(by_stream=by_stream)
    tables = [_measured(work, gaps, lane, whole=True), _measured(work, gaps, numbered([lane, work.step]), whole=False)]
    table = pa.concat_tables(tables)
    if not by_stream:
        table = table.set_column(FACTS.get_field_index("stream"), "stream", pa.nulls(len(table), pa.int64()))
    rank, cycle = (pa.repeat(events.column(name)[0].cast(pa.int32()), len(table)) for name in ("rank", "cycle"))
    cycle = pc.if_else(table.column("whole"), pa.scalar(None, pa.int32()), cycle)
    return table.set_column(0, "rank", rank).set_column(1, "cycle", cycle)


def summed(facts: pa.Table) -> pa.Table:
    """Return the measurements of all traces, in order of rank, cycle, step and device: added up, with the idle share.

    A device's row for the whole trace adds up to one for all cycles of the rank.
    """
    measures = FACTS.names[FACTS.get_field_index("work_count") :]
    sums = facts.group_by(_KEYS, use_threads=False).aggregate([(name, "sum") for name in measures])
    sums = sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names]).select(FACTS.names)
    span = sums.column("span_ns").cast(pa.float64())
    share = pc.divide(sums.column("idle_ns"), pc.if_else(pc.equal(span, 0), None, span))
    return sums.append_column("idle_share", share).sort_by([(name, "ascending") for name in _KEYS])


def _measured(work: DeviceWork, gaps: Gaps, group: Ints, *, whole: bool) -> pa.Table:
    """Measure groups of work; a gap counts for the group of the work that ended it."""
    count = int(group.max()) + 1
    times = class_times(work.start, work.end, work.work_class, group, groups=count)
    idle = np.zeros((count, len(CAUSES)), np.int64)
    np.add.at(idle, (group[gaps.work], gaps.cause), gaps.end - gaps.start)
    first = np.full(count, -1)
    first[group[::-1]] = np.arange(len(group))[::-1]
    busy, step = times[:, 1:].sum(axis=1), work.step[first]
    return pa.table(
        {
            **dict.fromkeys(("rank", "cycle"), pa.nulls(count, pa.int32())),
            "step": pa.array(step, mask=(step < 0) | whole),
            "device": pa.array(work.device.values, pa.string()).take(pa.array(work.device.codes[first])),
            "stream": pa.array(work.stream[first], mask=work.stream[first] < 0),
            "whole": pa.repeat(whole, count),
            "work_count": np.bincount(group, minlength=count),
            "span_ns": _spans(work, gaps, group, count),
            "busy_ns": busy,
            "idle_ns": idle.sum(axis=1),
            **{f"{name}_ns": of_classes(times, with_any=(name,)) for name in CLASSES},
            "exposed_communication_ns": of_classes(times, with_any=("communication",), without=("compute",)),
            "exposed_copy_ns": of_classes(times, with_any=("copy",), without=("compute", "communication")),
            "overlap_ns": together(times, "compute", "communication"),
            **{name: idle[:, index] for index, name in enumerate(IDLE)},
            **{name: times[:, index] for index, name in enumerate(COMBINATIONS, 1)},
        }
    ).cast(FACTS)


def _spans(work: DeviceWork, gaps: Gaps, group: Ints, count: int) -> Ints:
    """Return how long each group lasted: from its first start, or the gap before it, to its last end."""
    start, end = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(start, group, work.start)
    np.minimum.at(start, group[gaps.work], gaps.start)
    np.maximum.at(end, group, work.end)
    spans: Ints = end - start
    return spans
