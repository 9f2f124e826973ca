"""Computes how many launches were waiting in the queue of each stream over time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.devices.work import DeviceWork, device_work
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import TEXT, EventTable

QUEUES = pa.schema(
    {
        **dict.fromkeys(("rank", "cycle"), pa.int32()),
        "device": TEXT,
        **dict.fromkeys(("stream", "start_ns", "duration_ns", "length"), pa.int64()),
    }
)
"""One row per change of a queue: its length from then on, and until when; null after the last change."""


def queue_lengths(events: EventTable) -> pa.Table:
    """Return the changes of the queues of one trace: longer when a launch begins, shorter when its work begins."""
    work = device_work(events)
    tables = [_queue(work, lane[work.launch[lane] >= 0]) for lane in work.lanes(by_stream=True)]
    table = pa.concat_tables([QUEUES.empty_table(), *tables])
    for index, name in enumerate(("rank", "cycle") if len(table) else ()):
        table = table.set_column(index, name, pa.repeat(events.column(name)[0].cast(pa.int32()), len(table)))
    return table


def _queue(work: DeviceWork, pieces: Ints) -> pa.Table:
    if not len(pieces):
        return QUEUES.empty_table()
    time = np.concatenate([work.launch_start[pieces], work.start[pieces]])
    change = np.repeat(np.array([1, -1]), len(pieces))
    order = np.lexsort((-change, time))  # a launch comes before a start at the same time
    time, count = time[order], len(time)
    columns = {
        **dict.fromkeys(("rank", "cycle"), pa.nulls(count, pa.int32())),
        "device": pa.repeat(work.device.values[work.device.codes[pieces[0]]], count),
        "stream": pa.array(work.stream[pieces].repeat(2), mask=work.stream[pieces].repeat(2) < 0),
        "start_ns": time,
        "duration_ns": pa.array(np.append(np.diff(time), 0), mask=np.arange(count) == count - 1),
        "length": np.cumsum(change[order]),
    }
    return pa.table(columns).cast(QUEUES)
