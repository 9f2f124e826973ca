"""SessionCollector: the RunMetadata of every run of a v1 session, through one recording.

Runs are traced at the one place through which they all go, whether they are called by `Session.run`, `Tensor.eval`,
a monitored session or a callable; tf_keras in graph mode has its own. Not traced, because TensorFlow has no RunMetadata
for it: `Session.partial_run`. A run that raises leaves none either.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorflow as tf

from unified_profiler.errors import NativeProfilerError
from unified_profiler.spi.patching import Undo, wrap
from unified_profiler_tensorflow.read.run_metadata.files import INDEX_NAME
from unified_profiler_tensorflow.record.session_runs import Run, TracedCall, TracedFunction

GRAPH_NAME = "_unified_profiler_name"
"""Attribute of a `tf.Graph`: the name a user gave to it."""

RUN = "_call_tf_sessionrun"
"""The method of a session by which `run` and callables enter TensorFlow's C interface."""

_KERAS_MODULE = "tf_keras.src.backend"
_KERAS_CALLABLE = (
    "run_options",
    "_callable_fn",
    "_feed_arrays",
    "_feed_symbols",
    "_symbol_vals",
    "_fetches",
    "_session",
)
"""Where a function of tf_keras keeps the callable it made, and what it made it for."""

_LOWERED = (
    "A run of a session asked for {level}, which TensorFlow refuses while its profiler is active: it was traced with "
    "SOFTWARE_TRACE instead."
)

_PARTIAL = (
    "A partial run of a session was not recorded: TensorFlow does not trace them. XPlane sees their operators: ask for "
    'it with `native_options={"tensorflow": {"host_tracer_level": 2}}`.'
)

_MOST_HELD = 64
"""Runs are written when recording ends, so as not to disturb them; but no more than these are kept in memory."""

Method = Callable[..., Any]


