"""Spans that a timeline shows beside its events, such as a critical path, without becoming events themselves.

They are pairs of `B` and `E` events on threads of their own, which `read` leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler.analysis.tracks import Track
from unified_profiler.errors import ConfigurationError
from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import Ints, find_nesting

_REQUIRED = ("name", "lane", "start_ns", "end_ns")


@dataclass(frozen=True, eq=False)
class Overlay:
    """Spans shown as a process of their own, joined by arrows in the order of the table.

    Raises:
        ConfigurationError: A column is missing, or has empty cells where it must not.
    """

    spans: pa.Table
    """Columns `name`, `lane` (the text that names its track), `start_ns` and `end_ns`. With a column `rank` of several
    ranks, each rank has tracks of its own. With a column `step`, arrows stay within a step. These two and all other
    columns are shown with a span."""
    name: str = "critical path"

    def __post_init__(self) -> None:
        """Check the columns."""
        missing = [name for name in _REQUIRED if name not in self.spans.column_names]
        incomplete = [name for name in _REQUIRED if name not in missing and self.spans.column(name).null_count]
        if missing or incomplete:
            problem = f"lacks {', '.join(missing)}" if missing else f"has empty cells in {', '.join(incomplete)}"
            msg = f"The table of the overlay {self.name!r} {problem}. It needs the columns {', '.join(_REQUIRED)}."
            raise ConfigurationError(msg)


def first_start(overlays: Iterable[Overlay]) -> int | None:
    """Return the start of the earliest span, None if there is none."""
    starts = [pc.min(overlay.spans.column("start_ns")).as_py() for overlay in overlays if len(overlay.spans)]
    return min(starts, default=None)


def overlay_events(overlays: Sequence[Overlay], *, base: int, tracks: Sequence[Track]) -> Iterator[dict[str, Any]]:
    """Yield Chrome trace events.

    Args:
        overlays: The overlays.
        base: Time zero in nanoseconds.
        tracks: The tracks of the events, whose numbers are taken.
    """
    pids = _free_numbers(track.pid for track in tracks)
    tids = _free_numbers(track.tid for track in tracks)
    arrows = count(1)
    for overlay in overlays:
        if len(overlay.spans):
            yield from _overlay(overlay, base, next(pids), tids, arrows)


def _free_numbers(taken: Iterable[int]) -> Iterator[int]:
    used = set(taken)
    return (number for number in count(1) if number not in used)


def _overlay(
    overlay: Overlay, base: int, pid: int, tids: Iterator[int], arrows: Iterator[int]
) -> Iterator[dict[str, Any]]:
    start = overlay.spans.column("start_ns").to_numpy() - base
    duration = overlay.spans.column("end_ns").to_numpy() - base - start
    names, lane = _lanes(overlay.spans, start, duration)
    numbers = list(islice(tids, len(names)))
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": overlay.name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": -1}}
    for tid, name in zip(numbers, names, strict=True):
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
    track = [{"pid": pid, "tid": numbers[code]} for code in lane.tolist()]
    yield from _slices(overlay.spans, start, start + duration, lane, track)
    yield from _arrows(overlay, start, track, arrows)


def _lanes(spans: pa.Table, start: Ints, duration: Ints) -> tuple[list[str], Ints]:
    """Return the names of the tracks and the track of each span; spans that overlap partly get further tracks."""
    ranks = spans.column("rank").to_pylist() if "rank" in spans.column_names else [None] * len(spans)
    texts = [str(lane) for lane in spans.column("lane").to_pylist()]
    if len(set(ranks)) > 1:
        texts = [f"rank {rank}: {text}" for rank, text in zip(ranks, texts, strict=True)]
    names, tracks = Index(), Index()
    lane = names.codes(texts)
    separate = find_nesting(start, duration, np.zeros_like(lane), lane).tid
    track = tracks.codes(zip(lane.tolist(), separate.tolist(), strict=True))
    return [list(names)[code] for code, _ in tracks], track


def _slices(spans: pa.Table, start: Ints, end: Ints, lane: Ints, track: Sequence[dict[str, int]]) -> Iterator[Any]:
    """Yield the begin and end of each span, per track by time, so that ends match the latest begin."""
    columns = [name for name in spans.column_names if name not in _REQUIRED]
    args = spans.select(columns).to_pylist() if columns else [{}] * len(spans)
    names = spans.column("name").to_pylist()
    open_rows: list[int] = []
    for row in np.lexsort((-end, start, lane)).tolist():
        while open_rows and (lane[open_rows[-1]] != lane[row] or end[open_rows[-1]] <= start[row]):
            yield _end(open_rows.pop(), names, end, track)
        details = {key: value for key, value in args[row].items() if value is not None}
        yield {"ph": "B", "name": str(names[row]), **track[row], "ts": int(start[row]) / 1000, "args": details}
        open_rows.append(row)
    for row in reversed(open_rows):
        yield _end(row, names, end, track)


def _end(row: int, names: Sequence[Any], end: Ints, track: Sequence[dict[str, int]]) -> dict[str, Any]:
    return {"ph": "E", "name": str(names[row]), **track[row], "ts": int(end[row]) / 1000}


def _arrows(
    overlay: Overlay, start: Ints, track: Sequence[dict[str, int]], numbers: Iterator[int]
) -> Iterator[dict[str, Any]]:
    """Yield an arrow from each span to the next one of its step; viewers reject arrows back in time."""
    spans = overlay.spans
    steps = spans.column("step").to_pylist() if "step" in spans.column_names else [None] * len(spans)
    for source, target in pairwise(range(len(spans))):
        if steps[source] == steps[target] and start[source] < start[target]:
            number = next(numbers)
            for phase, row in (({"ph": "s"}, source), ({"ph": "f", "bp": "e"}, target)):
                flow = {"id": number, "cat": "overlay", "name": overlay.name, **track[row]}
                yield {**phase, **flow, "ts": int(start[row]) / 1000}
