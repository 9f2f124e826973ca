"""The tracer on a framework made up here: what is recorded, when, and what becomes of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from unified_profiler.errors import ConfigurationError
from unified_profiler.recording.api import call_log
from unified_profiler.recording.api.options import TraceOptions
from unified_profiler.recording.api.tracer import Tracer
from unified_profiler.testing import FakeClock, FakeSurface


class Traced:
    def __init__(self, on_full: Callable[[bool], None] | None = None, **options: Any) -> None:
        self.framework = FakeSurface()
        self.clock = FakeClock()
        self.tracer = Tracer(TraceOptions(**options), clock=self.clock, on_full=on_full)
        self.tracer.install("madeup", self.framework)

    @property
    def api(self) -> Any:
        return self.framework.module

    def rows(self) -> list[dict[str, Any]]:
        self.tracer.stop()
        rows = self.tracer.take(0, self.clock()).to_pylist()
        return sorted(rows, key=lambda row: (row["start_ns"], row["kind"]))

    def names(self) -> list[str]:
        return [row["name"] for row in self.rows()]


def test_calls_of_user_code_are_recorded_and_with_inside_all() -> None:
    for inside, names in ((False, ["madeup.norm"]), (True, ["madeup.norm", "madeup.square", "madeup.sqrt"])):
        traced = Traced(inside=inside)
        assert traced.api.norm(3) == 3
        assert traced.names() == names


def test_a_function_of_the_user_that_the_framework_calls_is_user_code() -> None:
    traced = Traced()
    traced.api.apply(lambda x: traced.api.square(x) + 1, 3)
    traced.api.apply(traced.api.square, 3)
    assert traced.names() == ["madeup.apply", "madeup.square", "madeup.apply"]


def test_what_is_not_wanted_is_not_recorded_nor_what_it_calls() -> None:
    traced = Traced(exclude=("madeup.norm",))
    traced.api.norm(3)
    traced.api.square(3)
    assert traced.names() == ["madeup.square"]


def test_modules_of_the_framework_are_calls_and_those_of_the_user_are_seen_through() -> None:
    traced = Traced(modules=True)

    class Mine(traced.api.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return traced.api.norm(self.parts["twice"](x))

    Mine(twice=traced.api.Twice())(2)
    found = [(row["kind"], row["name"], row["module"]) for row in traced.rows()]
    assert found == [
        ("module", "Mine", "Mine"),
        ("api_call", "madeup.Twice", None),
        ("module", "Twice", "twice"),
        ("api_call", "madeup.norm", None),
    ]


def test_modules_alone_record_no_calls() -> None:
    traced = Traced(calls=False, modules=True)
    traced.api.Twice()(2)
    assert [(row["kind"], row["name"]) for row in traced.rows()] == [("module", "Twice")]


def test_a_call_that_raises_is_recorded() -> None:
    traced = Traced()
    with pytest.raises(ValueError, match="no"):
        traced.api.fail()
    traced.api.square(1)
    assert traced.names() == ["madeup.fail", "madeup.square"]


def test_a_call_under_way_at_the_end_ends_there_and_says_so() -> None:
    traced = Traced()
    rows = traced.api.apply(lambda _: traced.rows(), 0)
    assert [(row["name"], row["attributes"]) for row in rows] == [("madeup.apply", '{"finished":false}')]
    assert traced.tracer.take(0, traced.clock()).num_rows == 1, "it ended when nobody asked any more"


def test_calls_before_the_window_do_not_count() -> None:
    traced = Traced()
    traced.api.square(1)
    traced.tracer.clear()

    def begin(_: Any) -> int:
        start = traced.clock()
        traced.api.sqrt(1)
        return start

    start = traced.api.apply(begin, 0)
    traced.tracer.stop()
    assert [row["name"] for row in traced.tracer.take(start, traced.clock()).to_pylist()] == ["madeup.sqrt"]


def test_synchronize_waits_once_for_each_recorded_call() -> None:
    traced = Traced(synchronize=True)
    traced.api.norm(3)
    traced.api.Twice()(2)
    assert traced.framework.waited == 2


def test_work_that_fails_fails_the_call_that_waits_for_it_and_both_are_over() -> None:
    traced = Traced(synchronize=True, modules=True)
    traced.framework.broken = True
    with pytest.raises(ArithmeticError, match="the work failed"):
        traced.api.norm(3)
    traced.framework.broken = False
    traced.api.Twice()(2)
    assert [(row["name"], row["attributes"]) for row in traced.rows()] == [
        ("madeup.norm", '{"args":["3"]}'),
        ("madeup.Twice", '{"args":["2"]}'),
        ("Twice", None),
    ]


def test_calls_are_packed_and_keep_their_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unified_profiler.recording.api.tracer._FULL", 4 * call_log.ROW.size)
    full: list[bool] = []
    traced = Traced(full.append, inside=True)
    for number in range(10):
        traced.api.norm(number)
    rows = traced.rows()
    assert (len(full), full.count(True)) == (7, 2), "30 calls, four at a time; a third of them are between others"
    assert [row["name"] for row in rows] == ["madeup.norm", "madeup.square", "madeup.sqrt"] * 10
    expected = [f'{{"args":["{text}"]}}' for n in range(10) for text in (n, n, n * n)]
    assert [row["attributes"] for row in rows] == expected


def test_threads_have_their_own_calls() -> None:
    traced = Traced()

    def work() -> None:
        for _ in range(1000):
            traced.api.norm(2)

    threads = [threading.Thread(target=work, name=f"worker {number}") for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = traced.rows()
    found = {(row["thread"], row["tid"]) for row in rows}
    assert found == {(thread.name, thread.native_id) for thread in threads}
    assert [row["name"] for row in rows] == ["madeup.norm"] * 3000


def test_calls_can_be_watched_as_they_happen(caplog: pytest.LogCaptureFixture) -> None:
    quiet = Traced()
    quiet.api.norm(1)
    quiet.tracer.stop()
    assert caplog.messages == []
    with caplog.at_level(logging.DEBUG, "unified_profiler.api"):
        traced = Traced()
        traced.api.norm(1)
        traced.api.Twice()(1)
        traced.tracer.stop()
    assert [message.split()[0] for message in caplog.messages] == ["madeup.norm", "madeup.Twice"]


def test_patterns_that_match_nothing_are_refused_with_a_suggestion() -> None:
    names = list(FakeSurface().names())
    TraceOptions(include=("madeup.*",), exclude=("madeup.sq*",)).check(names)
    with pytest.raises(ConfigurationError, match=r"`exclude` has the pattern 'madeup.nrm'.*'madeup.norm'"):
        TraceOptions(exclude=("madeup.nrm",)).check(names)


def test_a_surface_that_fails_leaves_nothing_behind() -> None:
    framework = FakeSurface(fails=True)
    before = framework.module.square.__code__
    with pytest.raises(RuntimeError, match="unknown version"):
        Tracer(TraceOptions(), clock=FakeClock()).install("madeup", framework)
    assert framework.module.square.__code__ is before
