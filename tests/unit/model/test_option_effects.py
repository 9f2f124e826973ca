from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from unified_profiler.model.option_effects import OPTIONS, with_queued_calls, without_effect
from unified_profiler.model.schema import EventTable, event_table

VALUES: dict[str, dict[str, Any]] = {
    "record_shapes": {"input_shapes": "[[2,3]]"},
    "profile_memory": {"bytes": 8},
    "with_stack": {"stack": "a.py:1"},
    "with_flops": {"flops": 12},
    "with_modules": {"module": "fc"},
}


def operators(framework: str = "made_up", kind: str = "op", **columns: Any) -> EventTable:
    values = {name: [value, None] for name, value in columns.items()}
    return event_table({"name": "x", "kind": kind, "framework": framework, **values}, rows=2)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_left_a_value_had_an_effect(option: str) -> None:
    assert not list(without_effect(operators(**VALUES[option]), [option], waited=False))


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_left_no_value_is_named_with_the_framework(option: str) -> None:
    (text,) = without_effect(operators(), [option], waited=False)
    assert text.startswith(f"{option} had no effect on made_up")


def test_what_was_not_asked_for_is_not_missed() -> None:
    assert not list(without_effect(operators(), [], waited=False))


def test_without_operators_nothing_is_said() -> None:
    assert not list(without_effect(operators(kind="region"), OPTIONS, waited=False))


def test_where_the_totals_of_memory_are_counters_these_are_named() -> None:
    events = pa.concat_tables([operators(), operators(kind="counter")])
    (text,) = without_effect(events, ["profile_memory"], waited=False)
    assert text.startswith("made_up does not report the memory of single operators; with profile_memory, the totals")


def test_a_counter_of_another_framework_is_no_total_of_this_one() -> None:
    events = pa.concat_tables([operators(), operators("other", kind="counter")])
    (text,) = without_effect(events, ["profile_memory"], waited=False)
    assert text == "profile_memory had no effect on made_up: none of its operators has a value for it."


def test_calls_that_queue_work_are_named_with_the_option_that_lets_them_wait() -> None:
    (text,) = with_queued_calls(operators(kind="api_call"), ["made_up"], waited=False)
    assert text.startswith("API calls of made_up")
    assert "api={'synchronize': True} (`run --api-synchronize`)" in text


@pytest.mark.parametrize(("kind", "waited"), [("api_call", True), ("module", False), ("op", False)])
def test_calls_that_waited_and_calls_that_were_not_recorded_are_not_named(kind: str, waited: bool) -> None:
    assert not list(with_queued_calls(operators(kind=kind), ["made_up"], waited=waited))


def test_calls_of_frameworks_that_do_not_queue_work_are_not_named() -> None:
    assert not list(with_queued_calls(operators(kind="api_call"), ["other"], waited=False))