class SessionCollector:
    """Traces the runs of one cycle and writes each to a file of its own.

    Attributes:
        step: The step under way; runs are written down with it.
        xplane_ours: Whether TensorFlow's profiler is, or will be, active by our doing: a run cannot start its own then.
        entries: What is known of each run besides its RunMetadata, in the order of their ends.
    """

    def __init__(self, folder: Path, report: Callable[[str], None]) -> None:
        """Make the collector of one cycle.

        Args:
            folder: Where the runs are written; made when there is one.
            report: Called, on any thread, with a sentence about what was not as it should be.
        """
        self.step: int | None = None
        self.xplane_ours = True
        self.entries: list[dict[str, Any]] = []
        self.recording = False
        self._folder = folder
        self._report = report
        self._lock = threading.Lock()
        self._under_way = 0
        self._held: list[Run] = []
        self._patches: list[Undo] = []
        self._keras_before: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()

    def arm(self) -> None:
        """Take the places through which sessions run; nothing is traced yet but tf_keras's functions.

        These must make their callables anew in order to be traced, which takes longer than a step: in the warm-up.

        Raises:
            NativeProfilerError: This version of TensorFlow has them elsewhere.
        """
        try:
            from tensorflow.python.client import pywrap_tf_session
            from tensorflow.python.client.session import BaseSession

            self._patches.append(wrap(BaseSession, RUN, partial(self._session_run, pywrap_tf_session)))
            if "partial_run" in vars(BaseSession):
                self._patches.append(wrap(BaseSession, "partial_run", self._partial_run))
        except (ImportError, KeyError) as error:
            msg = (
                f"TensorFlow {tf.__version__} runs its v1 sessions in a place that this version of unified-profiler "
                f"does not know ({type(error).__name__}: {error})."
            )
            raise NativeProfilerError(msg) from error
        if _KERAS_MODULE in sys.modules:
            self._arm_keras(sys.modules[_KERAS_MODULE])

    @property
    def armed(self) -> bool:
        """Whether runs are seen."""
        return bool(self._patches)

    def start(self) -> None:
        """Begin to trace."""
        self.recording = True

    def stop(self) -> tuple[Path, ...]:
        """End tracing and return the files of the runs."""
        with self._lock:
            self.recording = False
            under_way = self._under_way
        self._undo()
        if under_way:
            self._report(f"{under_way} run(s) of sessions were under way when recording ended: not recorded.")
        self._write_held()
        try:
            if self.entries:
                (self._folder / INDEX_NAME).write_text(json.dumps(self.entries), encoding="utf-8")
        except OSError as error:
            self._report(f"The index of {len(self.entries)} runs of sessions was not written: {error}")
        return tuple(self._folder / entry["file"] for entry in self.entries)

    def discard(self) -> None:
        """Put everything back as it was."""
        self.recording = False
        self._held.clear()
        self._undo()

    def options_for(self, given: Any) -> Any:
        """Return a copy of a run's own options that traces it."""
        options = tf.compat.v1.RunOptions()
        if given is not None:
            options.CopyFrom(given)
        if options.trace_level == options.NO_TRACE:
            options.trace_level = options.SOFTWARE_TRACE
        elif options.trace_level != options.SOFTWARE_TRACE and self.xplane_ours:
            self._report(_LOWERED.format(level=tf.compat.v1.RunOptions.TraceLevel.Name(options.trace_level)))
            options.trace_level = options.SOFTWARE_TRACE
        return options

    def begin(self) -> None:
        """Count a run that begins."""
        with self._lock:
            self._under_way += 1

    def end(self) -> None:
        """Count a run that ended."""
        with self._lock:
            self._under_way -= 1

    def keep(self, metadata: bytes, graph: Any, *, step: int | None, start_ns: int) -> None:
        """Keep a run that ended well, with its RunMetadata as TensorFlow wrote it."""
        run = Run(metadata, getattr(graph, GRAPH_NAME, None), step, start_ns, time.time_ns(), threading.get_native_id())
        with self._lock:
            if not self.recording:
                return  # armed only
            self._held.append(run)
            if len(self._held) >= _MOST_HELD:
                self._write_held()

    def _write_held(self) -> None:
        held, self._held = self._held, []
        held = [run for run in held if run.computed]
        if not held:
            return
        written = len(self.entries)
        try:
            self._folder.mkdir(exist_ok=True)
            for run in held:
                file = self._file_of(len(self.entries))
                file.write_bytes(run.metadata)
                self.entries.append({"file": file.name, **run.entry()})
        except OSError as error:
            missing = len(held) - (len(self.entries) - written)
            self._report(f"{missing} runs of sessions were not written: {error}")
            with suppress(OSError):
                self._file_of(len(self.entries)).unlink(missing_ok=True)  # the one that was cut off

    def _file_of(self, number: int) -> Path:
        return self._folder / f"run-{number:05}.pb"

    def failed(self, error: Exception) -> None:
        """Tell that a run could not be traced; it is made all the same."""
        self._report(f"A run of a session was not recorded: {type(error).__name__}: {error}")

    def _arm_keras(self, module: ModuleType) -> None:
        function = getattr(module, "GraphExecutionFunction", None)
        if function is None:
            self._report("Training by tf_keras in graph mode is not traced: this version runs it in an unknown place.")
        else:
            self._patches.append(wrap(function, "__call__", self._keras_call))

    def _session_run(self, native: Any, original: Method) -> Method:
        def run(session: Any, options: Any, feeds: Any, fetches: Any, targets: Any, metadata: Any) -> Any:
            if not self.recording:
                return original(session, options, feeds, fetches, targets, metadata)
            with TracedCall(self, native, session, options, metadata) as traced:
                return original(session, traced.options, feeds, fetches, targets, traced.metadata)

        return run

    def _partial_run(self, original: Method) -> Method:
        def partial_run(session: Any, handle: Any, fetches: Any, feed_dict: Any = None) -> Any:
            if self.recording and not self.xplane_ours:
                self._report(_PARTIAL)
            return original(session, handle, fetches, feed_dict)

        return partial_run

    def _keras_call(self, original: Method) -> Method:
        def __call__(function: Any, inputs: Any) -> Any:  # noqa: N807
            missing = {"outputs", "run_metadata", *_KERAS_CALLABLE} - vars(function).keys()
            if missing:
                self._report(f"A function of tf_keras is not traced: this version has no {sorted(missing)} in it.")
            if missing or not self.armed:
                return original(function, inputs)
            theirs = function.run_metadata
            with TracedFunction(self, function) as traced:
                self._trace_keras(function, traced)
                try:
                    return original(function, inputs)
                finally:
                    function.run_metadata = theirs

        return __call__

    def _trace_keras(self, function: Any, traced: TracedFunction) -> None:
        """Let a function of tf_keras make a callable that traces, once, and remember the one it had."""
        function.run_metadata = traced.metadata
        if function in self._keras_before or function.run_options == traced.options:
            return
        self._keras_before[function] = {name: getattr(function, name) for name in _KERAS_CALLABLE}
        function.run_options, function._callable_fn = traced.options, None

    def _undo(self) -> None:
        patches, self._patches = self._patches, []
        for undo in patches:
            undo()
        for function, before in self._keras_before.items():
            vars(function).update(before)
        self._keras_before.clear()
