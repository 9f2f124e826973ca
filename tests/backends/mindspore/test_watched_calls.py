from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from unified_profiler_mindspore.record.watched_calls import Around, Invoke, Undo, watch


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
    undo = [watch(owner, "double", noting(notes, name)) for name in ("first", "second")]
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
    undo: list[Undo] = [watch(owner, "double", noting(notes, str(number))) for number in range(3)]
    for left, number in enumerate(order, start=1):
        undo[number]()
        undo[number]()
        notes.clear()
        assert Derived().double(1) == 2
        assert len(notes) == 3 - left
    assert dict(vars(owner)) == before


def test_a_wrapper_of_somebody_else_is_left_and_ours_is_silent_beneath_it() -> None:
    notes: list[str] = []
    undo = watch(Base, "double", noting(notes, "ours"))
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
