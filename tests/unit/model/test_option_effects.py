from __future__ import annotations

from typing import Any

import pytest

from unified_profiler.model.option_effects import OPTIONS, without_effect
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
