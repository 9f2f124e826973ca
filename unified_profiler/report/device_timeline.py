"""Builds timelines of the streams of devices for the page: what ran in a step, and why nothing ran in between."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis import gap_table, query
from unified_profiler.analysis.columns import coded, ints, numbered
from unified_profiler.analysis.devices.gaps import CAUSES
from unified_profiler.analysis.devices.work import CLASSES, groups_of
from unified_profiler.model.nesting import Ints
from unified_profiler.model.run import Run
from unified_profiler.model.schema import TEXT
from unified_profiler.report.slices import Slices
from unified_profiler.report.timeline import Timelines, used_texts

STREAM_IDLE = "stream_idle"
CATEGORIES = (*CLASSES, *CAUSES, STREAM_IDLE)
"""The classes of work, the causes of gaps of whole devices, and gaps of streams, which are no loss by themselves."""
MOST_SLICES = 40_000
"""Slices of all timelines together."""
MOST_IN_STEP = 6000
"""Slices of one step; the shortest are left out."""

_NUMBERS = ("cycle", "step", "stream", "start_ns", "duration_ns", "delay_ns", "bytes")
_TEXTS = ("device", "category", "name", "detail", "grid")
ROWS = pa.schema({**dict.fromkeys(_NUMBERS, pa.int64()), **dict.fromkeys(_TEXTS, TEXT)})
"""Work of a stream, work of a device (without a stream) and gaps of both.

`detail` is the operator that launched the work, or what the host did in a gap; `delay_ns` is that of the launch,
`bytes` what was moved, and `grid` that of a kernel.
"""
_PLAIN = pa.schema({**dict.fromkeys(_NUMBERS, pa.int64()), **dict.fromkeys(_TEXTS, pa.string())})
_OF_GAPS = ("cycle", "step", "device", "stream", "start_ns", "duration_ns")
_WORK = (
    "select cycle, step, device, stream, class as category, name, operator as detail, grid, start_ns, duration_ns, "
    "delay_ns, bytes "
    "from device_work"
)


def device_timelines(
    run: Run, *, ranks: Sequence[int], origin_ns: int, most: int = MOST_SLICES, most_in_step: int = MOST_IN_STEP
) -> Timelines:
    """Return the timelines that fit: the next most representative step of each rank in turn.

    Args:
        run: The run.
        ranks: The ranks to show.
        origin_ns: Time zero of the page.
        most: Slices of all timelines together; each rank has at least one step in any case.
        most_in_step: Slices of one step.
    """
    of_ranks = [_steps(run.select(rank=rank), rank) for rank in ranks]
    turns = itertools.zip_longest(*(_prioritized(steps) for steps in of_ranks))
    steps = [step for turn in turns for step in turn if step is not None]
    documents, room = [], most
    for index, step in enumerate(steps):
        count = min(len(step.rows), most_in_step)
        if count <= room or index < len(ranks):
            room -= count
            documents.append(step.document(origin_ns=origin_ns, most=most_in_step))
    documents.sort(key=lambda document: (document["rank"], document["cycle"], document["start"]))
    return Timelines(documents, len(steps) - len(documents))


@dataclass(frozen=True)
class _Step:
    """Work and gaps of the devices of one rank that belong to one step, or to none."""

    rank: int
    cycle: int
    step: int | None
    rows: pa.Table

    @cached_property
    def span(self) -> tuple[int, int]:
        """From when to when the devices worked or were idle; a stream may have been idle since the step before."""
        of_devices = ints(self.rows, "stream") < 0
        start = ints(self.rows, "start_ns")[of_devices]
        return int(start.min()), int((start + ints(self.rows, "duration_ns")[of_devices]).max())

    @property
    def duration(self) -> int:
        return self.span[1] - self.span[0]

    def document(self, *, origin_ns: int, most: int) -> dict[str, Any]:
        """Return the timeline of the longest pieces of work and gaps."""
        rows, duration = self.rows, ints(self.rows, "duration_ns")
        kept = np.sort(np.argsort(-duration, kind="stable")[:most])
        shown = rows.take(pa.array(kept))
        tracks, track = _tracks(shown)
        name, category = coded(shown, "name"), coded(shown, "category")
        detail, details = _used(shown, "detail")
        grid, grids = _used(shown, "grid")
        codes = np.array([CATEGORIES.index(text) for text in category.values], np.int64)
        slices = Slices(
            track=track,
            depth=_depths(shown, track),
            start=ints(shown, "start_ns") - self.span[0],
            duration=duration[kept],
            own=duration[kept],
            name=name.codes.astype(np.int64),
            category=codes[category.codes],
            more={"detail": detail, "delay": ints(shown, "delay_ns"), "bytes": ints(shown, "bytes"), "grid": grid},
        )
        return {
            "rank": self.rank,
            "cycle": self.cycle,
            "step": self.step,
            "start": self.span[0] - origin_ns,
            "duration": self.duration,
            "details": details,
            "grids": grids,
            **slices.to_document(name.values, tracks),
            "left_out": {"count": len(rows) - len(kept), "self_ns": int(duration.sum() - duration[kept].sum())},
        }


def _used(rows: pa.Table, name: str) -> tuple[Ints, list[str]]:
    texts = coded(rows, name)
    return used_texts(texts.codes.astype(np.int64), texts.values)


def _steps(run: Run, rank: int) -> list[_Step]:
    """Return the steps of one rank that have work."""
    work = _as_rows(query(run, _WORK, timeout=None).table)
    if not len(work):
        return []
    gaps = [_gap_rows(gap_table(run, by=by, row_limit=None).table) for by in ("device", "stream")]
    rows = pa.concat_tables([_device_rows(work), work, *gaps]).unify_dictionaries()
    groups = groups_of(numbered([ints(rows, "cycle"), ints(rows, "step")]))
    parts = [rows.take(pa.array(group)) for group in groups]
    return [_Step(rank, part.column("cycle")[0].as_py(), part.column("step")[0].as_py(), part) for part in parts]


def _as_rows(table: pa.Table) -> pa.Table:
    """Return the columns of `ROWS`; those that a table lacks are null."""
    columns = {name: table.column(name) for name in ROWS.names if name in table.column_names}
    missing = {name: pa.nulls(len(table), pa.string()) for name in ROWS.names if name not in columns}
    return pa.table({**columns, **missing}).select(ROWS.names).cast(_PLAIN).cast(ROWS)


def _gap_rows(gaps: pa.Table) -> pa.Table:
    """Return gaps as rows: the cause is their category and name, what the host did meanwhile their detail."""
    cause = gaps.column("cause").cast(pa.string())
    category = pc.if_else(gaps.column("stream").is_null(), cause, STREAM_IDLE)
    renamed = {"category": category, "name": cause, "detail": gaps.column("host_activity")}
    return _as_rows(pa.table({**{name: gaps.column(name) for name in _OF_GAPS}, **renamed}))


def _device_rows(work: pa.Table) -> pa.Table:
    """Return for each device and step the times in which the same classes of work ran at once, without a stream."""
    keys = ("cycle", "step", "device")
    device = coded(work, "device").codes
    rows: list[dict[str, Any]] = []
    for group in groups_of(numbered([ints(work, "cycle"), ints(work, "step"), device])):
        part = work.take(pa.array(group))
        shared = {name: part.column(name)[0].as_py() for name in keys}
        rows += [{**shared, **row} for row in _combinations(part)]
    return _as_rows(pa.Table.from_pylist(rows, schema=_PLAIN))


def _combinations(work: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the maximal times in which exactly the same classes ran; the first of these classes is the category."""
    start = ints(work, "start_ns")
    end = start + ints(work, "duration_ns")
    names = coded(work, "category")
    of_class = np.array([CLASSES.index(text) for text in names.values], np.int64)[names.codes]
    borders = np.unique(np.concatenate([start, end]))
    mask = np.zeros(len(borders), np.int64)
    for number in range(len(CLASSES)):
        change = np.zeros(len(borders), np.int64)
        np.add.at(change, np.searchsorted(borders, start[of_class == number]), 1)
        np.add.at(change, np.searchsorted(borders, end[of_class == number]), -1)
        mask |= (np.cumsum(change) > 0).astype(np.int64) << number
    for begin, following in itertools.pairwise(np.flatnonzero(np.diff(mask, prepend=0)).tolist()):
        running = [name for number, name in enumerate(CLASSES) if mask[begin] >> number & 1]
        if running:
            span = {"start_ns": int(borders[begin]), "duration_ns": int(borders[following] - borders[begin])}
            yield {"category": running[0], "name": " + ".join(running), **span}


