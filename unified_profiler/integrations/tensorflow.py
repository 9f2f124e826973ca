"""For TensorFlow programs that run graphs in sessions (`tf.compat.v1`): a hook for their trainers, names for graphs.

It imports nothing of TensorFlow. What the runs hold is recorded by the backend, for every session in the process.
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
"""Attribute of a `tf.Graph` by which the TensorFlow backend tells graphs apart."""

S = TypeVar("S")

logger = logging.getLogger("unified_profiler")


@checked_keywords
def profiled_session(session: S, profiler: Profiler, *, graph: str | None = None, step_per_run: bool = False) -> S:
    """Make each `run` of a session a region, and name the graph it runs.

    Args:
        session: A `tf.compat.v1.Session` or InteractiveSession.
        profiler: The Profiler that records; start it before the runs that are to be recorded.
        graph: The name under which the events of this graph are found, such as "vgg16".
        step_per_run: Whether the end of a `run` is the end of a step. Leave it off where a step runs several graphs,
            or the same one several times, and call `profiler.step()`.

    Returns:
        The same session: only its `run` is another one. What `run` returns and raises stays what it is.
    """
    if graph is not None:
        _name_graph(session, graph)
    if profiler.level:
        _Runs(profiler, graph or "session.run", step_per_run=step_per_run).follow(session)
    return session


class _Runs:
    """The runs of one session."""

    def __init__(self, profiler: Profiler, name: str, *, step_per_run: bool) -> None:
        self._profiler = profiler
        self._name = name
        self._step_per_run = step_per_run
        self._seen_running = False
        self._warned = False

    def follow(self, session: Any) -> None:
        """Put a `run` of its own on the session; the class's is looked up at each call, since recorders replace it."""
        native = type(session)
        theirs = vars(session).get("run")
        if getattr(theirs, _OURS, False):  # named again: the last name holds
            theirs = None

        @functools.wraps(native.run)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._profiler.region(self._name):
                result = native.run(session, *args, **kwargs) if theirs is None else theirs(*args, **kwargs)
            self._ended()
            return result

        setattr(run, _OURS, True)
        session.run = run

    def _ended(self) -> None:
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

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("Runs of the session %r are not recorded: %s", self._name, why)


class ProfilerHook:
    """A hook for MonitoredSession and MonitoredTrainingSession: each `run` through it is a step.

    It has what those sessions call and inherits from nothing. A Profiler which is not running is started when the
    session is there and stopped at its end; one which is running is left running.

    Args:
        profiler: The Profiler to drive.
        graph: The name under which the events of the graph are found, such as "vgg16".
        steps: Instead of a schedule: the first and the last step to record, both included, counted from 0.
        **options: Instead of a Profiler: keywords to make one with.

    Raises:
        ConfigurationError: A Profiler and keywords were given, or a wrong value.
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
        """Make ready for a new session."""
        self._driver.abandon()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Begin to follow a session; one that was made anew after it was lost is the same to us."""
        if self._graph is not None:
            _name_graph(session, self._graph)
        if self._driver.phase is None:
            self._driver.begin(_PHASE)

    def before_run(self, run_context: Any) -> None:
        """Ask for nothing: runs are traced by the backend."""

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """End a step."""
        self._driver.step(_PHASE)

    def end(self, session: Any) -> None:
        """End with the session; one that raised never comes here."""
        self._driver.end(_PHASE)


_PHASE = "session"
_OURS = "_unified_profiler_run"


def _name_graph(session: Any, name: str) -> None:
    setattr(session.graph, GRAPH_NAME, name)
