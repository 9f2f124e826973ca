"""The dependency graph against brute force: every path through small random graphs is enumerated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.analysis.critical_path.graph import Graph, Piece, walk


@dataclass(frozen=True)
class Example:
    """A random graph, as lists: what leads to each point, and how long it takes."""

    graph: Graph
    delays: list[int]
    """Time before each point that nothing explains."""
    changed_weight: list[int]
    changed_lag: list[int]


@st.composite
def examples(draw: st.DrawFn) -> Example:
    """Make lanes of points and dependencies between them; durations are often zero, so that many times are equal."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    lane = np.repeat(np.arange(len(sizes)), sizes)
    number = st.integers(0, 3)
    merged = _merged(draw, sizes)
    pairs = [(a, b) for i, a in enumerate(merged) for b in merged[i + 1 :] if lane[a] != lane[b]]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=6)) if pairs else []
    numbers = [draw(st.lists(number, min_size=len(lane), max_size=len(lane))) for _ in range(3)]
    lags = [draw(st.lists(number, min_size=len(edges), max_size=len(edges))) for _ in range(2)]
    graph = Graph(
        time=np.zeros(len(lane), np.int64),
        lane=lane,
        weight=np.array(numbers[0]),
        source=np.array([a for a, _ in edges], np.int64),
        target=np.array([b for _, b in edges], np.int64),
        lag=np.array(lags[0], np.int64),
    )
    graph = replace(graph, weight=np.where(graph.follows, graph.weight, 0))
    times = simulated(graph, delays=numbers[2], order=merged)
    return Example(replace(graph, time=times), numbers[2], numbers[1], lags[1])


def _merged(draw: st.DrawFn, sizes: list[int]) -> list[int]:
    """Merge the lanes' points into one order in which all dependencies lead forward."""
    turns = draw(st.permutations([lane for lane, size in enumerate(sizes) for _ in range(size)]))
    next_point = [sum(sizes[:lane]) for lane in range(len(sizes))]
    merged = []
    for lane in turns:
        merged.append(next_point[lane])
        next_point[lane] += 1
    return merged


def simulated(graph: Graph, *, delays: list[int], order: list[int]) -> np.typing.NDArray[np.int64]:
    """Let each point happen as soon as everything before it allows, plus its delay."""
    times = [0] * len(graph.lane)
    for point in order:
        times[point] = delays[point] + max((times[a] + w for a, w in before(graph, point)), default=0)
    return np.array(times, np.int64)


def before(graph: Graph, point: int) -> Iterator[tuple[int, int]]:
    """Yield what leads to a point, with its weight."""
    if graph.follows[point]:
        yield point - 1, int(graph.weight[point])
    for source, target, lag in zip(graph.source.tolist(), graph.target.tolist(), graph.lag.tolist(), strict=True):
        if target == point:
            yield source, lag


def longest(graph: Graph, point: int, roots: np.typing.NDArray[np.int64]) -> int:
    """Return the length of the longest of all paths to a point, each enumerated, beginning at the time of its root."""
    lengths = [longest(graph, a, roots) + weight for a, weight in before(graph, point)]
    return max(lengths, default=int(roots[point]))


@given(examples())
def test_a_replay_without_changes_reproduces_every_recorded_time(example: Example) -> None:
    graph = example.graph.explained()
    assert graph.replay().tolist() == example.graph.time.tolist()


@given(examples())
def test_a_replay_with_changes_is_the_longest_of_all_paths(example: Example) -> None:
    graph = example.graph.explained()
    weight = np.where(graph.follows, example.changed_weight, 0)
    changed = replace(graph, weight=weight, lag=np.array(example.changed_lag, np.int64))
    expected = [longest(changed, point, graph.time) for point in range(len(graph.time))]
    assert graph.replay(weight=weight, lag=changed.lag).tolist() == expected


@given(examples())
def test_the_path_to_a_point_is_as_long_as_the_longest_of_all_paths_to_it(example: Example) -> None:
    graph = example.graph.explained()
    for point in range(len(graph.time)):
        (piece,) = walk(graph, [point], stop_ns=-1)
        length = graph.elapsed[piece.points].sum() + graph.lag[piece.edges].sum()
        assert length == piece.end_ns - piece.start_ns
        assert piece.start_ns + length == longest(graph, point, graph.time)


