from __future__ import annotations

from typing import Any

from unified_profiler.model.assembly import assemble
from unified_profiler.model.schema import EventTable
from unified_profiler.testing import timed_events as events


def span(table: EventTable, name: str) -> tuple[int, int]:
    row = table.column("name").to_pylist().index(name)
    start = table.column("start_ns")[row].as_py()
    return start, start + table.column("duration_ns")[row].as_py()


def column(table: EventTable, name: str) -> dict[str, Any]:
    return dict(zip(table.column("name").to_pylist(), table.column(name).to_pylist(), strict=True))


def test_a_native_event_lies_in_the_region_around_it() -> None:
    own = events(("forward", "region", 0, 100), layer="application")
    table = assemble([events(("conv", "op", 10, 90))], own=own)
    assert column(table, "parent_id") == {"forward": None, "conv": 0}


def test_a_border_that_cuts_a_native_event_moves_to_its_nearer_edge() -> None:
    own = events(("a", "region", 0, 95), ("b", "region", 95, 200), layer="application")
    table = assemble([events(("conv", "op", 50, 100), ("relu", "op", 110, 120))], own=own)
    assert (span(table, "a"), span(table, "b")) == ((0, 100), (100, 200))
    assert span(table, "conv") == (50, 100)


def test_a_region_that_seems_to_begin_after_its_first_operator_takes_it_in() -> None:
    own = events(("a", "region", 11, 100), layer="application")
    table = assemble([events(("conv", "op", 10, 60))], own=own)
    assert span(table, "a") == (10, 100)


def test_a_region_within_one_native_event_stays() -> None:
    own = events(("hook", "region", 20, 30), layer="application")
    table = assemble([events(("backward", "op", 0, 100))], own=own)
    assert span(table, "hook") == (20, 30)
    assert column(table, "parent_id")["hook"] == 1


def test_regions_of_other_threads_are_not_moved() -> None:
    own = events(("a", "region", 5, 20), layer="application", tid=2)
    table = assemble([events(("conv", "op", 10, 60))], own=own)
    assert span(table, "a") == (5, 20)


def test_events_are_placed_in_the_step_they_begin_in() -> None:
    steps = events(("step 4", "step", 0, 50), ("step 5", "step", 50, 100), layer="application", step=[4, 5])
    table = assemble([events(("a", "op", 10, 20), ("b", "op", 50, 60), ("c", "op", 120, 130))], own=steps)
    assert column(table, "step") == {"step 4": 4, "step 5": 5, "a": 4, "b": 5, "c": None}


def test_device_work_belongs_to_the_step_of_its_launch() -> None:
    steps = events(("step 0", "step", 0, 50), ("step 1", "step", 50, 100), layer="application", step=[0, 1])
    host = events(("launch", "runtime", 10, 20), layer="runtime", correlation_id=7)
    device = device_events(("kernel", "kernel", 60, 70), correlation_id=7)
    assert column(assemble([host, device], own=steps), "step")["kernel"] == 0


def device_events(*rows: tuple[str, str, int, int], **columns: Any) -> EventTable:
    return events(*rows, **{"layer": "runtime", "device": "cuda:0", "pid": 0, "tid": 7} | columns)


def two_steps_behind_their_host() -> list[EventTable]:
    """Return launches in steps 0 and 1 and their work, which runs from 100 to 140 and from 160 to 200."""
    step_0 = events(("l", "runtime", 5, 6), ("l", "runtime", 8, 9), layer="runtime", correlation_id=[1, 2])
    step_1 = events(("l", "runtime", 55, 56), ("l", "runtime", 57, 58), layer="runtime", correlation_id=[3, 4])
    work_0 = device_events(("a", "kernel", 100, 110), ("b", "copy", 120, 140), correlation_id=[1, 2])
    work_1 = device_events(("c", "kernel", 160, 170), ("d", "collective", 190, 200), correlation_id=[3, 4])
    return [step_0, step_1, work_0, work_1]


STEPS = events(("step 0", "step", 0, 50), ("step 1", "step", 50, 300), layer="application", step=[0, 1])


