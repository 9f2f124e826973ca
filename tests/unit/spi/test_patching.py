from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from types import ModuleType
from typing import Any

import pytest

from unified_profiler.spi.patching import (
    Around,
    Inside,
    Invoke,
    Report,
    SharedPatch,
    Undo,
    outermost,
    replace,
    report_instances,
    undo_all,
    wrap,
    wrap_method,
)


class Base:
    def double(self, number: int) -> int:
        if number < 0:
            raise ValueError(number)
        return 2 * number


class Derived(Base):
    pass


def noting(notes: list[str], name: str) -> Around:
    def around(invoke: Invoke, owner: Any, args: tuple[Any, ...]) -> Any:
        notes.append(f"{name} {type(owner).__name__} {args}")
        return invoke()

    return around


@pytest.mark.parametrize("owner", [Base, Derived])
def test_calls_go_through_all_watchers_the_last_to_come_first(owner: type[Base]) -> None:
    notes: list[str] = []
    undo = [wrap_method(owner, "double", noting(notes, name)) for name in ("first", "second")]
    assert Derived().double(4) == 8
    assert notes == ["second Derived (4,)", "first Derived (4,)"]
    with pytest.raises(ValueError, match="-1"):
        Derived().double(-1)
    for one in undo:
        one()


@pytest.mark.parametrize("owner", [Base, Derived])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_whatever_order_they_go_the_class_is_as_it_was(owner: type[Base], order: tuple[int, ...]) -> None:
    before, notes = dict(vars(owner)), list[str]()
    undo: list[Undo] = [wrap_method(owner, "double", noting(notes, str(number))) for number in range(3)]
    for left, number in enumerate(order, start=1):
        undo[number]()
        undo[number]()
        notes.clear()
        assert Derived().double(1) == 2
        assert len(notes) == 3 - left
    assert dict(vars(owner)) == before


def test_a_wrapper_of_somebody_else_is_left_and_ours_is_silent_beneath_it() -> None:
    notes: list[str] = []
    undo = wrap_method(Base, "double", noting(notes, "ours"))
    ours: Callable[[Base, int], int] = Base.double

    def theirs(self: Base, number: int) -> int:
        return ours(self, number) + 1

    Base.double = theirs  # type: ignore[method-assign]
    undo()
    try:
        assert vars(Base)["double"] is theirs
        assert (Base().double(3), notes) == (7, [])
    finally:
        Base.double = ours.__wrapped__  # type: ignore[attr-defined, method-assign]


@pytest.fixture
def framework() -> ModuleType:
    module = ModuleType("framework")
    module.__dict__["double"] = lambda number: 2 * number
    return module


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_replaced_attributes_of_modules_end_in_any_order(framework: ModuleType, order: tuple[int, ...]) -> None:
    original = framework.double
    undo = [replace(framework, "double", object()) for _ in range(3)]
    for number in order:
        assert framework.double is not original
        undo[number]()
    assert framework.double is original


def test_a_patch_that_ended_beneath_a_foreign_one_goes_with_the_next_once_that_is_gone(framework: ModuleType) -> None:
    original, ours, theirs = framework.double, object(), object()
    undo = replace(framework, "double", ours)
    framework.__dict__["double"] = theirs
    undo()
    assert framework.double is theirs
    framework.__dict__["double"] = ours
    replace(framework, "double", object())()
    assert framework.double is original


def test_a_wrapper_is_made_from_the_original_and_has_its_name(framework: ModuleType) -> None:
    undo = wrap(framework, "double", lambda original: lambda number: original(number) + 1)
    assert (framework.double(2), framework.double.__name__) == (5, "<lambda>")
    undo()
    assert framework.double(2) == 4
    with pytest.raises(KeyError):
        wrap(framework, "missing", lambda original: original)


def test_several_are_undone_the_last_first() -> None:
    undone: list[int] = []
    undo_all(*(lambda number=number: undone.append(number) for number in range(3)))()
    assert undone == [2, 1, 0]


def test_instances_are_reported_once_made() -> None:
    made: list[int] = []
    undo = report_instances(Derived, made.append)
    instance = Derived()
    undo()
    Derived()
    assert made == [id(instance)]
    assert "__init__" not in vars(Derived)


def test_a_shared_patch_lasts_from_the_first_listener_to_the_last(framework: ModuleType) -> None:
    original = framework.double

    def install(module: ModuleType, listeners: Mapping[str, Report]) -> Undo:
        def double(number: int) -> int:
            report = listeners.get("even" if number % 2 == 0 else "odd")
            if report is not None:
                report(number)
            return int(original(number))

        return replace(module, "double", double)

    even, odd = list[int](), list[int]()
    shared = SharedPatch(install)
    undo = [shared.listen("even", framework, even.append), shared.listener("odd")(framework, odd.append)]
    assert [framework.double(number) for number in range(4)] == [0, 2, 4, 6]
    undo[0]()
    undo[0]()
    framework.double(4)
    framework.double(5)
    undo[1]()
    assert (even, odd) == ([0, 2], [1, 3, 5])
    assert framework.double is original
    shared.listen("even", framework, even.append)()
    assert framework.double is original


def test_only_the_outermost_call_of_a_thread_is_the_first() -> None:
    inside = Inside()
    with outermost(inside, "a") as first, outermost(inside, "b") as second:
        assert (first, second, inside.now) == (True, False, "a")
    assert inside.now is None
