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
    device = events(("kernel", "kernel", 60, 70), layer="runtime", correlation_id=7, pid=0, tid=7)
    assert column(assemble([host, device], own=steps), "step")["kernel"] == 0


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
