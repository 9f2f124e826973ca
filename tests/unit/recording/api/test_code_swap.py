from __future__ import annotations

import inspect
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from unified_profiler.recording.api.code_swap import Interceptor, can_watch, watch_attribute, watch_function


def plain(a: int, b: int = 2, *, c: int = 3) -> tuple[int, int, int]:
    return a, b, c


def _closure(args: int, kwargs: list[int]) -> Callable[..., Any]:
    def inner(*more: int) -> tuple[int, ...]:
        kwargs.append(args)
        return (args, *kwargs, *more)

    return inner


def _watch(seen: list[Any], label: str = "") -> Callable[[Callable[..., Any]], Interceptor]:
    def watch(original: Callable[..., Any]) -> Interceptor:
        def call(args: tuple[Any, ...], kwargs: Any) -> Any:
            seen.append((label, args, kwargs) if label else (args, kwargs))
            return original(*args, **kwargs)

        return call

    return watch


def _state(function: Any) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__, dict(function.__dict__)


def test_calls_go_through_it_and_do_what_they_always_did() -> None:
    alias, before, seen = plain, _state(plain), list[Any]()
    undo = watch_function(plain, _watch(seen))  # type: ignore[arg-type]
    assert (plain(1), alias(1, c=5), plain(1, 4)) == ((1, 2, 3), (1, 2, 5), (1, 4, 3))
    assert seen == [((1,), {}), ((1,), {"c": 5}), ((1, 4), {})]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        plain()  # type: ignore[call-arg]
    undo()
    assert _state(plain) == before
    assert plain(1) == (1, 2, 3)
    assert len(seen) == 4


def test_a_watched_function_looks_as_it_always_did() -> None:
    signature, pickled, source = inspect.signature(plain), pickle.dumps(plain), inspect.getsource(plain)
    undo = watch_function(plain, _watch([]))  # type: ignore[arg-type]
    try:
        assert inspect.signature(plain) == signature
        assert pickle.dumps(plain) == pickled
        assert inspect.getsource(plain) == source
        assert plain.__name__ == "plain"
    finally:
        undo()


def test_closures_keep_their_variables() -> None:
    two: list[int] = []
    function, other, seen = _closure(1, two), _closure(9, []), list[Any]()
    undo = watch_function(function, _watch(seen))  # type: ignore[arg-type]
    assert function(5) == (1, 1, 5)
    assert other() == (9, 9)
    undo()
    assert function() == (1, 1, 1)
    assert seen == [((5,), {})]


def test_a_function_that_calls_itself_goes_through_it_each_time() -> None:
    namespace: dict[str, Any] = {}
    exec("def down(n):\n    return 0 if n == 0 else 1 + down(n - 1)", namespace)  # noqa: S102
    seen: list[Any] = []
    undo = watch_function(namespace["down"], _watch(seen))
    assert namespace["down"](3) == 3
    undo()
    assert [args for args, _ in seen] == [(3,), (2,), (1,), (0,)]


@pytest.mark.parametrize("first_out", [0, 1])
def test_several_watches_come_and_go_in_any_order(first_out: int) -> None:
    before, seen = _state(plain), list[Any]()
    undoes = [watch_function(plain, _watch(seen, label)) for label in ("one", "two")]  # type: ignore[arg-type]
    plain(1)
    assert [label for label, _, _ in seen] == ["two", "one"]
    undoes.pop(first_out)()
    seen.clear()
    plain(1)
    assert [label for label, _, _ in seen] == [["two", "one"][first_out]]
    undo = undoes.pop()
    undo()
    undo()
    assert _state(plain) == before


def test_generators_and_what_is_not_python_cannot_be_watched() -> None:
    def generator() -> Any:
        yield 1

    async def coroutine() -> None:
        pass

    assert can_watch(plain)
    assert not any(map(can_watch, (generator, coroutine, len, str.upper, int, 3)))


class Base:
    def method(self, x: int) -> int:
        return x + 1


class Derived(Base):
    pass


def test_an_attribute_is_put_back_where_it_was_or_taken_away_where_it_was_inherited() -> None:
    for owner in (Base, Derived):
        before, seen = dict(vars(owner)), list[Any]()
        first, second = (watch_attribute(owner, "method", _watch(seen, label)) for label in ("a", "b"))
        assert owner().method(1) == 2
        first()
        assert owner().method(2) == 3
        second()
        assert dict(vars(owner)) == before
        assert [label for label, _, _ in seen] == ["b", "a", "b"]


def test_threads_may_call_while_it_comes_and_goes() -> None:
    stop, failures = threading.Event(), list[Any]()

    def work() -> None:
        while not stop.is_set():
            if plain(1) != (1, 2, 3):
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    before = plain.__code__
    for _ in range(300):
        watch_function(plain, _watch([]))()  # type: ignore[arg-type]
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert plain.__code__ is before
