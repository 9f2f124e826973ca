"""A hook and a wrapper for TensorFlow programs that run graphs in sessions (`tf.compat.v1`).

It does not import TensorFlow. The content of the runs is recorded by the backend, for every session in the process.
"""

# ruff: noqa: ARG002  the signatures are those of TensorFlow

from __future__ import annotations

import functools
import logging
from typing import Any, TypeVar

from unified_profiler.errors import UnifiedProfilerError
from unified_profiler.integrations._driver import StepDriver
from unified_profiler.keywords import check_keywords, checked_keywords, keywords_of
from unified_profiler.profiler import Profiler

GRAPH_NAME = "_unified_profiler_name"
"""Attribute of a `tf.Graph` that the TensorFlow backend reads as the name of the graph."""

S = TypeVar("S")

logger = logging.getLogger("unified_profiler")


@checked_keywords
def profiled_session(session: S, profiler: Profiler, *, graph: str | None = None, step_per_run: bool = False) -> S:
    """Record each `run` of a session as a region, and name its graph.

    Args:
        session: A `tf.compat.v1.Session` or InteractiveSession.
        profiler: The Profiler; start it before the runs to record.
        graph: The name of this graph in its events, such as "vgg16".
        step_per_run: Whether each `run` is a step. Leave it off if a step runs several graphs, or the same one several
            times, and call `profiler.step()`.

    Returns:
        The same session with a wrapped `run`, whose results and errors are unchanged.
    """
    if graph is not None:
        _name_graph(session, graph)
    if profiler.level:
        _SessionRuns(profiler, graph or "session.run", step_per_run=step_per_run).wrap(session)
    return session


class _SessionRuns:
    """Records the runs of one session."""

    def __init__(self, profiler: Profiler, name: str, *, step_per_run: bool) -> None:
        self._profiler = profiler
        self._name = name
        self._step_per_run = step_per_run
        self._seen_running = False
        self._warned = False

    def wrap(self, session: Any) -> None:
        """Set `run` on the session; that of the class is looked up at each call, since recorders replace it."""
        cls = type(session)
        user_run = vars(session).get("run")
        if getattr(user_run, _WRAPPED, False):  # wrapped before: the last name counts
            user_run = None

        @functools.wraps(cls.run)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._profiler.region(self._name):
                result = cls.run(session, *args, **kwargs) if user_run is None else user_run(*args, **kwargs)
            self._after_run()
            return result

        setattr(run, _WRAPPED, True)
        session.run = run

    def _after_run(self) -> None:
        if self._profiler.running:
            self._seen_running = True
            if self._step_per_run:
                self._step()
        elif not self._seen_running:
            self._warn("the Profiler was not started. Use `with profiler:` or call start() before the run")

    def _step(self) -> None:
        try:
            self._profiler.step()
        except UnifiedProfilerError as error:
            if self._profiler.settings.strict:
                raise
            self._warn(str(error))

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("Runs of the session %r are not recorded: %s", self._name, reason)


class ProfilerHook:
    """A hook for MonitoredSession and MonitoredTrainingSession: each `run` through it is a step.

    It implements the methods that those sessions call, without a base class. A Profiler that is not running is started
    when the session is created and stopped at its end; a running one is left running.

    Args:
        profiler: The Profiler to drive.
        graph: The name of the graph in its events, such as "vgg16".
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to create one.

    Raises:
        ConfigurationError: Both a Profiler and keywords were given, or a wrong value.
    """

    def __init__(
        self,
        profiler: Profiler | None = None,
        *,
        graph: str | None = None,
        steps: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        check_keywords("ProfilerHook", options, [*keywords_of(ProfilerHook), *keywords_of(Profiler)])
        self._driver = StepDriver(profiler, steps=steps, **options)
        self._graph = graph

    @property
    def profiler(self) -> Profiler:
        """The Profiler, with its traces."""
        return self._driver.profiler

    def begin(self) -> None:
        """Prepare for a new session."""
        self._driver.abandon()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Begin a session; one that is created again after it was lost continues the stage."""
        if self._graph is not None:
            _name_graph(session, self._graph)
        if self._driver.stage is None:
            self._driver.begin(_STAGE)

    def before_run(self, run_context: Any) -> None:
        """Request nothing: runs are traced by the backend."""

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """End a step."""
        self._driver.step(_STAGE)

    def end(self, session: Any) -> None:
        """End a session that did not raise."""
        self._driver.end(_STAGE)


_STAGE = "session"
_WRAPPED = "_unified_profiler_run"


def _name_graph(session: Any, name: str) -> None:
    setattr(session.graph, GRAPH_NAME, name)
