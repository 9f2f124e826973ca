"""Builds the dependency graph of one trace from its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unified_profiler.analysis.columns import Flags, ints
from unified_profiler.analysis.critical_path.arrivals import Arrivals
from unified_profiler.analysis.critical_path.columns import TraceColumns, kind_code
from unified_profiler.analysis.critical_path.device import DeviceWaits, Synchronizations, Works
from unified_profiler.analysis.critical_path.graph import ROOT, Graph
from unified_profiler.analysis.critical_path.host import LaneClock, Segments, main_thread
from unified_profiler.analysis.critical_path.inference import inferred_stream_edges, inferred_waits
from unified_profiler.analysis.critical_path.layout import Edges, Layout
from unified_profiler.analysis.critical_path.threads import ThreadLinks, Threads
from unified_profiler.analysis.critical_path.waits import (
    HostWaits,
    host_collectives,
    rows_at,
    waits_for_devices,
    waits_for_ranks,
    waits_for_threads,
)
from unified_profiler.analysis.step_facts import KindTimeline, Steps
from unified_profiler.model.columns import look_up
from unified_profiler.model.nesting import Ints
from unified_profiler.model.schema import EventTable
from unified_profiler.spi import EventConventions


@dataclass(frozen=True)
class TraceGraph:
    """The graph of one trace, and what its segments and edges stand for."""

    columns: TraceColumns
    graph: Graph
    steps: Steps
    """The steps, without ones of no duration."""
    row: Ints
    """The event of the segment that ends at each point, -1 if there is none."""
    kind: Ints
    """The kind of the segment that ends at each point."""
    edge_row: Ints
    """The event that each edge between lanes leads to, -1 if there is none."""
    edge_kind: Ints
    """The kind of segment that the lag of each edge is."""
    arrival: Ints
    """For edges that stand for the arrival of another rank its number, else -1."""
    main: Ints
    """The points of the main thread."""
    entries: Mapping[int, int]
    """The point at which this rank entered each collective in which it was the last, by number."""
    launch: Ints
    """The row of the call that launched the device work that ends at each point, else -1."""

    def main_point(self, time: int) -> int:
        """Return the last point of the main thread up to a time."""
        index = int(np.searchsorted(self._main_times, time, side="right")) - 1
        return int(self.main[max(index, 0)])

    @cached_property
    def _main_times(self) -> Ints:
        return self.graph.time[self.main]

    def completions(self) -> Ints:
        """Return for each step the point at which it is complete: its end, or that of its last work on a device."""
        steps, time = self.steps, self.graph.time
        points = np.array([self.main_point(int(end)) for end in steps.end.tolist()], np.int64)
        works = self.work_points
        index = look_up(ints(self.columns.events, "step")[self.row[works]], steps.number)
        works, index = works[index >= 0], index[index >= 0]
        order = np.argsort(time[works], kind="stable")
        latest = np.full(len(points), -1)
        latest[index[order]] = works[order]
        behind = (latest >= 0) & (time[latest] > time[points])
        return np.where(behind, latest, points)

    @cached_property
    def work_points(self) -> Ints:
        """The points at which work of devices ends."""
        ends = np.flatnonzero(self.row >= 0)
        points: Ints = ends[self.columns.work[self.row[ends]]]
        return points

    def lane_rows(self) -> Ints:
        """Return for each lane one of its events, -1 for a lane without any."""
        rows = np.full(int(self.graph.lane.max()) + 1, -1)
        columns = self.columns
        rows[columns.thread[columns.host]] = np.flatnonzero(columns.host)
        works = self.work_points
        rows[self.graph.lane[works]] = self.row[works]
        return rows

    def on_stream(self, points: Ints) -> Flags:
        """Return whether points are on the stream of a device."""
        flags = np.zeros(int(self.graph.lane.max()) + 1, np.bool_)
        flags[self.graph.lane[self.work_points]] = True
        on_stream: Flags = flags[self.graph.lane[points]]
        return on_stream

    def launch_of(self, rows: Ints) -> Ints:
        """Return the row of the call that launched each piece of work, -1 if it is unknown."""
        launch = np.full(len(self.columns.start), -1)
        works = self.work_points
        launch[self.row[works]] = self.launch[works]
        return launch[rows]

    @cached_property
    def last_point(self) -> int:
        """The point at which the recording ends, on the main thread if that ends last."""
        time = self.graph.time
        latest = np.flatnonzero(time == time.max())
        on_main = latest[np.isin(latest, self.main)]
        return int((on_main if len(on_main) else latest)[-1])


def trace_graph(
    events: EventTable, conventions: Mapping[str, EventConventions], arrivals: Arrivals | None = None
) -> TraceGraph | None:
    """Build the graph of a trace; None if it has nothing that takes time.

    Args:
        events: The events of one trace.
        conventions: The conventions of each framework, by name.
        arrivals: When other ranks arrived in the collectives of this one.
    """
    columns = TraceColumns(events, conventions)
    used = columns.host | columns.work
    if not used.any():
        return None
    return _Builder(columns, used, arrivals or Arrivals.none()).build()


class _Builder:
    """Collects the points of all lanes and the edges between them."""

    def __init__(self, columns: TraceColumns, used: Flags, arrivals: Arrivals) -> None:
        self.columns, self.arrivals, self.waiting = columns, arrivals, arrivals.waiting()
        self.steps = _lasting(KindTimeline(columns.events).steps())
        self.first_ns = int(min(columns.start[used].min(), self.steps.start.min(initial=columns.start[used].min())))
        last_ns = int(max(columns.end[used].max(), self.steps.end.max(initial=0)))
        self.clock = LaneClock.covering(self.first_ns, last_ns)
        self.main = main_thread(columns)
        if self.main < 0:
            self.main = int(columns.thread.max()) + 1
        self.segments = Segments.of(columns, self.clock, self.main)
        self.works = Works.of(columns)

    def build(self) -> TraceGraph:
        """Return the finished graph."""
        layout, edges = self.layout, self._edges()
        kept = (layout.time[edges.source] <= layout.time[edges.target]) & (edges.source != edges.target)
        edges = edges.filtered(kept)
        graph = Graph(layout.time, layout.lane, self._weights(), edges.source, edges.target, edges.lag).explained()
        graph, edges = self._anchored(graph, edges)
        graph = _with_usual_latency(graph, edges)
        return self._finished(graph, edges)

    # --- points ---------------------------------------------------------------------------------------------------

    @cached_property
    def syncs(self) -> Synchronizations:
        """The synchronizations of devices."""
        return Synchronizations(self.columns, self.works)

    @cached_property
    def device_waits(self) -> DeviceWaits:
        """What calls of host threads wait for on devices."""
        return self.syncs.waits()

    @cached_property
    def links(self) -> ThreadLinks:
        """The dependencies between host threads."""
        return Threads(self.columns, self.segments, self.main).links()

    @cached_property
    def waits(self) -> HostWaits:
        """When host threads wait."""
        devices = waits_for_devices(self.columns, self.segments, self.device_waits)
        threads = waits_for_threads(self.links, self.main)
        ranks, _ = waits_for_ranks(self.columns, self.waiting)
        waits = HostWaits.chosen(self.segments, devices, threads, ranks, self.inferred_waits[0])
        return waits.split(self.main, np.concatenate([self.steps.start, self.steps.end]))

    @cached_property
    def inferred_waits(self) -> tuple[HostWaits, Ints]:
        """The waits of host threads for devices that were not recorded, and the work that they waited for."""
        none = np.zeros(0, np.int64)
        recorded = self.syncs.is_recorded
        segment, work = (none, none) if recorded else inferred_waits(self.columns, self.works, self.segments)
        end = self.columns.end[self.works.row[work]]
        lane = self.clock.lane(self.segments.key[segment])
        return HostWaits(lane, self.segments.starts(segment), end), work

    @cached_property
    def layout(self) -> Layout:
        """The points of all lanes."""
        return Layout.of(self.columns, self.segments, self._host_keys(), self.works, self._ready_ns())

    def _host_keys(self) -> Ints:
        """Return the keys of all points on host threads."""
        links, columns, waits = self.links, self.columns, self.waits
        launches = self.works.launch[self.works.launch >= 0]
        borders = np.concatenate([self.steps.start, self.steps.end, [self.first_ns]])
        cuts = (
            (np.full(len(borders), self.main), borders),
            (columns.thread[launches], columns.start[launches]),
            (columns.thread[launches], columns.end[launches]),
            (waits.lane, waits.start),
            (waits.lane, waits.end),
            (links.from_thread, links.from_time),
            (links.to_thread, links.to_time),
        )
        keys = np.concatenate([self.segments.key, *(self.clock.keys(lane, time) for lane, time in cuts)])
        distinct = np.unique(keys)
        kept: Ints = distinct[~waits.contains(self.clock, distinct)]
        return kept

    def _ready_ns(self) -> Ints:
        """Return when all ranks had entered each piece of device work that waited for them, -1 for others."""
        ready = np.full(len(self.works.row), -1)
        work = self._work_at(self.waiting)
        ready[work[work >= 0]] = self.waiting.ready[work >= 0]
        return ready

    def _work_at(self, arrivals: Arrivals) -> Ints:
        """Return the index of the device work that each collective is, -1 for others."""
        rows = rows_at(self.columns, self.works.row, arrivals)
        return np.where(rows >= 0, look_up(rows, self.works.row), -1)

    def _weights(self) -> Ints:
        """Return the time that each segment takes: none while its thread waits or is idle."""
        layout = self.layout
        elapsed = np.diff(layout.time, prepend=0)
        takes = (layout.row >= 0) | (layout.lane == self.main)
        takes[0] = False
        takes[1:] &= layout.lane[1:] == layout.lane[:-1]
        takes[layout.points(self.waits.lane, self.waits.end)] = False
        return np.where(takes, elapsed, 0)

    # --- edges ----------------------------------------------------------------------------------------------------

    def _edges(self) -> Edges:
        return Edges.concatenated(
            [self._launch_edges(), self._stream_edges(), self._sync_edges(), *self._thread_edges(), self._arrivals()]
        )

    def _launch_edges(self) -> Edges:
        """Connect each launch to its work: from the end of the call, or from its start if the work began before."""
        columns, work = self.columns, np.flatnonzero(self.works.launch >= 0)
        call, row = self.works.launch[work], self.works.row[work]
        time = np.where(columns.end[call] <= columns.start[row], columns.end[call], columns.start[call])
        source = self.layout.points(columns.thread[call], time)
        return Edges.of(source, self.layout.begin[work], row=row, kind="launch")

    def _stream_edges(self) -> Edges:
        pairs = self.syncs.stream_edges() if self.syncs.is_recorded else inferred_stream_edges(self.columns, self.works)
        source, target = np.array(pairs, np.int64).reshape(-1, 2).T
        return Edges.of(self.layout.finish[source], self.layout.begin[target], kind="delay")

    def _sync_edges(self) -> Edges:
        """Connect work to the calls that wait for it, which go on when all of it has ended."""
        waits = self.device_waits
        target = self.layout.points(self.columns.thread[waits.call], waits.resumed)
        recorded = Edges.of(self.layout.finish[waits.work], target, row=waits.call, kind="sync")
        inferred, work = self.inferred_waits
        target = self.layout.points(inferred.lane, inferred.end)
        return Edges.concatenated([recorded, Edges.of(self.layout.finish[work], target, kind="sync")])

    def _thread_edges(self) -> tuple[Edges, Edges]:
        links, points = self.links, self.layout.points
        calls = Edges.of(points(links.from_thread, links.from_time), points(links.to_thread, links.to_time), kind="gap")
        main = np.full(len(links.wait_end), self.main)
        returns = Edges.of(points(links.wait_thread, links.wait_end), points(main, links.wait_end), kind="gap")
        return calls, returns

    def _arrivals(self) -> Edges:
        """Let other ranks arrive as long after the start of the step as recorded."""
        work = self._work_at(self.waiting)
        hosts, host_numbers = waits_for_ranks(self.columns, self.waiting)
        target = np.concatenate([self.layout.ready[work[work >= 0]], self.layout.points(hosts.lane, hosts.end)])
        number = np.concatenate([self.waiting.number[work >= 0], host_numbers])
        ready = self.layout.time[target]
        borders = np.unique(np.append(self.steps.start, self.first_ns))
        before = borders[np.maximum(np.searchsorted(borders, ready, side="left") - 1, 0)]
        source = self.layout.points(np.full(len(target), self.main), before)
        lag = ready - self.layout.time[source]
        return replace(Edges.of(source, target, kind="collective"), lag=lag, arrival=number)

    def _anchored(self, graph: Graph, edges: Edges) -> tuple[Graph, Edges]:
        """Let lanes that begin without a known cause begin as long after the main thread's last point as recorded."""
        roots = np.flatnonzero((graph.causes == ROOT) & (graph.lane != self.main))
        source = self.layout.points(np.full(len(roots), self.main), graph.time[roots])
        is_host = roots < self.layout.host_count
        kind = np.where(is_host, kind_code("gap"), kind_code("delay"))
        added = replace(Edges.of(source, roots, kind="gap"), kind=kind, lag=graph.time[roots] - graph.time[source])
        edges = Edges.concatenated([replace(edges, lag=graph.lag), added])
        return replace(graph, source=edges.source, target=edges.target, lag=edges.lag), edges

    # --- result ---------------------------------------------------------------------------------------------------

    def _finished(self, graph: Graph, edges: Edges) -> TraceGraph:
        layout = self.layout
        launch = np.full(len(graph.time), -1)
        launch[layout.finish] = self.works.launch
        idle = np.where(np.arange(len(graph.time)) < layout.host_count, kind_code("gap"), kind_code("delay"))
        return TraceGraph(
            columns=self.columns,
            graph=graph,
            steps=self.steps,
            row=layout.row,
            kind=np.where(layout.row >= 0, self.columns.kind[layout.row], idle),
            launch=launch,
            edge_row=edges.row,
            edge_kind=edges.kind,
            arrival=edges.arrival,
            main=np.flatnonzero(layout.lane == self.main),
            entries=self._entries(),
        )

    def _entries(self) -> dict[int, int]:
        """Return the point at which this rank entered each collective in which it was the last."""
        entered = self.arrivals.entries()
        work, rows = self._work_at(entered), host_collectives(self.columns, entered)
        on_host = self.layout.points(self.columns.thread[rows], entered.start)
        points = np.where(work >= 0, self.layout.begin[work] if len(self.works.row) else -1, on_host)
        known = (work >= 0) | (rows >= 0)
        return dict(zip(entered.number[known].tolist(), points[known].tolist(), strict=True))


def _lasting(steps: Steps) -> Steps:
    kept = steps.end > steps.start
    return Steps(steps.number[kept], steps.start[kept], steps.end[kept])


def _with_usual_latency(graph: Graph, edges: Edges) -> Graph:
    """Keep the usual launch latency also where the work began later than that for another reason."""
    launches = edges.kind == kind_code("launch")
    binding = launches & (graph.causes[graph.target] == np.arange(len(launches)))
    if not binding.any():
        return graph
    usual = int(np.median(graph.lag[binding]))
    # One nanosecond less than possible, so that the other reason remains the only one.
    possible = np.maximum(graph.time[graph.target] - graph.time[graph.source] - 1, 0)
    return replace(graph, lag=np.where(launches & ~binding, np.minimum(possible, usual), graph.lag))
