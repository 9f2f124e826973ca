"""Computes how many launches were waiting in the queue of each stream over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from unified_profiler.analysis.columns import ints, numbered
from unified_profiler.analysis.devices.work import DeviceWork, device_work
from unified_profiler.model.arrow_arrays import number_array, text_array
from unified_profiler.model.columns import dictionary_array
from unified_profiler.model.nesting import Ints, whole_numbers
from unified_profiler.model.schema import TEXT, EventTable

QUEUES = pa.schema(
    {
        **dict.fromkeys(("rank", "cycle"), pa.int32()),
        "device": TEXT,
        **dict.fromkeys(("stream", "start_ns", "duration_ns", "length"), pa.int64()),
    }
)
"""One row per change of a queue: its length from then on, and until when; null after the last change."""


LENGTHS = pa.schema(
    {
        "rank": pa.int32(),
        "device": pa.string(),
        **dict.fromkeys(("stream", "length", "change_count", "duration_ns"), pa.int64()),
    }
)
"""One row per length of a queue: how many changes led to it, and how long the queue had it."""

DISTRIBUTION = pa.schema(
    {
        "change_count": pa.int64(),
        **dict.fromkeys(("length_mean", "length_deviation"), pa.float64()),
        "length_min": pa.int64(),
        **dict.fromkeys(("length_p25", "length_median", "length_p75"), pa.float64()),
        "length_max": pa.int64(),
        "empty_share": pa.float64(),
        "full_ns": pa.int64(),
    }
)
"""The figures of one queue."""


@dataclass(frozen=True)
class _Queue:
    """The changes of one queue in order of time.

    Attributes:
        device: The device, a code.
        stream: The stream, -1 if unknown.
        time: When the queue changed.
        length: Its length from then on.
    """

    device: int
    stream: int
    time: Ints
    length: Ints


def queue_lengths(events: EventTable) -> pa.Table:
    """Return the changes of the queues of one trace: longer when a launch begins, shorter when its work begins."""
    work = device_work(events)
    queues = _queues(work)
    if not queues:
        return QUEUES.empty_table()
    counts = [len(queue.time) for queue in queues]
    duration = np.concatenate([np.append(np.diff(queue.time), 0) for queue in queues])
    is_last = np.zeros(len(duration), np.bool_)
    is_last[np.cumsum(counts) - 1] = True
    columns = {
        **_keys(events, work, queues, counts),
        "cycle": pa.repeat(events.column("cycle")[0], len(duration)),
        "start_ns": np.concatenate([queue.time for queue in queues]),
        "duration_ns": number_array(duration, missing=is_last),
        "length": np.concatenate([queue.length for queue in queues]),
    }
    return pa.table({name: columns[name] for name in QUEUES.names})


def length_counts(events: EventTable) -> pa.Table:
    """Return the lengths of the queues of one trace."""
    work = device_work(events)
    queues = _queues(work)
    if not queues:
        return LENGTHS.empty_table()
    lengths, counts, spent = zip(*map(_lengths, queues), strict=True)
    columns = {
        **_keys(events, work, queues, [len(length) for length in lengths]),
        "length": np.concatenate(lengths),
        "change_count": np.concatenate(counts),
        "duration_ns": np.concatenate(spent),
    }
    return pa.table(columns)


def _queues(work: DeviceWork) -> list[_Queue]:
    launched = (lane[work.launch[lane] >= 0] for lane in work.lanes(by_stream=True))
    return [_queue(work, pieces) for pieces in launched if len(pieces)]


def _queue(work: DeviceWork, pieces: Ints) -> _Queue:
    time = np.concatenate([work.launch_start[pieces], work.start[pieces]])
    order = np.argsort(time, kind="stable")  # a launch comes before a start at the same time
    length = np.cumsum(np.where(order < len(pieces), 1, -1))
    return _Queue(int(work.device.codes[pieces[0]]), int(work.stream[pieces[0]]), time[order], length)


def _lengths(queue: _Queue) -> tuple[Ints, Ints, Ints]:
    """Return the lengths of a queue, how many changes led to each, and how long the queue had it."""
    shortest = queue.length.min()
    offset = queue.length - shortest
    counts = np.bincount(offset)
    spent = np.zeros(len(counts), np.int64)
    np.add.at(spent, offset[:-1], np.diff(queue.time))
    return np.arange(len(counts)) + shortest, counts, spent


def _keys(events: EventTable, work: DeviceWork, queues: Sequence[_Queue], counts: Sequence[int]) -> dict[str, pa.Array]:
    """Return the rank, device and stream of each queue, repeated for its rows."""
    device = np.repeat([queue.device for queue in queues], counts)
    stream = np.repeat([queue.stream for queue in queues], counts)
    return {
        "rank": pa.repeat(events.column("rank")[0], len(device)),
        "device": dictionary_array(device, text_array(work.device.values)),
        "stream": number_array(stream, missing=stream < 0),
    }


def summarized(lengths: pa.Table, *, full: int) -> pa.Table:
    """Return one row per queue with the distribution of its lengths over all changes.

    Args:
        lengths: The lengths of all queues in each cycle.
        full: The length from which on a queue is full.
    """
    lengths = lengths.sort_by([(name, "ascending") for name in ("rank", "device", "stream", "length")])
    keys = numbered([ints(lengths, "rank"), _codes(lengths.column("device")), ints(lengths, "stream")])
    groups = np.split(np.arange(len(keys)), np.flatnonzero(np.diff(keys)) + 1) if len(keys) else []
    measured = [ints(lengths, name) for name in ("length", "change_count", "duration_ns")]
    rows = [_distribution(*(values[group] for values in measured), full=full) for group in groups]
    queues = lengths.select(["rank", "device", "stream"]).take(pa.array([group[0] for group in groups], pa.int64()))
    figures = pa.Table.from_pylist(rows, DISTRIBUTION)
    return pa.table({name: table.column(name) for table in (queues, figures) for name in table.column_names})


def _codes(texts: pa.ChunkedArray) -> Ints:
    return whole_numbers(texts.dictionary_encode().combine_chunks().indices)


def _distribution(length: Ints, count: Ints, duration: Ints, *, full: int) -> dict[str, Any]:
    """Return the figures of one queue from its lengths in ascending order."""
    total, spent, waiting = int(count.sum()), int(duration.sum()), int((length * count).sum())
    squares = int((length * length * count).sum())
    quartiles = [_quantile(length, count, part) for part in (0.25, 0.5, 0.75)]
    return {
        "change_count": total,
        "length_mean": waiting / total,
        "length_deviation": math.sqrt((total * squares - waiting**2) / (total * (total - 1))),
        "length_min": int(length[0]),
        **dict(zip(("length_p25", "length_median", "length_p75"), quartiles, strict=True)),
        "length_max": int(length[-1]),
        "empty_share": int(duration[length == 0].sum()) / spent if spent else None,
        "full_ns": int(duration[length >= full].sum()),
    }


def _quantile(length: Ints, count: Ints, part: float) -> float:
    """Return a quantile of all changes, interpolated linearly."""
    position = part * (int(count.sum()) - 1)
    below, above = math.floor(position), math.ceil(position)
    lower, upper = length[np.searchsorted(np.cumsum(count), [below, above], side="right")].tolist()
    return float(lower + (upper - lower) * (position - below))
