"""How API calls and calls of modules meet native events in one table."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.model.alignment import CLOCK_SLACK_NS, align_calls
from unified_profiler.model.assembly import assemble
from unified_profiler.model.schema import EventTable
from unified_profiler.testing import timed_events

Event = tuple[str, str, int, int]


def events(*rows: Event, **columns: Any) -> EventTable:
    return timed_events(*rows, **{"framework": "torch", **columns})


def call(start: int, end: int, **columns: Any) -> EventTable:
    return events(("call", "api_call", start, end), layer="api", **columns)


def span(table: EventTable, row: int = 0) -> tuple[int, int]:
    start = table.column("start_ns")[row].as_py()
    return start, start + table.column("duration_ns")[row].as_py()


def by_name(table: EventTable, column: str) -> dict[str, Any]:
    return dict(zip(table.column("name").to_pylist(), table.column(column).to_pylist(), strict=True))


# --- borders ----------------------------------------------------------------------------------------------------------


def test_a_border_that_cuts_an_operator_a_little_moves_to_its_nearer_edge() -> None:
    native = events(("op", "op", 100, 5000))
    assert span(align_calls(call(110, 6000), native)) == (100, 6000)
    assert span(align_calls(call(0, 4990), native)) == (0, 5000)
    assert span(align_calls(call(4990, 6000), native)) == (5000, 6000)


def test_what_cuts_by_more_than_clocks_differ_is_left_alone() -> None:
    native = events(("op", "op", 0, 10 * CLOCK_SLACK_NS))
    between = 5 * CLOCK_SLACK_NS
    assert span(align_calls(call(between, 20 * CLOCK_SLACK_NS), native)) == (between, 20 * CLOCK_SLACK_NS)


def test_a_call_within_an_operator_stays_there_and_meets_what_is_deeper() -> None:
    native = events(("outer", "op", 0, 1000), ("inner", "op", 200, 300))
    assert span(align_calls(call(210, 900), native)) == (200, 900)
    assert span(align_calls(call(100, 290), native)) == (100, 300)
    assert span(align_calls(call(400, 500), native)) == (400, 500)


def test_other_threads_do_not_matter() -> None:
    assert span(align_calls(call(110, 600, tid=2), events(("op", "op", 100, 500)))) == (110, 600)


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 60)), max_size=12), st.integers(0, 500), st.integers(1, 99)
)
def test_aligned_calls_nest_with_operators_in_a_row(found: list[tuple[int, int]], start: int, duration: int) -> None:
    ends = 0
    rows: list[Event] = []
    for begin, length in sorted(found):
        if begin >= ends:
            ends = begin + length
            rows.append(("op", "op", begin, ends))
    first, last = span(align_calls(call(start, start + duration), events(*rows)))
    for _, _, begin, end in rows:
        apart = end <= first or begin >= last
        assert apart or (first <= begin and end <= last) or (begin <= first and last <= end)


def test_an_operator_lies_in_the_call_that_clocks_put_a_little_beside_it() -> None:
    table = assemble([events(("op", "op", 90, 500))], calls=call(100, 600))
    assert by_name(table, "parent_id") == {"call": None, "op": 0}


def test_a_step_that_ends_within_a_call_ends_after_it() -> None:
    steps = events(
        ("step 0", "step", 0, 100_000), ("step 1", "step", 100_000, 300_000), layer="application", step=[0, 1]
    )
    table = assemble([], calls=call(50_000, 110_000), own=steps)
    assert by_name(table, "step") == {"step 0": 0, "step 1": 1, "call": 0}
    assert by_name(table, "parent_id")["call"] == by_name(table, "id")["step 0"]


# --- modules ----------------------------------------------------------------------------------------------------------


def modules(*rows: tuple[str, str, int, int]) -> EventTable:
    found: list[Event] = [(name, "module", start, end) for name, _, start, end in rows]
    return events(*found, layer="api", module=[path for _, path, _, _ in rows], direction="forward")


MODEL = modules(
    ("Net", "Net", 0, 100), ("Block", "block", 10, 60), ("Linear", "block.0", 20, 40), ("Linear", "head", 70, 90)
)


def test_an_event_belongs_to_the_innermost_module_around_it() -> None:
    native = events(
        ("a", "op", 25, 30), ("b", "op", 45, 50), ("c", "op", 62, 65), ("d", "op", 75, 80), ("e", "op", 200, 210)
    )
    found = by_name(assemble([native], calls=MODEL), "module")
    assert {name: found[name] for name in "abcde"} == {"a": "block.0", "b": "block", "c": "Net", "d": "head", "e": None}


def test_what_a_native_profiler_says_of_the_module_is_kept() -> None:
    native = events(("a", "op", 25, 30), module=["scope"])
    assert by_name(assemble([native], calls=MODEL), "module")["a"] == "scope"


def test_work_of_a_device_belongs_to_the_module_of_its_launch() -> None:
    launch = events(("launch", "runtime", 25, 26), layer="runtime", correlation_id=[7])
    kernel = events(("kernel", "kernel", 150, 160), layer="runtime", correlation_id=[7], tid=99, device="cuda:0")
    assert by_name(assemble([launch, kernel], calls=MODEL), "module")["kernel"] == "block.0"


def test_work_on_other_threads_belongs_to_the_module_that_waited_for_it() -> None:
    times = {"a": (25, 30), "b": (45, 50), "c": (62, 65), "d": (75, 80), "e": (200, 210)}
    native = events(*((name, "op", start, end) for name, (start, end) in times.items()), tid=2)
    without, found = (by_name(assemble([native], calls=MODEL, waited=waited), "module") for waited in (False, True))
    assert {without[name] for name in "abcde"} == {None}
    assert {name: found[name] for name in "abcde"} == {"a": "block.0", "b": "block", "c": "Net", "d": "head", "e": None}


def _training() -> EventTable:
    forward = events(
        *(("f0", "op", 25, 30), ("f1", "op", 50, 55), ("f2", "op", 75, 80)), sequence_id=[1, 2, 3], direction="forward"
    )
    backward = events(
        *(("b2", "op", 200, 220), ("inner", "op", 205, 210), ("grads", "op", 222, 224)),
        *(("b1", "op", 230, 240), ("b0", "op", 240, 260)),
        sequence_id=[3, None, None, 2, 1],
        direction="backward",
    )
    return assemble([forward, backward], calls=MODEL)


def test_backward_operators_belong_to_the_module_of_what_they_differentiate() -> None:
    found = by_name(_training(), "module")
    names = ("b2", "inner", "b1", "b0", "grads")
    assert [found[name] for name in names] == ["head", "head", "block", "block.0", None]


def test_modules_have_spans_in_the_backward_pass() -> None:
    rows = [row for row in _training().to_pylist() if row["kind"] == "module" and row["direction"] == "backward"]
    found = {(row["module"], row["start_ns"], row["start_ns"] + row["duration_ns"]) for row in rows}
    assert found == {("Net", 200, 260), ("head", 200, 220), ("block", 230, 260), ("block.0", 240, 260)}
    parents = {row["module"]: row["parent_id"] for row in rows}
    ids = {row["module"]: row["id"] for row in rows}
    assert (parents["block.0"], parents["block"], parents["head"]) == (ids["block"], ids["Net"], ids["Net"])


def test_a_module_at_work_twice_in_the_backward_pass_has_two_spans() -> None:
    forward = events(("f0", "op", 25, 30), ("f1", "op", 75, 80), ("f2", "op", 35, 38), sequence_id=[1, 2, 3])
    backward = events(
        *(("b0", "op", 200, 210), ("b1", "op", 220, 230), ("b2", "op", 240, 250)),
        sequence_id=[3, 2, 1],
        direction="backward",
    )
    rows = [row for row in assemble([forward, backward], calls=MODEL).to_pylist() if row["kind"] == "module"]
    found = {(row["module"], row["start_ns"]) for row in rows if row["direction"] == "backward"}
    assert found == {("Net", 200), ("block", 200), ("block", 240), ("block.0", 200), ("block.0", 240), ("head", 220)}


# --- backward passes --------------------------------------------------------------------------------------------------

FORWARD = events(("f0", "op", 25, 30), ("f1", "op", 75, 80), sequence_id=[1, 2], direction="forward")


def _backward(*rows: tuple[int, int, int], tid: int = 2) -> EventTable:
    nodes: list[Event] = [(f"b{start}", "op", start, end) for start, end, _ in rows]
    return events(*nodes, sequence_id=[number for _, _, number in rows], direction="backward", tid=tid)


def _spans_of(path: str, table: EventTable) -> list[tuple[int, int]]:
    rows = [row for row in table.to_pylist() if row["kind"] == "module" and row["direction"] == "backward"]
    return [(row["start_ns"], row["start_ns"] + row["duration_ns"]) for row in rows if row["module"] == path]


def test_each_backward_pass_has_a_span_of_its_own_on_whatever_thread_it_runs() -> None:
    passes = _backward((200, 210, 2), (220, 230, 1), (300, 310, 2), (320, 330, 1))
    assert _spans_of("Net", assemble([FORWARD, passes], calls=MODEL)) == [(200, 230), (300, 330)]


def test_an_operator_between_two_nodes_ends_the_backward_pass() -> None:
    other = events(("ones", "op", 215, 217), direction="forward")
    passes = _backward((200, 210, 2), (220, 230, 1), tid=1)
    assert _spans_of("Net", assemble([FORWARD, passes, other], calls=MODEL)) == [(200, 210), (220, 230)]


def test_the_gradient_of_a_view_made_late_does_not_end_the_backward_pass() -> None:
    view = events(("f2", "op", 50, 55), sequence_id=[3], direction="forward")
    last = events(("f3", "op", 85, 88), sequence_id=[4], direction="forward")
    passes = _backward((200, 210, 4), (220, 230, 2), (240, 250, 3), (260, 270, 1))
    assert _spans_of("Net", assemble([FORWARD, view, last, passes], calls=MODEL)) == [(200, 270)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.lists(st.integers(200, 900), min_size=1, max_size=3))
def test_backward_spans_of_modules_lie_within_their_steps(order: list[int], borders: list[int]) -> None:
    nodes = _backward(*((200 + 100 * i, 280 + 100 * i, number) for i, number in enumerate(order)), tid=1)
    edges = [0, *sorted({border // 100 * 100 for border in borders}), 2000]
    rows = [(f"step {i}", "step", a, b) for i, (a, b) in enumerate(pairwise(edges))]
    steps = events(*rows, layer="application", step=list(range(len(rows))))
    forward = events(*((f"f{n}", "op", 20 + n, 21 + n) for n in range(1, 5)), sequence_id=[1, 2, 3, 4])
    for start, end in _spans_of("Net", assemble([forward, nodes], calls=MODEL, own=steps)):
        assert [(a, b) for a, b in pairwise(edges) if a <= start and end <= b]


# --- paths that events have themselves --------------------------------------------------------------------------------


def test_a_relative_path_begins_with_that_of_the_module_around_the_event() -> None:
    native = events(*((name, "op", at, at + 2) for name, at in (("a", 25), ("b", 62), ("c", 200))), module=".fc")
    found = by_name(assemble([native], calls=MODEL), "module")
    assert {name: found[name] for name in "abc"} == {"a": "block.0.fc", "b": "fc", "c": "fc"}
    assert by_name(assemble([native]), "module") == {"a": "fc", "b": "fc", "c": "fc"}


def test_a_module_that_only_the_native_profiler_knows_has_no_span_in_the_backward_pass() -> None:
    forward = events(("f0", "op", 25, 30), ("f1", "op", 120, 130), sequence_id=[1, 2], module=["block.0", ".scripted"])
    backward = events(("b1", "op", 200, 220), ("b0", "op", 230, 240), sequence_id=[2, 1], direction="backward")
    table = assemble([forward, backward], calls=MODEL)
    assert by_name(table, "module")["b1"] == "scripted"
    spans = table.filter(pc.field("kind") == "module").filter(pc.field("direction") == "backward")
    assert spans.column("module").to_pylist() == ["Net", "block", "block.0"]


def test_the_gradient_of_an_operator_outside_of_modules_has_no_module() -> None:
    forward = events(("f0", "op", 25, 30), ("loss", "op", 110, 120), sequence_id=[1, 1], direction="forward")
    found = by_name(assemble([forward, _backward((200, 210, 1))], calls=MODEL), "module")
    assert found["b200"] is None


# --- computing again, and gradients of gradients ----------------------------------------------------------------------


def _recomputed() -> EventTable:
    """A node in which a module runs again, in a graph with the same numbers, and is differentiated there."""
    first = events(("f0", "op", 25, 30), ("f1", "op", 75, 80), sequence_id=[1, 2], direction="forward")
    node = events(("node", "op", 200, 300), sequence_id=[2], direction="backward")
    marker = events(("again", "region", 201, 299), direction="recompute")
    again = events(("a0", "op", 212, 215), sequence_id=[1], direction="recompute")
    inner = events(("b0", "op", 230, 240), sequence_id=[1], direction="backward")
    calls = pa.concat_tables([MODEL, modules(("Linear", "block.0", 210, 220))]).unify_dictionaries().combine_chunks()
    return assemble([first, node, marker, again, inner], calls=calls)


def test_what_is_computed_again_has_a_graph_of_its_own() -> None:
    found = by_name(_recomputed(), "module")
    assert (found["node"], found["again"], found["a0"], found["b0"]) == ("head", "head", "block.0", "block.0")


def test_modules_that_run_again_say_so() -> None:
    rows = [row for row in _recomputed().to_pylist() if row["kind"] == "module" and row["direction"] != "backward"]
    found = {(row["module"], row["start_ns"]): row["direction"] for row in rows}
    assert found["block.0", 210] == "recompute"
    assert {direction for (_, start), direction in found.items() if start < 200} == {"forward"}


def test_a_backward_pass_within_a_node_belongs_to_its_pass() -> None:
    table = _recomputed()
    assert _spans_of("Net", table) == [(200, 300)]
    assert _spans_of("block.0", table) == [(230, 240)]


def test_the_gradient_of_a_gradient_belongs_to_the_module_of_the_gradient() -> None:
    forward = events(("f0", "op", 25, 30), sequence_id=[1], direction="forward")
    gradient = events(("b0", "op", 200, 220), ("m", "op", 205, 210), sequence_id=[1, 5], direction="backward")
    second = events(("b1", "op", 300, 310), sequence_id=[5], direction="backward")
    found = by_name(assemble([forward, gradient, second], calls=MODEL), "module")
    assert (found["b0"], found["m"], found["b1"]) == ("block.0",) * 3
