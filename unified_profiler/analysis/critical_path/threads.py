"""Dependencies between host threads: what the main thread starts on other threads, and what it waits for there.

Profilers do not record who waits for whom. The main thread is taken to wait for an operator of another thread that ends
while the main thread itself does nothing that is recorded, or is within one call that it leaves soon afterward.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unified_profiler.analysis.columns import Flags, coded
from unified_profiler.analysis.critical_path.columns import TraceColumns, kind_code
from unified_profiler.analysis.critical_path.host import Segments
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import Kind

BACK_TO_BACK_NS = 50_000
"""An operator that begins within this time after the previous one of its thread follows from that one."""
RESUMES_WITHIN_NS = 200_000
"""The main thread has waited for a collective if it goes on within this time after the end."""

_BACKGROUND_THREAD = re.compile(r"pin_?memory|tf_data|data_?(loader|set)|prefetch", re.IGNORECASE)
"""Matches the names of threads that prepare data ahead, for which only data loading waits."""


@dataclass(frozen=True)
class ThreadLinks:
    """Waits of the main thread, and edges between threads as pairs of thread and time."""

    wait_start: Ints
    wait_end: Ints
    wait_thread: Ints
    """The thread whose operator ends last in the wait, at the end of the wait."""
    from_thread: Ints
    from_time: Ints
    to_thread: Ints
    to_time: Ints


@dataclass(frozen=True)
class Threads:
    """The operators that run on other threads than the main thread."""

    columns: TraceColumns
    segments: Segments
    main: int

    @cached_property
    def _rows(self) -> Ints:
        """Rows of the outermost events of other threads, sorted by thread and time."""
        columns = self.columns
        background = coded(columns.events, "thread").where(lambda name: _BACKGROUND_THREAD.search(name) is not None)
        work = columns.is_kind(Kind.OP, Kind.COLLECTIVE, Kind.COMPILE, Kind.KERNEL, Kind.COPY, Kind.RUNTIME)
        outer = columns.host & (columns.parent < 0) & work & ~background & (columns.thread != self.main)
        rows = np.flatnonzero(outer)
        ordered: Ints = rows[np.lexsort((columns.start[rows], columns.thread[rows]))]
        return ordered

    def links(self) -> ThreadLinks:
        """Return the dependencies between the main thread and the others."""
        rows = self._rows
        thread, start, end = self.columns.thread[rows], self.columns.start[rows], self.columns.end[rows]
        windows = self._windows(thread, start, end)
        apart = self._begins_apart(thread, start, end)
        source_thread, source_time = self._sources(windows, start[apart], end, thread)
        return ThreadLinks(*windows, source_thread, source_time, thread[apart], start[apart])

    def _begins_apart(self, thread: Ints, start: Ints, end: Ints) -> Flags:
        """Return the events that do not directly follow another one of their thread."""
        apart = np.ones(len(start), np.bool_)
        apart[1:] = (thread[1:] != thread[:-1]) | (start[1:] - end[:-1] > BACK_TO_BACK_NS)
        return apart

    def _windows(self, thread: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """Return start, end and thread of the main thread's waits, at most one in each of its segments."""
        segment = self.segments.at(self.main, end)
        waited = np.flatnonzero((segment >= 0) & self._is_waited_for(segment, start, end))
        waited = waited[np.lexsort((end[waited], segment[waited]))]
        of = segment[waited]
        last = np.flatnonzero(np.append(of[1:] != of[:-1], True)) if len(of) else waited
        first = np.concatenate([[0], last[:-1] + 1]) if len(of) else waited
        begin = np.minimum.reduceat(start[waited], first) if len(of) else waited
        begin = np.maximum(begin, self.segments.starts(of[last]))
        return begin, end[waited[last]], thread[waited[last]]

    def _is_waited_for(self, segment: Ints, start: Ints, end: Ints) -> Flags:
        """Return whether the main thread waits for each event in the segment in which the event ends."""
        row = self.segments.row[segment]
        kind = np.where(row >= 0, self.columns.kind[row], kind_code("gap"))
        collective = self.columns.is_kind(Kind.COLLECTIVE)[self._rows]
        begins = self.segments.starts(segment)
        called = (start >= begins) & np.isin(kind, [kind_code(name) for name in ("gap", "runtime", "op", "compile")])
        resumed = self.segments.ends(segment) - end <= RESUMES_WITHIN_NS
        idle = np.isin(kind, [kind_code(name) for name in ("gap", "runtime", "collective")])
        awaited = collective & idle & resumed & (end - begins > RESUMES_WITHIN_NS)
        waited: Flags = called | awaited
        return waited

    def _sources(self, windows: tuple[Ints, Ints, Ints], start: Ints, ends: Ints, threads: Ints) -> tuple[Ints, Ints]:
        """Return thread and time of the cause of each start.

        Within a wait it is the last end before it, else the beginning of the wait. Outside of waits it is what the main
        thread does at that moment.
        """
        begin, finish, _ = windows
        if not len(begin):
            return np.full(len(start), self.main), start
        window = np.maximum(np.searchsorted(begin, start, side="right") - 1, 0)
        within = (begin[window] <= start) & (start < finish[window])
        order = np.argsort(ends, kind="stable")
        last = order[np.maximum(np.searchsorted(ends[order], start, side="left") - 1, 0)]
        handed_on = within & (ends[last] > begin[window]) & (ends[last] < start)
        source_time = np.where(handed_on, ends[last], np.where(within, begin[window], start))
        return np.where(handed_on, threads[last], self.main), source_time
