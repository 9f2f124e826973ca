from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.analysis import api_table
from unified_profiler.analysis.api_table import KEYS, MEASURES
from unified_profiler.errors import ConfigurationError, UsageError
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace

MakeTrace = Callable[..., Trace]


def api(name: str, start: int, end: int, **columns: Any) -> dict[str, Any]:
    return {"name": name, "at": (start, end), "layer": "api", "kind": "api_call", **columns}


def by_name(source: Trace | Run, **options: Any) -> dict[str, Any]:
    return {row.name: row for row in api_table(source, **options)}


@pytest.fixture
def norms(make_trace: MakeTrace) -> Trace:
    """Two calls of norm; the first calls square and, within an operator within a region, sqrt."""
    return make_trace(
        api("torch.norm", 0, 100),
        api("torch.square", 10, 30),
        {"name": "part", "at": (40, 90), "layer": "application", "kind": "region", "framework": None},
        {"name": "aten::norm", "at": (45, 85)},
        api("torch.sqrt", 50, 80),
        api("torch.norm", 200, 210),
    )


def test_calls_totals_means_and_extremes(norms: Trace) -> None:
    row = by_name(norms)["torch.norm"]
    assert (row.call_count, row.total_ns, row.mean_ns, row.min_ns, row.max_ns) == (2, 110, 55.0, 10, 100)


def test_self_time_leaves_out_the_api_calls_directly_inside_whatever_lies_between(norms: Trace) -> None:
    assert {name: row.self_ns for name, row in by_name(norms).items()} == {
        "torch.norm": 100 - 20 - 30 + 10,
        "torch.square": 20,
        "torch.sqrt": 30,
    }


def test_calls_two_levels_down_count_for_the_call_between_only(make_trace: MakeTrace) -> None:
    rows = by_name(make_trace(api("a", 0, 100), api("b", 10, 90), api("c", 20, 50)))
    assert {name: row.self_ns for name, row in rows.items()} == {"a": 20, "b": 50, "c": 30}


def test_calls_of_other_threads_are_inside_of_nothing(make_trace: MakeTrace) -> None:
    rows = by_name(make_trace(api("a", 0, 100), api("b", 10, 90, tid=2)))
    assert rows["a"].self_ns == 100


def test_modules_and_operators_are_no_api_calls(make_trace: MakeTrace) -> None:
    trace = make_trace(
        {"name": "Linear", "at": (0, 100), "layer": "api", "kind": "module", "module": "fc"},
        api("torch.nn.functional.linear", 10, 90),
        {"name": "aten::linear", "at": (20, 80)},
    )
    assert [row.name for row in api_table(trace)] == ["torch.nn.functional.linear"]


def test_shares_are_of_all_self_time(norms: Trace) -> None:
    rows = by_name(norms)
    assert rows["torch.sqrt"].self_share == pytest.approx(30 / 110)
    assert sum(row.self_share for row in rows.values()) == pytest.approx(1.0)


def test_largest_self_time_comes_first(norms: Trace) -> None:
    assert [row.name for row in api_table(norms)] == ["torch.norm", "torch.sqrt", "torch.square"]


@pytest.mark.parametrize("column", [*KEYS, *MEASURES])
def test_sorts_by_every_column(norms: Trace, column: str) -> None:
    values = [getattr(row, column) for row in api_table(norms, sort_by=column)]
    assert values == sorted(values, reverse=column in MEASURES)


def test_a_wrong_sort_key_is_answered_with_a_suggestion(norms: Trace) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be 'totl_ns'\. Did you mean 'total_ns'\?"):
        api_table(norms, sort_by="totl_ns")


@pytest.mark.parametrize("row_limit", [-1, 1.5, "3"])
def test_a_wrong_row_limit_is_refused(norms: Trace, row_limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="row_limit"):
        api_table(norms, row_limit=row_limit)


def test_row_limit_cuts_rows_and_leaves_shares(norms: Trace) -> None:
    (row,) = api_table(norms, row_limit=1)
    assert row.self_share == pytest.approx(60 / 110)


def test_something_else_than_a_trace_is_refused() -> None:
    with pytest.raises(UsageError, match="Expected a Trace or a Run, found str"):
        api_table("profile")  # type: ignore[arg-type]


