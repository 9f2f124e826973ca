"""Timelines of single steps, as many as a page can hold: the typical step and the extremes first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unified_profiler.analysis.columns import Coded, coded, ints
from unified_profiler.analysis.tracks import Track
from unified_profiler.model.columns import Index
from unified_profiler.model.nesting import FIRST_LANE, Ints
from unified_profiler.presentation.texts import shortened
from unified_profiler.report.slices import Slices
from unified_profiler.report.spans import Spans

MOST_SLICES = 120_000
"""Slices of all timelines together."""
MOST_IN_STEP = 30_000
"""Slices of one step; the shortest are left out."""


@dataclass(frozen=True)
class Timelines:
    """What fits."""

    documents: list[dict[str, Any]]
    left_out: int
    """Recorded steps that have none."""


def timelines(
    spans: Sequence[Spans], *, origin_ns: int, most: int = MOST_SLICES, most_in_step: int = MOST_IN_STEP
) -> Timelines:
    """Return timelines for the page: of each rank in turn the most telling step that is left, until there is no room.

    Args:
        spans: The spans of all traces.
        origin_ns: The moment from which the times of the page count.
        most: Slices of all timelines together; one step of each rank is there in any case.
        most_in_step: Slices of one step.
    """
    sources = [_Source(part) for part in spans]
    ranks = sorted({part.info.rank for part in spans})
    documents: list[dict[str, Any]] = []
    room = most
    for turn, (source, window) in enumerate(_in_turn([list(_ranked(sources, rank)) for rank in ranks])):
        count = min(len(source.rows_in(window)), most_in_step)
        if count <= room or turn < len(ranks):
            room -= count
            documents.append(source.document(window, origin_ns=origin_ns, most=most_in_step))
    documents.sort(key=lambda document: (document["rank"], document["cycle"], document["step"] or 0))
    return Timelines(documents, sum(len(source.windows) for source in sources) - len(documents))


@dataclass(frozen=True)
class _Window:
    """A step, or a whole trace without steps."""

    step: int | None
    start: int
    end: int

    @property
    def duration(self) -> int:
        return self.end - self.start


class _Source:
    """The spans of a trace, of which windows are cut."""

    def __init__(self, spans: Spans) -> None:
        self.spans = spans
        self.windows = _windows(spans)
        self._detail, self._details = _details(coded(spans.events, "module"), coded(spans.events, "input_shapes"))

    def rows_in(self, window: _Window) -> Ints:
        """Return the spans that lie in a window, or reach into it."""
        start, duration = self.spans.start, self.spans.duration
        return np.flatnonzero((start < window.end) & (start + duration > window.start))

    def document(self, window: _Window, *, origin_ns: int, most: int) -> dict[str, Any]:
        """Return one timeline, the longest spans: parents are never shorter than their children, so they stay."""
        spans, rows = self.spans, self.rows_in(window)
        kept = rows if len(rows) <= most else rows[np.argsort(-spans.duration[rows], kind="stable")[:most]]
        detail, details = _used(self._detail[kept], self._details)
        slices = Slices(
            track=spans.lanes.of_row[kept],
            depth=spans.depth[kept],
            start=spans.start[kept] - window.start,
            duration=spans.duration[kept],
            own=spans.own[kept],
            name=spans.name.codes[kept].astype(np.int64),
            category=spans.category[kept],
            more={"detail": detail},
        )
        tracks = [{"name": _track_name(lane), "device": lane.source.device} for lane in spans.lanes.tracks]
        return {
            "rank": spans.info.rank,
            "cycle": spans.info.cycle,
            "step": window.step,
            "start": window.start - origin_ns,
            "duration": window.duration,
            "details": details,
            **slices.to_document(spans.name.values, tracks),
            "left_out": {
                "count": len(rows) - len(kept),
                "self_ns": int(spans.own[rows].sum() - spans.own[kept].sum()),
            },
        }


def _windows(spans: Spans) -> list[_Window]:
    if not len(spans.start):
        return []
    end = spans.start + spans.duration
    if not len(spans.steps):
        return [_Window(None, int(spans.start.min()), int(end.max()))]
    numbers = ints(spans.events, "step")
    return [_Window(int(numbers[row]), int(spans.start[row]), int(end[row])) for row in spans.steps]


def _ranked(sources: Sequence[_Source], rank: int) -> Iterator[tuple[_Source, _Window]]:
    """Give the steps of a rank, the most telling first: the median, the slowest, the fastest, then in order."""
    steps = [(source, window) for source in sources if source.spans.info.rank == rank for window in source.windows]
    by_time = sorted(range(len(steps)), key=lambda index: steps[index][1].duration)
    telling = [by_time[len(by_time) // 2], by_time[-1], by_time[0]] if by_time else []
    for index in dict.fromkeys([*telling, *range(len(steps))]):
        yield steps[index]


def _in_turn(queues: Sequence[Sequence[Any]]) -> Iterator[Any]:
    missing = object()
    for turn in itertools.zip_longest(*queues, fillvalue=missing):
        yield from (item for item in turn if item is not missing)


def _details(module: Coded, shapes: Coded) -> tuple[Ints, list[str]]:
    """Number what is to be said of each span beyond its name: its module and the shapes of its inputs."""
    pair = (module.codes.astype(np.int64) + 1) * (len(shapes.values) + 1) + shapes.codes + 1
    used, codes = np.unique(pair, return_inverse=True)
    texts = Index()
    of_pair = []
    for number in used.tolist():
        first, second = divmod(number, len(shapes.values) + 1)
        parts = [values[code - 1] for values, code in ((module.values, first), (shapes.values, second)) if code]
        of_pair.append(texts["  ".join(parts)] if parts else -1)
    return np.array(of_pair, np.int64)[codes.reshape(-1)], list(texts)


def _used(codes: Ints, texts: Sequence[str]) -> tuple[Ints, list[str]]:
    """Number the texts that are used anew; -1 stays."""
    used, number = np.unique(codes, return_inverse=True)
    missing = int((used < 0).sum())
    return number.reshape(-1) - missing, [shortened(texts[code]) for code in used[missing:].tolist()]


def _track_name(lane: Track) -> str:
    """Return the name of a thread, and its number where the system gave it one and the name does not tell it."""
    name, number = lane.source.thread_name, lane.source.tid
    given = number is not None and number < FIRST_LANE and str(number) not in name
    return f"{name} ({number})" if given else name
