"""The dependency graph: points in time on lanes, joined by work, by order on a lane, and by dependencies across lanes.

A lane is a host thread or a device stream. Nothing here depends on events, so the graph can be tested by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unified_profiler.analysis.columns import Flags
from unified_profiler.model.nesting import Ints

ROOT = -2
"""The cause of a point before which nothing is known; it keeps its recorded time."""
LANE = -1
"""The cause of a point that follows the one before it on its lane."""


@dataclass(frozen=True)
class Graph:
    """Points numbered lane by lane and in time order within each lane, and the edges between them.

    A point cannot happen before the one before it on its lane plus `weight`, nor before the source of an edge that
    leads to it plus the edge's `lag`. It happens as soon as all of these allow it.
    """

    time: Ints
    """When each point was recorded."""
    lane: Ints
    weight: Ints
    """Time that passes at least between the previous point of the lane and each point; 0 for the first of a lane."""
    source: Ints
    """The point at which each edge between lanes begins."""
    target: Ints
    lag: Ints

    @cached_property
    def follows(self) -> Flags:
        """Whether each point has a previous point on its lane."""
        flags = np.zeros(len(self.time), np.bool_)
        flags[1:] = self.lane[1:] == self.lane[:-1]
        return flags

    @cached_property
    def elapsed(self) -> Ints:
        """The recorded time between the previous point of the lane and each point; 0 for the first of a lane."""
        return np.where(self.follows, np.diff(self.time, prepend=0), 0)

    @cached_property
    def causes(self) -> Ints:
        """The reason why each point happened when it did: `LANE`, `ROOT`, or the number of an edge."""
        causes = np.full(len(self.time), ROOT)
        binding = np.flatnonzero(self.time[self.source] + self.lag == self.time[self.target])[::-1]
        causes[self.target[binding]] = binding
        causes[self.follows & (self.elapsed == self.weight)] = LANE
        return causes

    def explained(self) -> Graph:
        """Return the graph with measured lags, so that it reproduces every recorded time.

        Where the recording shows that a point happened later than its predecessors explain, the remaining time becomes
        a lag after the latest of them. No weight and no lag may exceed the recorded time between its points.
        """
        latest_edge = self._latest_edges()
        late = self.causes == ROOT
        has_edge = late & (latest_edge >= 0)
        edge_time = np.full(len(self.time), np.iinfo(np.int64).min)
        edge_time[has_edge] = self.time[self.source[latest_edge[has_edge]]]
        after_lane = late & self.follows & (self.time - self.elapsed >= edge_time)
        weight, lag = np.where(after_lane, self.elapsed, self.weight), self.lag.copy()
        edges = latest_edge[has_edge & ~after_lane]
        lag[edges] = self.time[self.target[edges]] - self.time[self.source[edges]]
        return replace(self, weight=weight, lag=lag)

    def _latest_edges(self) -> Ints:
        """Return for each point the edge to it whose source is the latest, -1 if there is none."""
        latest = np.full(len(self.time), -1)
        order = np.argsort(self.time[self.source], kind="stable")
        latest[self.target[order]] = order
        return latest

    def replay(self, *, weight: Ints | None = None, lag: Ints | None = None) -> Ints:
        """Return when each point would happen with other weights and lags; the recorded times if none are given.

        Lanes are contracted to the points at which they depend on one another, so that a long thread without
        dependencies costs a few array operations.
        """
        weight = self.weight if weight is None else weight
        lag = self.lag if lag is None else lag
        first = np.flatnonzero(~self.follows)
        knots = np.unique(np.concatenate([first, self.source, self.target]))
        passed = np.cumsum(np.where(self.follows, weight, 0))
        times = self._knot_times(knots, passed, lag)
        knot = np.searchsorted(knots, np.arange(len(self.time)), side="right") - 1
        replayed: Ints = times[knot] + passed - passed[knots[knot]]
        return replayed

    def _knot_times(self, knots: Ints, passed: Ints, lag: Ints) -> Ints:
        """Return the new times of the points at which lanes depend on one another."""
        source, target = np.searchsorted(knots, self.source), np.searchsorted(knots, self.target)
        follows = self.follows[knots]
        step = np.diff(passed[knots], prepend=0)
        order = _topological_order(self.time[knots], follows, source, target)
        by_target = np.argsort(target, kind="stable")
        first_edge = np.searchsorted(target[by_target], np.arange(len(knots) + 1)).tolist()
        sources, lags = source[by_target].tolist(), lag[by_target].tolist()
        times: list[int] = self.time[knots].tolist()
        after, is_next = step.tolist(), follows.tolist()
        for knot in order.tolist():
            earliest = [times[sources[edge]] + lags[edge] for edge in range(first_edge[knot], first_edge[knot + 1])]
            if is_next[knot]:
                earliest.append(times[knot - 1] + after[knot])
            if earliest:
                times[knot] = max(earliest)
        return np.array(times, np.int64)


def _topological_order(time: Ints, follows: Flags, source: Ints, target: Ints) -> Ints:
    """Return the points in an order in which every edge leads forward: by time, and by dependency at equal times."""
    instant = np.flatnonzero(time[source] == time[target])
    on_lane = np.flatnonzero(follows & (np.diff(time, prepend=0) == 0))
    before = np.concatenate([source[instant], on_lane - 1])
    after = np.concatenate([target[instant], on_lane])
    level = np.zeros(len(time), np.int64)
    for _ in range(len(before) + 1):
        raised = level.copy()
        np.maximum.at(raised, after, level[before] + 1)
        if np.array_equal(raised, level):
            order: Ints = np.lexsort((level, time))
            return order
        level = raised
    msg = "The dependencies form a cycle at one point in time."
    raise ValueError(msg)


@dataclass(frozen=True)
class Piece:
    """A part of a critical path, from its end backward to where another piece continues it.

    Attributes:
        points: The points whose lane segments, from the previous point of the lane, are on the path; latest first.
        edges: The edges between lanes on the path; latest first.
        end_ns: When it ends.
        start_ns: When it begins.
        before: The piece that covers the time before, -1 if there is none.
        waited_for: The edge of `external` at which the piece begins, -1 if it begins elsewhere.
    """

    points: Ints
    edges: Ints
    end_ns: int
    start_ns: int
    before: int = -1
    waited_for: int = -1


def walk(graph: Graph, ends: Sequence[int], *, stop_ns: int, external: Flags | None = None) -> list[Piece]:
    """Follow the causes backward from each of some points; return one piece per point.

    Args:
        graph: A graph that explains every time.
        ends: The points, in the order in which their pieces are made: what two paths share is in the earlier one.
        stop_ns: Paths are followed to this time at least.
        external: The edges that stand for something outside the graph, at which a piece begins.
    """
    state = _Walk(graph, stop_ns, np.zeros(len(graph.source), np.bool_) if external is None else external)
    return [state.piece(number, int(end)) for number, end in enumerate(ends)]


class _Walk:
    """Follows causes, and remembers which parts of which lanes are in a piece already."""

    def __init__(self, graph: Graph, stop_ns: int, external: Flags) -> None:
        self.graph, self.stop_ns, self.external = graph, stop_ns, external
        changes = np.where(graph.causes == LANE, 0, np.arange(len(graph.time)))
        self.run_start = np.maximum.accumulate(changes)
        """For each point the point on its lane from which only the lane's order leads to it."""
        self.seen: dict[int, tuple[int, int]] = {}
        """For the start of a run the last point in a piece, and the number of that piece."""

    def piece(self, number: int, end: int) -> Piece:
        """Return the piece that ends at a point."""
        runs, edges, point = [], [], end
        time, before, waited_for = self.graph.time, -1, -1
        while True:
            start = int(self.run_start[point])
            last, owner = self.seen.get(start, (start, -1))
            if last < point:
                self.seen[start] = (point, number)
                runs.append(np.arange(point, last, -1))
            point = min(point, last)
            cause = int(self.graph.causes[start])
            if owner >= 0:
                before = owner
                break
            self.seen.setdefault(start, (start, number))
            if cause == ROOT or time[start] <= self.stop_ns:
                break
            if self.external[cause]:
                waited_for = cause
                break
            edges.append(cause)
            point = int(self.graph.source[cause])
        points = np.concatenate(runs) if runs else np.zeros(0, np.int64)
        return Piece(points, np.array(edges, np.int64), int(time[end]), int(time[point]), before, waited_for)