def test_a_run_is_summed_over_ranks_and_cycles(make_trace: MakeTrace) -> None:
    run = Run(
        traces=[
            make_trace(api("a", 0, 100), api("b", 10, 30)),
            make_trace(api("a", 0, 50), cycle=1),
            make_trace(api("c", 0, 7), api("b", 10, 11), rank=1),
        ]
    )
    rows = {row.name: (row.call_count, row.total_ns, row.self_ns) for row in api_table(run)}
    assert rows == {"a": (2, 150, 130), "b": (2, 21, 21), "c": (1, 7, 7)}


def test_ids_need_not_be_row_numbers(norms: Trace) -> None:
    reordered = norms.events.take(pa.array([5, 3, 1, 0, 4, 2]))
    assert api_table(Trace(reordered, norms.info)).rows == api_table(norms).rows


def test_frameworks_have_rows_of_their_own(make_trace: MakeTrace) -> None:
    trace = make_trace(api("keras.relu", 0, 5, framework="torch"), api("keras.relu", 6, 7, framework="tensorflow"))
    assert [(row.framework, row.total_ns) for row in api_table(trace)] == [("torch", 5), ("tensorflow", 1)]


def test_the_framework_is_printed_only_where_there_are_several(norms: Trace, make_trace: MakeTrace) -> None:
    two = make_trace(api("torch.relu", 0, 5), api("mindspore.ops.relu", 6, 7, framework="mindspore"))
    assert "Framework" not in str(api_table(norms))
    assert "Framework" in str(api_table(two))


def test_the_printed_table_has_units_and_the_whole_time(norms: Trace) -> None:
    text = str(api_table(norms))
    assert "54.55%" in text
    assert text.endswith("API time total: 0.110 us")


@pytest.mark.parametrize("traces", [0, 1])
def test_without_api_calls_the_table_is_empty_and_says_how_to_record_them(make_trace: MakeTrace, traces: int) -> None:
    run = Run(traces=[make_trace({"name": "aten::relu", "at": (0, 1)})] * traces)
    assert len(api_table(run)) == 0
    assert "Profiler(api=True)" in str(api_table(run))


def test_calls_that_took_no_time_have_no_share(make_trace: MakeTrace) -> None:
    (row,) = api_table(make_trace(api("a", 5, 5)))
    assert (row.total_ns, row.self_share) == (0, None)


# --- against plain Python ---------------------------------------------------------------------------------------

SPANS = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(1, 80),
        st.sampled_from("abc"),
        st.sampled_from(["api_call", "api_call", "op", "module", "region"]),
        st.integers(1, 2),
    ),
    max_size=40,
)


def in_plain_python(trace: Trace) -> dict[str, tuple[int, int, int, int, int]]:
    """Count, total, minimum, maximum and self time, found event by event."""
    events = {event["id"]: event for event in trace.events.to_pylist()}
    calls = [event for event in events.values() if event["kind"] == "api_call"]
    own = {call["id"]: call["duration_ns"] for call in calls}
    for call in calls:
        above = events.get(call["parent_id"])
        while above is not None and above["kind"] != "api_call":
            above = events.get(above["parent_id"])
        if above is not None:
            own[above["id"]] -= call["duration_ns"]
    groups = defaultdict(list)
    for call in calls:
        groups[call["name"]].append(call)
    return {
        name: (len(group), sum(times), min(times), max(times), sum(own[call["id"]] for call in group))
        for name, group in groups.items()
        for times in [[call["duration_ns"] for call in group]]
    }


@given(spans=SPANS)
def test_the_table_equals_what_plain_python_finds(make_trace: MakeTrace, spans: list[Any]) -> None:
    trace = make_trace(
        *({"name": n, "at": (start, start + length), "kind": k, "tid": t} for start, length, n, k, t in spans)
    )
    rows = api_table(trace).rows
    assert {r.name: (r.call_count, r.total_ns, r.min_ns, r.max_ns, r.self_ns) for r in rows} == in_plain_python(trace)
    assert sum(row.self_share for row in rows) == pytest.approx(1.0 if rows else 0.0)


def test_a_hundred_thousand_calls_in_and_beside_each_other(make_trace: MakeTrace) -> None:
    one = make_trace(*(api(f"api_{i % 7}", 4 * i, 4 * i + (11 if i % 4 == 0 else 3)) for i in range(1000)))
    expected = {name: (100 * found[0], 100 * found[-1]) for name, found in in_plain_python(one).items()}
    rows = api_table(Run(traces=[one] * 100))
    assert {row.name: (row.call_count, row.self_ns) for row in rows} == expected