def test_device_work_without_a_launch_belongs_to_the_step_in_whose_window_on_the_device_it_ran() -> None:
    alone = device_events(("in 0", "kernel", 112, 118), ("in 1", "copy", 170, 190))
    table = assemble([*two_steps_behind_their_host(), alone], own=STEPS)
    assert [column(table, "step")[name] for name in ("in 0", "in 1")] == [0, 1]


def test_device_work_outside_all_windows_has_no_step_although_the_host_was_in_one() -> None:
    alone = device_events(("early", "kernel", 20, 30), ("between", "kernel", 145, 150), ("across", "kernel", 130, 165))
    table = assemble([*two_steps_behind_their_host(), alone], own=STEPS)
    assert [column(table, "step")[name] for name in ("early", "between", "across")] == [None, None, None]


def test_device_work_in_the_windows_of_two_steps_has_no_step() -> None:
    overlap = device_events(("late", "kernel", 165, 180), correlation_id=2, tid=8)
    alone = device_events(("either", "kernel", 161, 164), tid=9)
    table = assemble([*two_steps_behind_their_host(), overlap, alone], own=STEPS)
    assert column(table, "step")["either"] is None


def test_the_windows_of_one_device_do_not_apply_to_another() -> None:
    alone = device_events(("other", "kernel", 112, 118), device="cuda:1", pid=1)
    table = assemble([*two_steps_behind_their_host(), alone], own=STEPS)
    assert column(table, "step")["other"] is None


def test_spans_and_waits_of_a_device_follow_the_same_rule() -> None:
    spans = device_events(("forward", "region", 100, 140), ("ProfilerStep#1", "region", 160, 200), tid=8)
    wait = device_events(("Stream Sync", "runtime", 60, 70), correlation_id=2, tid=9)
    table = assemble([*two_steps_behind_their_host(), spans, wait], own=STEPS)
    assert [column(table, "step")[name] for name in ("forward", "ProfilerStep#1", "Stream Sync")] == [0, 1, 0]


def test_a_launch_outside_all_steps_gives_its_work_no_step() -> None:
    host = events(("launch", "runtime", 400, 410), layer="runtime", correlation_id=9)
    late = device_events(("late", "kernel", 112, 118), correlation_id=9)
    table = assemble([*two_steps_behind_their_host(), host, late], own=STEPS)
    assert column(table, "step")["late"] is None


def test_a_recorded_step_of_device_work_without_a_launch_is_kept() -> None:
    alone = device_events(("known", "kernel", 112, 118), step=1)
    assert column(assemble([*two_steps_behind_their_host(), alone], own=STEPS), "step")["known"] == 1


def test_what_the_host_records_about_a_device_belongs_to_the_step_of_the_host() -> None:
    memory = events(("[memory]", "memory", 60, 60), layer="runtime", device="cuda:0")
    assert column(assemble([*two_steps_behind_their_host(), memory], own=STEPS), "step")["[memory]"] == 1


def test_steps_of_a_native_profiler_become_regions_beside_our_own() -> None:
    steps = events(("step 0", "step", 0, 50), layer="application", step=[0])
    native = events(("ProfilerStep#0", "step", 1, 49), layer="application", step=[0])
    assert column(assemble([native], own=steps), "kind") == {"step 0": "step", "ProfilerStep#0": "region"}


def test_steps_of_a_native_profiler_count_where_there_are_no_others() -> None:
    native = events(("ProfilerStep#3", "step", 0, 50), ("a", "op", 10, 20), layer="application", step=[3, None])
    assert column(assemble([native]), "step")["a"] == 3


def test_rank_and_host_fill_what_the_native_profiler_left_open() -> None:
    table = assemble([events(("a", "op", 0, 1)), events(("b", "op", 2, 3), rank=5)], rank=1, host="box")
    assert column(table, "rank") == {"a": 1, "b": 5}
    assert set(table.column("host").to_pylist()) == {"box"}


def test_nothing_at_all_gives_an_empty_table() -> None:
    assert len(assemble([])) == 0
