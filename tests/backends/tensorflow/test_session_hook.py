from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

import unified_profiler as up
from unified_profiler.integrations.tensorflow import ProfilerHook, profiled_session
from unified_profiler.testing import FakeBackend

v1 = tf.compat.v1
SCHEDULE = up.schedule(wait=1, warmup=1, active=2, repeat=1)


@pytest.fixture
def graph() -> Iterator[Any]:
    """A graph with a counter that counts its runs."""
    with tf.Graph().as_default() as graph:
        counter = v1.get_variable("counter", (), initializer=v1.zeros_initializer(), use_resource=True)
        tf.identity(v1.assign_add(counter, 1.0), name="count")
        v1.train.get_or_create_global_step()
        yield graph


@pytest.fixture
def session(graph: Any) -> Iterator[Any]:
    with v1.Session(graph=graph) as session:
        session.run(v1.global_variables_initializer())
        yield session


def profiler(**options: Any) -> up.Profiler:
    return up.Profiler(backend=FakeBackend(), **options)


def names(profiler: up.Profiler, kind: str) -> list[str]:
    rows = [row for trace in profiler.traces for row in trace.events.select(["name", "kind"]).to_pylist()]
    return [row["name"] for row in rows if row["kind"] == kind]


def recorded(profiler: up.Profiler) -> list[tuple[int | None, int | None, bool]]:
    return [(trace.info.first_step, trace.info.last_step, trace.info.complete) for trace in profiler.traces]


# --- a session ------------------------------------------------------------------------------------------------------


def test_the_session_that_comes_back_is_the_one_that_was_given(session: Any) -> None:
    assert profiled_session(session, profiler(), graph="counter") is session
    assert isinstance(session, v1.Session)


def test_each_run_is_a_region_with_the_name_of_the_graph_and_no_step(session: Any) -> None:
    with profiler() as prof:
        profiled_session(session, prof, graph="counter")
        assert [session.run("count:0") for _ in range(3)] == [1, 2, 3]
        prof.step()
    assert names(prof, "region") == ["counter"] * 3
    assert names(prof, "step") == ["step 0"]


def test_each_run_is_a_step_where_that_is_asked_for(session: Any) -> None:
    with profiler(schedule=SCHEDULE) as prof:
        profiled_session(session, prof, step_per_run=True)
        for _ in range(5):
            session.run("count:0")
    assert recorded(prof) == [(2, 3, True)]


def test_a_second_name_takes_the_place_of_the_first(session: Any) -> None:
    with profiler() as prof:
        profiled_session(profiled_session(session, prof, graph="one"), prof, graph="two")
        session.run("count:0")
        prof.step()
    assert names(prof, "region") == ["two"]


def test_a_run_that_somebody_put_on_the_session_is_kept(session: Any) -> None:
    session.run = lambda fetches: f"theirs {fetches}"
    with profiler() as prof:
        assert profiled_session(session, prof).run("count:0") == "theirs count:0"
        prof.step()


def test_eval_and_run_of_operations_go_the_same_way(session: Any, graph: Any) -> None:
    with profiler() as prof:
        profiled_session(session, prof, graph="counter")
        graph.get_tensor_by_name("count:0").eval()
        graph.get_operation_by_name("count").run()
        prof.step()
    assert names(prof, "region") == ["counter"] * 2


def test_a_profiler_that_was_not_started_is_told_once_and_the_runs_go_on(
    session: Any, caplog: pytest.LogCaptureFixture
) -> None:
    profiled_session(session, profiler(), graph="counter", step_per_run=True)
    assert [session.run("count:0") for _ in range(3)] == [1, 2, 3]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "'counter' are not recorded: the Profiler was not started" in caplog.text


def test_runs_after_the_profiler_was_stopped_are_nobodys_mistake(
    session: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with profiler() as prof:
        profiled_session(session, prof, step_per_run=True)
        session.run("count:0")
    session.run("count:0")
    assert caplog.records == []


def test_a_run_that_raises_raises_the_same_and_ends_no_step(session: Any) -> None:
    with profiler() as prof:
        profiled_session(session, prof, step_per_run=True)
        with pytest.raises(ValueError, match="nothing:0"):
            session.run("nothing:0")
        session.run("count:0")
    assert prof.current_step == 1


def test_level_0_leaves_the_session_alone_but_for_the_name(session: Any) -> None:
    profiled_session(session, profiler(level=0), graph="counter")
    assert "run" not in vars(session)


def test_the_backend_finds_the_name_in_what_it_records(session: Any) -> None:
    from unified_profiler_tensorflow.record.session_collector import GRAPH_NAME

    profiled_session(session, profiler(), graph="counter")
    assert getattr(session.graph, GRAPH_NAME) == "counter"


# --- monitored sessions ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("graph")
def test_each_run_of_a_monitored_session_is_a_step() -> None:
    hook = ProfilerHook(backend=FakeBackend(), schedule=SCHEDULE, graph="counter")
    with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
        assert [session.run("count:0") for _ in range(5)] == [1, 2, 3, 4, 5]
    assert recorded(hook.profiler) == [(2, 3, True)]


@pytest.mark.usefixtures("graph")
def test_a_profiler_that_runs_already_is_left_running() -> None:
    with profiler() as prof:
        with v1.train.MonitoredSession(hooks=[ProfilerHook(prof)]) as session:
            session.run("count:0")
        prof.step()
    assert names(prof, "step") == ["step 0", "step 1"]


@pytest.mark.usefixtures("graph")
def test_steps_instead_of_a_schedule() -> None:
    hook = ProfilerHook(backend=FakeBackend(), steps=(1, 3))
    with v1.train.SingularMonitoredSession(hooks=[hook]) as session:
        for _ in range(6):
            session.run("count:0")
    assert recorded(hook.profiler) == [(1, 3, True)]


@pytest.mark.usefixtures("graph")
def test_a_session_that_raises_is_delivered_before_the_next_one() -> None:
    hook = ProfilerHook(backend=FakeBackend(), steps=(1, 3))
    with pytest.raises(ZeroDivisionError), v1.train.MonitoredSession(hooks=[hook]) as session:  # noqa: PT012
        session.run("count:0")
        session.run("count:0")
        raise ZeroDivisionError
    with v1.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(4):
            session.run("count:0")
    assert recorded(hook.profiler) == [(1, 1, False), (3, 5, True)]


class Preempted:
    """A hook that makes the session believe, once, that its computer went away."""

    def __init__(self) -> None:
        self.done = False

    def begin(self) -> None: ...
    def after_create_session(self, session: Any, coord: Any) -> None: ...
    def before_run(self, context: Any) -> None: ...
    def end(self, session: Any) -> None: ...
    def after_run(self, context: Any, values: Any) -> None:
        if not self.done:
            self.done = True
            raise tf.errors.AbortedError(None, None, "preempted")


@pytest.mark.usefixtures("graph")
def test_a_session_that_was_lost_and_made_anew_is_the_same_training() -> None:
    hook = ProfilerHook(backend=FakeBackend())
    with v1.train.MonitoredSession(hooks=[hook, Preempted()]) as session:
        for _ in range(3):
            session.run("count:0")
    assert [complete for _, _, complete in recorded(hook.profiler)] == [True]
    assert hook.profiler.current_step == 4


@pytest.mark.usefixtures("graph")
def test_level_0_does_nothing() -> None:
    backend = FakeBackend()
    with v1.train.MonitoredSession(hooks=[ProfilerHook(backend=backend, level=0)]) as session:
        assert session.run("count:0") == 1
    assert backend.calls == []
