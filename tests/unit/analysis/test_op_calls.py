"""Properties of the calls that the operator table sums up, for trees of every form."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.analysis import op_table
from unified_profiler.analysis.op_calls import op_calls
from unified_profiler.model.trace import Trace

MakeTrace = Callable[..., Trace]
Spans = list[tuple[int, int, str, str]]

SPANS = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 80), st.sampled_from("abc"), st.sampled_from(["op", "memory"])),
    max_size=40,
)


def _make(make_trace: MakeTrace, spans: Spans) -> Trace:
    return make_trace(
        *(
            {"name": name, "kind": kind, "at": (start, start + length * (kind == "op")), "bytes": length}
            for start, length, name, kind in spans
        )
    )


def _roots(trace: Trace) -> list[int]:
    """Durations of the operators that lie in no other operator."""
    events = {event["id"]: event for event in trace.events.to_pylist()}

    def inside(event: dict[str, object]) -> bool:
        parent = events.get(event["parent_id"])
        return parent is not None and (parent["kind"] == "op" or inside(parent))

    return [event["duration_ns"] for event in events.values() if event["kind"] == "op" and not inside(event)]


def _sum(trace: Trace, column: str, *keys: str) -> int:
    return pc.sum(op_calls(trace.events, keys=keys, regions=False).column(column)).as_py() or 0


@pytest.mark.parametrize("key", ["name", "op", "input_shapes"])
@given(spans=SPANS)
def test_self_times_add_up_to_the_time_of_the_roots(make_trace: MakeTrace, key: str, spans: Spans) -> None:
    trace = _make(make_trace, spans)
    assert _sum(trace, "self_cpu_ns", key) == sum(_roots(trace))


@given(spans=SPANS)
def test_a_group_of_everything_has_the_calls_of_the_roots(make_trace: MakeTrace, spans: Spans) -> None:
    trace = _make(make_trace, spans)
    assert _sum(trace, "cpu_ns", "framework") == sum(_roots(trace))
    assert _sum(trace, "counted", "framework") == len(_roots(trace))


@given(spans=SPANS)
def test_memory_within_operators_belongs_to_exactly_one(make_trace: MakeTrace, spans: Spans) -> None:
    trace = _make(make_trace, spans)
    assert _sum(trace, "self_cpu_bytes", "name") == _sum(trace, "cpu_bytes", "framework")


@given(spans=SPANS)
def test_no_call_has_more_self_time_than_time(make_trace: MakeTrace, spans: Spans) -> None:
    calls = op_calls(_make(make_trace, spans).events, keys=["name"], regions=False)
    own, whole = (calls.column(name).to_pylist() for name in ("self_cpu_ns", "cpu_ns"))
    assert all(0 <= a <= b for a, b in zip(own, whole, strict=True))


def test_many_groups_count_every_call_of_theirs(make_trace: MakeTrace) -> None:
    rows = [{"op": f"Op{i % 40}", "name": f"aten::op{i}", "at": (10 * i, 10 * i + 7)} for i in range(200)]
    table = op_table(make_trace(*rows), by="op")
    assert [(row.call_count, row.cpu_ns) for row in table] == [(5, 35)] * 40
