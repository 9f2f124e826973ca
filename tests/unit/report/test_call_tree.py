from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import unified_profiler as up
from unified_profiler.report.call_tree import call_tree
from unified_profiler.report.spans import TraceSpans
from unified_profiler.testing import TraceBuilder


def tree(*traces: up.Trace, **options: Any) -> dict[str, Any]:
    return call_tree([TraceSpans(trace) for trace in traces], **options)


def nodes(document: dict[str, Any]) -> list[dict[str, Any]]:
    slices = document["slices"]
    starts = np.cumsum(slices["start"]).tolist()
    columns = {**slices, "start": starts}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [{**row, "name": document["names"][row["name"]]} for row in rows]


def node(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [row for row in nodes(document) if row["name"] == name]
    return found


def test_calls_of_all_steps_that_came_the_same_way_are_one(trace: up.Trace) -> None:
    found = node(tree(trace), "aten::mm")
    assert (found["count"], found["duration"], found["self"]) == (2, 120_000, 80_000)


def test_steps_are_one_node_whatever_their_number(trace: up.Trace) -> None:
    found = node(tree(trace), "step")
    assert (found["count"], found["duration"], found["depth"]) == (2, 200_000, 0)


def test_the_same_name_under_two_parents_is_two_nodes() -> None:
    trace = TraceBuilder().op("a", 0, 10).op("x", 1, 2).op("b", 20, 10).op("x", 21, 3).build()
    assert sorted(row["duration"] for row in nodes(tree(trace)) if row["name"] == "x") == [2, 3]


def test_cycles_come_together(make_trace: Any) -> None:
    both = tree(make_trace(), make_trace(cycle=1, steps=range(4, 6)))
    assert node(both, "aten::relu")["count"] == 4


def test_threads_whose_names_differ_by_a_number_are_one_track() -> None:
    trace = TraceBuilder().op("x", 0, 5, tid=8, thread="worker-1").op("x", 0, 7, tid=9, thread="worker-2").build()
    document = tree(trace)
    assert [track["name"] for track in document["tracks"]] == ["worker"]
    assert node(document, "x")["duration"] == 12


def test_allocations_and_counters_are_no_calls(trace: up.Trace) -> None:
    built = TraceBuilder().op("x", 0, 5).op("[memory]", 1, 0, kind="memory", bytes=8).build()
    assert [row["name"] for row in nodes(tree(built))] == ["x"]


def test_the_smallest_are_left_out_and_counted() -> None:
    builder = TraceBuilder()
    for number in range(100):
        builder.op(f"op{number}", number * 1000, number + 1)
    document = tree(builder.build(), most=10)
    assert sorted(row["duration"] for row in nodes(document)) == list(range(91, 101))
    assert document["left_out"] == {"count": 90, "self_ns": sum(range(1, 91))}


def test_no_trace_is_an_empty_tree() -> None:
    assert nodes(tree()) == []


@st.composite
def traces(draw: Any) -> up.Trace:
    """Make calls within calls, of few names, so that many of them come together."""
    builder = TraceBuilder()

    def calls(start: int, room: int, depth: int) -> Iterator[tuple[str, int, int]]:
        while room > 1 and depth < 5 and draw(st.booleans()):
            duration = draw(st.integers(1, room - 1))
            yield draw(st.sampled_from("abc")), start, duration
            yield from calls(start, duration, depth + 1)
            start, room = start + duration, room - duration

    for tid in (1, 2):
        for name, start, duration in calls(0, 1000, 0):
            builder.op(name, start, duration, tid=tid, thread="worker")
    return builder.build()


@given(traces())
def test_nothing_is_lost_and_children_lie_within_their_parents(trace: up.Trace) -> None:
    rows = nodes(tree(trace))
    assert sum(row["self"] for row in rows) == sum(trace.events.column("self_ns").to_pylist())
    assert sum(row["count"] for row in rows) == len(trace)
    for row in rows:
        above = [r for r in rows if r["depth"] == row["depth"] - 1 and r["track"] == row["track"]]
        inside = [
            r
            for r in above
            if r["start"] <= row["start"] and row["start"] + row["duration"] <= r["start"] + r["duration"]
        ]
        assert len(inside) == 1 or not row["depth"]
        beside = [r for r in rows if r is not row and (r["track"], r["depth"]) == (row["track"], row["depth"])]
        assert not [
            r
            for r in beside
            if r["start"] < row["start"] + row["duration"] and row["start"] < r["start"] + r["duration"]
        ]
