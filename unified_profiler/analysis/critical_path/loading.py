"""Waits for data that workers load in the background: the next batch arrives as long after the last one as recorded.

On the critical path such a wait is a segment of its own. In a replay it has to be more: a program that waits for its
loader does not become faster if it computes faster, it waits longer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unified_profiler.analysis.critical_path.columns import kind_code
from unified_profiler.analysis.critical_path.construction import TraceGraph
from unified_profiler.model.nesting import Ints

SHORTEST_WAIT_NS = 100_000
SMALLEST_WAIT = 0.05
"""Taking a batch is no wait for workers if it takes less than this share of the time since the last batch."""


def with_arriving_batches(trace: TraceGraph) -> TraceGraph:
    """Return the graph in which batches that workers load arrive at the rate at which they were recorded.

    The shortest time in which the program took a batch from its loader is what it needs if it does not wait.
    """
    points = _taken(trace)
    graph = trace.graph
    if len(points) < 2:
        return trace
    source, target = points[:-1], points[1:]
    own = int(graph.weight[points].min())
    interval = graph.time[target] - graph.time[source]
    waited = graph.weight[target] > np.maximum(interval * SMALLEST_WAIT, max(2 * own, SHORTEST_WAIT_NS))
    source, target = source[waited], target[waited]
    weight = graph.weight.copy()
    weight[target] = own
    lag = graph.time[target] - graph.time[source]
    return replace(
        trace,
        graph=replace(
            graph,
            weight=weight,
            source=np.concatenate([graph.source, source]),
            target=np.concatenate([graph.target, target]),
            lag=np.concatenate([graph.lag, lag]),
        ),
        edge_row=np.concatenate([trace.edge_row, trace.row[target]]),
        edge_kind=np.concatenate([trace.edge_kind, np.full(len(target), kind_code("data"))]),
        arrival=np.concatenate([trace.arrival, np.full(len(target), -1)]),
    )


def _taken(trace: TraceGraph) -> Ints:
    """Return for each batch the point at which the longest time in data loading ends, in order."""
    candidates = trace.main[trace.row[trace.main] >= 0]
    candidates = candidates[trace.columns.loads_ahead[trace.row[candidates]]]
    rows, weight = trace.row[candidates], trace.graph.weight[candidates]
    order = np.lexsort((weight, rows))
    last = np.append(rows[order][1:] != rows[order][:-1], True) if len(order) else order.astype(np.bool_)
    taken: Ints = np.sort(candidates[order[last]])
    return taken