@given(examples())
def test_a_path_is_made_of_adjacent_segments(example: Example) -> None:
    graph = example.graph.explained()
    for point in range(len(graph.time)):
        (piece,) = walk(graph, [point], stop_ns=-1)
        assert is_contiguous(spans(graph, piece), piece.start_ns, piece.end_ns)


@given(examples())
def test_paths_that_share_a_part_have_it_once_and_are_complete(example: Example) -> None:
    graph = example.graph.explained()
    points = np.argsort(graph.time, kind="stable").tolist()
    pieces = walk(graph, points, stop_ns=-1)
    shared = [(kind, index) for piece in pieces for kind, index in members(piece)]
    assert len(set(shared)) == len(shared)
    for number, point in enumerate(points):
        whole = walk(graph, [point], stop_ns=-1)[0]
        assert stitched(graph, pieces, number) == spans(graph, whole)


@given(examples(), st.integers(-1, 12))
def test_a_path_is_followed_to_a_given_time_at_least(example: Example, stop_ns: int) -> None:
    graph = example.graph.explained()
    for point in range(len(graph.time)):
        whole, part = (walk(graph, [point], stop_ns=stop)[0] for stop in (-1, stop_ns))
        assert part.start_ns <= max(stop_ns, whole.start_ns)


def test_unexplained_time_before_a_point_becomes_a_lag_after_its_latest_predecessor() -> None:
    graph = replace(two_lanes(), time=np.array([0, 5, 2, 8, 12]), weight=np.array([0, 5, 0, 0, 4])).explained()
    assert (graph.lag.tolist(), graph.weight.tolist()) == ([3], [0, 5, 0, 0, 4])


def test_a_path_ends_at_an_edge_from_outside() -> None:
    graph = two_lanes()
    (piece,) = walk(graph, [4], stop_ns=0, external=np.array([True]))
    assert (piece.waited_for, piece.start_ns, piece.end_ns) == (0, 5, 9)


def test_a_path_crosses_lanes_at_the_edge_that_was_waited_for() -> None:
    (piece,) = walk(two_lanes(), [4], stop_ns=0)
    assert (piece.points.tolist(), piece.edges.tolist(), piece.start_ns) == ([4, 1], [0], 0)


def test_dependencies_in_a_circle_are_an_error() -> None:
    zero = np.zeros(2, np.int64)
    graph = Graph(zero, np.arange(2), zero, np.array([0, 1]), np.array([1, 0]), zero)
    with pytest.raises(ValueError, match="cycle"):
        graph.replay()


def two_lanes() -> Graph:
    """Return a lane that works from 0 to 5, and one that begins at 2, waits for it and works from 5 to 9."""
    time, lane, weight = [0, 5, 2, 5, 9], [0, 0, 1, 1, 1], [0, 5, 0, 0, 4]
    arrays = (np.array(values, np.int64) for values in (time, lane, weight, [1], [3], [0]))
    return Graph(*arrays)


def members(piece: Piece) -> Iterator[tuple[str, int]]:
    yield from (("point", int(point)) for point in piece.points)
    yield from (("edge", int(edge)) for edge in piece.edges)


def spans(graph: Graph, piece: Piece) -> list[tuple[int, int]]:
    """Return start and end of everything on a piece that takes time, the latest first."""
    on_lanes = [(int(graph.time[p] - graph.elapsed[p]), int(graph.time[p])) for p in piece.points]
    between = [
        (int(graph.time[a]), int(graph.time[b]))
        for a, b in zip(graph.source[piece.edges], graph.target[piece.edges], strict=True)
    ]
    return sorted(((a, b) for a, b in on_lanes + between if a < b), reverse=True)


def stitched(graph: Graph, pieces: list[Piece], number: int) -> list[tuple[int, int]]:
    parts, end = [], pieces[number].end_ns
    while number >= 0:
        parts += [span for span in spans(graph, pieces[number]) if span[1] <= end]
        end, number = min(end, pieces[number].start_ns), pieces[number].before
    return parts


def is_contiguous(parts: list[tuple[int, int]], start: int, end: int) -> bool:
    borders = [end, *(border for b, a in parts for border in (a, b)), start]
    return all(borders[i] == borders[i + 1] for i in range(0, len(borders), 2))
