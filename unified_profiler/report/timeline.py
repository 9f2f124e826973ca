"""Builds timelines of single steps for the page, as many as fit: the median step and the extremes first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unified_profiler.analysis.columns import coded, ints
from unified_profiler.analysis.tracks import Track
from unified_profiler.model.nesting import Ints
from unified_profiler.presentation.texts import shortened
from unified_profiler.report.slices import Slices
from unified_profiler.report.spans import TraceSpans

MOST_SLICES = 120_000
"""Slices of all timelines together."""
MOST_IN_STEP = 30_000
"""Slices of one step; the shortest are left out."""


@dataclass(frozen=True)
class Timelines:
    """The timelines that fit."""

    documents: list[dict[str, Any]]
    left_out: int
    """Recorded steps without a timeline."""


def timelines(
    spans: Sequence[TraceSpans], *, origin_ns: int, most: int = MOST_SLICES, most_in_step: int = MOST_IN_STEP
) -> Timelines:
    """Return timelines for the page: the next most representative step of each rank in turn, until the page is full.

    Args:
        spans: The spans of all traces.
        origin_ns: Time zero of the page.
        most: Slices of all timelines together; each rank has at least one step in any case.
        most_in_step: Slices of one step.
    """
    sources = [_WindowedTrace(part) for part in spans]
    ranks = sorted({part.info.rank for part in spans})
    documents: list[dict[str, Any]] = []
    room = most
    turns = itertools.zip_longest(*(_prioritized(sources, rank) for rank in ranks))
    steps = [step for turn in turns for step in turn if step is not None]
    for index, (source, window) in enumerate(steps):
        count = min(len(source.rows_in(window)), most_in_step)
        if count <= room or index < len(ranks):
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


class _WindowedTrace:
    """The spans of a trace and its windows."""

    def __init__(self, spans: TraceSpans) -> None:
        self.spans = spans
        self.windows = _windows(spans)
        self._texts = {name: coded(spans.events, name) for name in ("module", "input_shapes")}

    def rows_in(self, window: _Window) -> Ints:
        """Return the spans that overlap a window."""
        start, duration = self.spans.start, self.spans.duration
        return np.flatnonzero((start < window.end) & (start + duration > window.start))

    def document(self, window: _Window, *, origin_ns: int, most: int) -> dict[str, Any]:
        """Return the timeline of the longest spans, which include the parents of all spans in it."""
        spans, rows = self.spans, self.rows_in(window)
        kept = rows if len(rows) <= most else rows[np.argsort(-spans.duration[rows], kind="stable")[:most]]
        module, modules = self._used("module", kept)
        shapes, shape_texts = self._used("input_shapes", kept)
        slices = Slices(
            track=spans.lanes.of_row[kept],
            depth=spans.depth[kept],
            start=spans.start[kept] - window.start,
            duration=spans.duration[kept],
            own=spans.own[kept],
            name=spans.name.codes[kept].astype(np.int64),
            category=spans.category[kept],
            more={"module": module, "shapes": shapes},
        )
        tracks = [{"name": _track_name(lane), "device": lane.source.device} for lane in spans.lanes.tracks]
        return {
            "rank": spans.info.rank,
            "cycle": spans.info.cycle,
            "step": window.step,
            "start": window.start - origin_ns,
            "duration": window.duration,
            "modules": modules,
            "shapes": shape_texts,
            **slices.to_document(spans.name.values, tracks),
            "left_out": {
                "count": len(rows) - len(kept),
                "self_ns": int(spans.own[rows].sum() - spans.own[kept].sum()),
            },
        }

    def _used(self, name: str, rows: Ints) -> tuple[Ints, list[str]]:
        texts = self._texts[name]
        return used_texts(texts.codes[rows].astype(np.int64), texts.values)


def _windows(spans: TraceSpans) -> list[_Window]:
    if not len(spans.start):
        return []
    end = spans.start + spans.duration
    if not len(spans.steps):
        return [_Window(None, int(spans.start.min()), int(end.max()))]
    numbers = ints(spans.events, "step")
    return [_Window(int(numbers[row]), int(spans.start[row]), int(end[row])) for row in spans.steps]


def _prioritized(sources: Sequence[_WindowedTrace], rank: int) -> Iterator[tuple[_WindowedTrace, _Window]]:
    """Yield the steps of a rank: the median, the slowest and the fastest step, then the others in order."""
    steps = [(source, window) for source in sources if source.spans.info.rank == rank for window in source.windows]
    by_time = sorted(range(len(steps)), key=lambda index: steps[index][1].duration)
    first = [by_time[len(by_time) // 2], by_time[-1], by_time[0]] if by_time else []
    for index in dict.fromkeys([*first, *range(len(steps))]):
        yield steps[index]


def used_texts(codes: Ints, texts: Sequence[str]) -> tuple[Ints, list[str]]:
    """Renumber the codes for the texts that are used; -1 stays."""
    used, number = np.unique(codes, return_inverse=True)
    missing = int((used < 0).sum())
    return number.reshape(-1) - missing, [shortened(texts[code]) for code in used[missing:].tolist()]


def _track_name(lane: Track) -> str:
    """Return the name of a thread, with its system id if it has one that is not already in the name."""
    name, number = lane.name, lane.source.tid
    given = lane.source.has_system_id and number != lane.source.pid and str(number) not in name
    return f"{name} ({number})" if given else name
