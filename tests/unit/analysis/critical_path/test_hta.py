"""The critical paths of HolisticTraceAnalysis 0.5.0, which are the same chains of operators, launches and kernels.

HTA adds up less of the time along the path. It gives no weight to the time between two outermost operators (here:
segments of kind `gap`), to calls that may block (`cudaDeviceSynchronize`, `cudaEventQuery`), nor to the time between
the end of work and the start of work on another stream that waited for it. Its path ends with the last kernel. With
these left out of ours, the totals are equal to the microsecond, in which these files record all times:

* alexnet: 36 025 us from the first call in the annotation to the end of the last kernel launched in it, less 176 us
  between operators, 14 us in cudaDeviceSynchronize and 1 us after a Stream Wait Event, are 35 834 us.
* simple_add: 242 625 us, less 884 us between operators and 17 us in cudaDeviceSynchronize, are 241 724 us.
* event_sync_multi_stream: 19 917 us, less 18 723 us between operators and 16 us in cudaEventQuery, are 1 178 us.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

import unified_profiler as up
from unified_profiler.analysis.critical_path.columns import KINDS
from unified_profiler.analysis.critical_path.construction import TraceGraph, trace_graph
from unified_profiler.analysis.critical_path.graph import walk
from unified_profiler.registry import conventions

GOLDEN = Path(__file__).parents[3] / "golden" / "kineto"
ANNOTATION = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"


@dataclass(frozen=True)
class Figures:
    """What HTA printed, in microseconds: CPU, kernels, delays between kernels, and launch delays on the path."""

    cpu: int
    kernels: int
    between_kernels: int
    launches: int

    @property
    def total(self) -> int:
        return self.cpu + self.kernels + self.between_kernels + self.launches


HTA = {
    "alexnet_cuda": Figures(cpu=32042, kernels=3712, between_kernels=50, launches=30),
    "simple_add": Figures(cpu=241190, kernels=508, between_kernels=9, launches=17),
    "event_sync_multi_stream": Figures(cpu=1025, kernels=124, between_kernels=15, launches=14),
}


@pytest.mark.parametrize("name", HTA)
def test_the_total_is_that_of_hta(name: str) -> None:
    annotated = name != "event_sync_multi_stream"
    path = path_to_the_last_work(name, annotation=ANNOTATION if annotated else None)
    assert sum(path.values()) == HTA[name].total


@pytest.mark.parametrize("name", ["alexnet_cuda", "simple_add"])
def test_kernels_are_those_of_hta(name: str) -> None:
    path = path_to_the_last_work(name, annotation=ANNOTATION)
    assert path["kernel"] + path["copy"] == HTA[name].kernels


def test_a_kernel_whose_launch_ends_after_the_work_before_it_follows_from_the_launch() -> None:
    """HTA compares the work before it (1 us, and 15 us after it) with the start of the call, which is the same time."""
    path = path_to_the_last_work("event_sync_multi_stream", annotation=None)
    assert path["kernel"] + path["copy"] == HTA["event_sync_multi_stream"].kernels - 1


def path_to_the_last_work(name: str, *, annotation: str | None) -> Counter[str]:
    """Return the microseconds of each kind on the path to the last work launched in an annotation, as HTA counts."""
    events = up.read(GOLDEN / f"{name}.json.gz").traces[0].events
    graph = trace_graph(events, conventions())
    assert graph is not None
    start, end = window(graph, annotation)
    launched = graph.work_points[graph.launch[graph.work_points] >= 0]
    calls = graph.columns.start[graph.launch[launched]]
    launched = launched[(calls >= start) & (calls <= end)]
    last = int(launched[np.argmax(graph.graph.time[launched])])
    return counted(graph, last, start)


def window(graph: TraceGraph, annotation: str | None) -> tuple[int, int]:
    """Return when the first call or operator in the second occurrence of an annotation starts, and when that ends."""
    columns, start, end = graph.columns, 0, int(graph.graph.time.max())
    if annotation is not None:
        row = np.flatnonzero(pc.equal(columns.events.column("name"), annotation).to_numpy())[1]
        start, end = int(columns.start[row]), int(columns.end[row])
    calls = columns.host & np.isin(columns.kind, [KINDS.index(kind) for kind in ("op", "runtime", "sync")])
    starts = columns.start[calls]
    return int(starts[starts >= start].min()), end


def counted(graph: TraceGraph, point: int, start: int) -> Counter[str]:
    """Add up the segments of a path, except those to which HTA gives no weight."""
    (piece,) = walk(graph.graph, [point], stop_ns=start)
    times, name = Counter[str](), graph.columns.name
    for each in piece.points.tolist():
        began = max(int(graph.graph.time[each] - graph.graph.elapsed[each]), start)
        text = name.values[name.codes[graph.row[each]]] if graph.row[each] >= 0 else ""
        kind = KINDS[graph.kind[each]]
        if kind not in {"gap", "sync"} and text != "cudaEventQuery":
            times[kind] += max(int(graph.graph.time[each]) - began, 0) // 1000
    for edge in piece.edges.tolist():
        if KINDS[graph.edge_kind[edge]] == "launch":
            times["launch"] += int(graph.graph.lag[edge]) // 1000
    return times
