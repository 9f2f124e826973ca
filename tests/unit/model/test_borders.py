"""Borders of steps and regions that native events cut: how far they move, and who leaves the lane where they stay."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unified_profiler.model.assembly import assemble
from unified_profiler.model.borders import largest_move_ns
from unified_profiler.model.nesting import FIRST_LANE, find_nesting
from unified_profiler.model.schema import EventTable
from unified_profiler.testing import timed_events as events

US = 1000
MS = 1000 * US
Rows = list[dict[str, Any]]


def steps_at(*borders: int) -> EventTable:
    """Return steps 0, 1, ... from border to border."""
    spans = [(f"step {n}", "step", start, end) for n, (start, end) in enumerate(pairwise(borders))]
    return events(*spans, layer="application", step=list(range(len(spans))))


def rows_of(table: EventTable) -> dict[str, dict[str, Any]]:
    return {row["name"]: row | {"end_ns": row["start_ns"] + row["duration_ns"]} for row in table.to_pylist()}


@pytest.mark.parametrize(
    ("length_ns", "largest_ns"), [(100 * MS, MS), (2 * MS, 20 * US), (MS, 20 * US), (50 * US, 5 * US), (0, 0)]
)
def test_the_largest_move_is_a_small_fraction(length_ns: int, largest_ns: int) -> None:
    assert largest_move_ns(length_ns) == largest_ns


@pytest.mark.parametrize(
    ("event", "border"),
    [
        ((4000, 10_090), 10_090),  # began in step 0, and ends before 1 % of a step is over
        ((9990, 10_060), 9990),  # began when step 1 did, by a clock that differs a little
        ((4000, 10_110), 10_000),  # the border would move too far
        ((9900, 10_110), 10_000),
        ((4000, 25_000), 10_000),
    ],
)
def test_a_border_between_steps_moves_a_little_for_both(event: tuple[int, int], border: int) -> None:
    table = rows_of(assemble([events(("op", "op", event[0] * US, event[1] * US))], own=steps_at(0, 10 * MS, 20 * MS)))
    assert (table["step 0"]["end_ns"], table["step 1"]["start_ns"]) == (border * US, border * US)
    assert table["op"]["step"] == (1 if border < 10_000 else 0)


def test_a_step_that_would_have_to_move_too_far_leaves_the_lane_with_its_regions() -> None:
    own = events(
        *(("step 0", "step", 0, 10 * MS), ("step 1", "step", 10 * MS, 20 * MS), ("load", "region", MS, 2 * MS)),
        layer="application",
        step=[0, 1, None],
    )
    native = events(
        ("optimizer", "op", 5 * MS, 12 * MS), ("add", "op", 6 * MS, 7 * MS), ("relu", "op", 14 * MS, 15 * MS)
    )
    table = rows_of(assemble([native], own=own))
    assert {name for name, row in table.items() if row["tid"] >= FIRST_LANE} == {"step 0", "step 1", "load"}
    assert table["load"]["parent_id"] == table["step 0"]["id"]
    assert table["add"]["parent_id"] == table["optimizer"]["id"]
    assert [table[name]["step"] for name in ("optimizer", "add", "relu")] == [0, 0, 1]
    assert table["optimizer"]["self_ns"] == 6 * MS


def test_steps_within_an_event_stay_when_the_one_that_it_began_in_leaves() -> None:
    fit = events(("fit", "api_call", 5 * MS, 29 * MS), layer="api")
    table = rows_of(assemble([fit], own=steps_at(0, 10 * MS, 20 * MS, 30 * MS)))
    assert [row["tid"] >= FIRST_LANE for row in table.values()] == [True, False, True, False]
    assert [row["duration_ns"] for row in table.values()] == [10 * MS, 10 * MS, 10 * MS, 24 * MS]


def test_the_annotation_of_a_step_moves_no_border_however_late_it_is_closed() -> None:
    annotations = events(
        ("a", "step", 10, 10 * MS + 5), ("b", "step", 10 * MS + 9, 90 * MS), layer="application", step=[0, 1]
    )
    native = events(("op 0", "op", MS, 9 * MS), ("op 1", "op", 11 * MS, 19 * MS))
    table = rows_of(assemble([annotations, native], own=steps_at(0, 10 * MS, 20 * MS)))
    assert [(table[f"step {n}"]["start_ns"], table[f"step {n}"]["duration_ns"]) for n in (0, 1)] == [
        (0, 10 * MS),
        (10 * MS, 10 * MS),
    ]
    assert [table[f"op {n}"]["parent_id"] for n in (0, 1)] == [table[f"step {n}"]["id"] for n in (0, 1)]
    assert table["b"]["duration_ns"] == 80 * MS - 9


def test_an_annotated_step_within_a_step_stays_around_its_operators() -> None:
    train = events(("train", "step", MS, 9 * MS), layer="application", step=[7])
    table = rows_of(assemble([train, events(("op", "op", 2 * MS, 3 * MS))], own=steps_at(0, 10 * MS)))
    assert table["op"]["parent_id"] == table["train"]["id"]
    assert (table["train"]["parent_id"], table["train"]["kind"]) == (table["step 0"]["id"], "region")


def test_a_region_across_steps_keeps_its_borders_beside_annotated_steps() -> None:
    own = events(
        *(("step 0", "step", 0, 10 * MS), ("step 1", "step", 10 * MS, 20 * MS), ("across", "region", 6 * MS, 14 * MS)),
        layer="application",
        step=[0, 1, None],
    )
    annotations = events(
        ("a", "step", 10, 10 * MS + 5), ("b", "step", 10 * MS + 9, 20 * MS + 5), layer="application", step=[0, 1]
    )
    across = rows_of(assemble([annotations], own=own))["across"]
    assert (across["start_ns"], across["end_ns"]) == (6 * MS, 14 * MS)


# --- for random steps, regions and events -----------------------------------------------------------------------------

LENGTHS = st.one_of(st.integers(1, 500), st.integers(1, 500 * US), st.integers(1, 50 * MS))
NATIVE = st.tuples(
    st.sampled_from([("op", "framework"), ("region", "application"), ("region", "framework"), ("runtime", "runtime")]),
    LENGTHS,
    LENGTHS,
)


@st.composite
def recordings(draw: st.DrawFn) -> tuple[EventTable, EventTable]:
    """Draw steps and regions of the facade, and native events with annotations that begin and end late."""
    borders = np.cumsum(draw(st.lists(LENGTHS, min_size=2, max_size=7))).tolist()
    spans = [("step", start, end, n) for n, (start, end) in enumerate(pairwise(borders))]
    starts = st.integers(0, borders[-1] + 10 * US)
    regions = [
        ("region", start, start + length, None)
        for start, length in draw(st.lists(st.tuples(starts, LENGTHS), max_size=3))
    ]
    own = events(
        *((f"{kind} {start}", kind, start, end) for kind, start, end, _ in spans + regions),
        layer="application",
        step=[number for *_, number in spans + regions],
    )
    late = st.one_of(st.integers(0, 100), LENGTHS)
    annotated = [("step", "application", start + draw(late), end + draw(late), n) for _, start, end, n in spans]
    annotated = [row for row in annotated if draw(st.booleans()) and row[3] > row[2]]
    others = [(*what, start, start + length, None) for what, start, length in _spans(draw, starts)]
    rows = annotated + others
    native = events(
        *((f"{kind} {n}", kind, start, end) for n, (kind, _, start, end, _) in enumerate(rows)),
        layer=[layer for _, layer, *_ in rows],
        step=[number for *_, number in rows],
    )
    return own, native


def _spans(draw: st.DrawFn, starts: st.SearchStrategy[int]) -> list[tuple[tuple[str, str], int, int]]:
    """Draw events that nest, as those of a native profiler do."""
    found: list[tuple[tuple[str, str], int, int]] = []
    for what, _, length in draw(st.lists(NATIVE, max_size=8)):
        start = draw(starts)
        end = start + length
        if not any(a < start < a + b < end or start < a < end < a + b for _, a, b in found):
            found.append((what, start, length))
    return found


def limits(own: Rows) -> dict[int, tuple[int, int]]:
    """Return how far start and end of each step may move."""
    lengths = [row["duration_ns"] for row in own if row["kind"] == "step"]
    around = [largest_move_ns(min(pair)) for pair in pairwise(lengths)]
    ends = [largest_move_ns(lengths[0]), *around, largest_move_ns(lengths[-1])]
    return {number: (ends[number], ends[number + 1]) for number in range(len(lengths))}


@given(recordings())
def test_no_border_of_a_step_moves_by_more_than_a_small_fraction(recording: tuple[EventTable, EventTable]) -> None:
    own, native = recording
    before = own.to_pylist()
    table = assemble([native], own=own).to_pylist()
    after = [row for row in table if row["kind"] == "step"]
    for number, (at_start, at_end) in limits(before).items():
        was, now = before[number], after[number]
        assert now["name"] == was["name"]
        assert abs(now["start_ns"] - was["start_ns"]) <= at_start
        assert abs(now["start_ns"] + now["duration_ns"] - was["start_ns"] - was["duration_ns"]) <= at_end
        assert now["duration_ns"] >= 0.8 * was["duration_ns"]
    assert all(a["start_ns"] + a["duration_ns"] == b["start_ns"] for a, b in pairwise(after))


@given(recordings())
def test_native_events_keep_their_times_and_are_in_the_step_that_they_began_in(
    recording: tuple[EventTable, EventTable],
) -> None:
    own, native = recording
    spans, moves = own.to_pylist(), limits(own.to_pylist())
    found = {row["name"]: row for row in assemble([native], own=own).to_pylist()}
    for event in native.to_pylist():
        row = found[event["name"]]
        assert (row["start_ns"], row["duration_ns"]) == (event["start_ns"], event["duration_ns"])
        for number, (at_start, at_end) in moves.items():
            start, end = spans[number]["start_ns"], spans[number]["start_ns"] + spans[number]["duration_ns"]
            if start + at_start <= row["start_ns"] < end - at_end:
                assert row["step"] == number


@given(recordings())
def test_steps_regions_and_late_annotations_leave_the_native_tree_as_it_was(
    recording: tuple[EventTable, EventTable],
) -> None:
    own, native = recording
    names = native.column("name").to_pylist()
    kept = native.filter(pc.invert(pc.starts_with(native.column("name").cast("string"), "step")))
    alone, together = assemble([kept]).to_pylist(), assemble([native], own=own).to_pylist()
    assert _native_parents(alone, names) == _native_parents(together, names)


def _native_parents(table: Rows, names: Sequence[str]) -> dict[str, str | None]:
    """Return the nearest native event around each native event, annotated steps aside."""
    rows = {row["id"]: row for row in table}
    wanted = {name for name in names if not name.startswith("step")}

    def nearest(row: dict[str, Any]) -> str | None:
        parent = rows.get(row["parent_id"])
        while parent is not None and parent["name"] not in wanted:
            parent = rows.get(parent["parent_id"])
        return None if parent is None else str(parent["name"])

    return {row["name"]: nearest(row) for row in table if row["name"] in wanted}


@given(recordings())
def test_every_lane_nests(recording: tuple[EventTable, EventTable]) -> None:
    own, native = recording
    table = assemble([native], own=own)
    start, duration, pid, tid = (table.column(name).to_numpy() for name in ("start_ns", "duration_ns", "pid", "tid"))
    assert np.array_equal(find_nesting(start, duration, pid, tid).tid, tid)