def _tracks(rows: pa.Table) -> tuple[list[dict[str, Any]], Ints]:
    """Return the tracks (each device, then its streams in order) and the track of each row."""
    keys = list(zip(rows.column("device").to_pylist(), ints(rows, "stream").tolist(), strict=True))
    order = {key: index for index, key in enumerate(sorted(set(keys)))}
    tracks = [{"name": device, "device": None if stream < 0 else f"stream {stream}"} for device, stream in order]
    return tracks, np.array([order[key] for key in keys], np.int64)


def _depths(rows: pa.Table, track: Ints) -> Ints:
    """Return lanes in which the work of a track does not overlap."""
    start = ints(rows, "start_ns")
    end = start + ints(rows, "duration_ns")
    depth = np.zeros(len(start), np.int64)
    free: dict[int, list[tuple[int, int]]] = {}
    for row in np.lexsort((end, start, track)).tolist():
        lanes = free.setdefault(int(track[row]), [])
        reusable = lanes and lanes[0][0] <= start[row]
        depth[row] = heapq.heappop(lanes)[1] if reusable else len(lanes)
        heapq.heappush(lanes, (int(end[row]), int(depth[row])))
    return depth


def _prioritized(steps: Sequence[_Step]) -> Iterator[_Step]:
    """Yield the steps of a rank: the median, the longest and the shortest, then the others in order."""
    by_time = sorted(range(len(steps)), key=lambda index: steps[index].duration)
    first = [by_time[len(by_time) // 2], by_time[-1], by_time[0]] if by_time else []
    for index in dict.fromkeys([*first, *range(len(steps))]):
        yield steps[index]
