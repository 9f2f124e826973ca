"""Collects the RunMetadata of every v1 session run in one recording and writes each to a file.

All runs pass through one method, whether they are started by `Session.run`, `Tensor.eval`, a monitored session or a
callable; tf_keras in graph mode has its own. `Session.partial_run` is not traced, because TensorFlow produces no
RunMetadata for it, and neither is a run that raises.
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
from unified_profiler_tensorflow.record.session_runs import Run, TracedKerasFunction, TracedSessionRun

GRAPH_NAME = "_unified_profiler_name"
"""Attribute of a `tf.Graph` with the name that the user gave it."""

RUN_METHOD = "_call_tf_sessionrun"
"""The session method through which `run` and callables enter TensorFlow's C interface."""

_KERAS_MODULE = "tf_keras.src.backend"
_KERAS_CALLABLE = (
    *("run_options", "_callable_fn", "_feed_arrays", "_feed_symbols"),
    *("_symbol_vals", "_fetches", "_session"),
)
"""Attributes in which a tf_keras function caches its callable and the arguments the callable was made for."""

_LOWERED = (
    "A session run requested {level}, which TensorFlow refuses while its profiler is active: it was traced with "
    "SOFTWARE_TRACE instead."
)

_PARTIAL = (
    "A partial run of a session was not recorded: TensorFlow does not trace partial runs. XPlane records their "
    'operators: enable it with `native_options={"tensorflow": {"host_tracer_level": 2}}`.'
)

_MAX_BUFFERED = 64
"""Runs are written when recording ends, so as not to disturb them, or when this many are buffered in memory."""

Method = Callable[..., Any]


class SessionCollector:
    """Traces the runs of one cycle and writes each to a file of its own.

    Attributes:
        step: The current step; runs are recorded with it.
        xplane_active: Whether our XPlane profiler is or will be active; a run cannot start one of its own then.
        entries: Fields of each run that its RunMetadata does not contain, in the order in which the runs ended.
    """

    def __init__(self, folder: Path, report: Callable[[str], None]) -> None:
        """Create the collector of one cycle.

        Args:
            folder: Where the runs are written; created for the first run.
            report: Called, on any thread, with a sentence about each problem.
        """
        self.step: int | None = None
        self.xplane_active = True
        self.entries: list[dict[str, Any]] = []
        self.recording = False
        self._folder = folder
        self._report = report
        self._lock = threading.Lock()
        self._running = 0
        self._buffered: list[Run] = []
        self._patches: list[Undo] = []
        self._keras_originals: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()

    def arm(self) -> None:
        """Patch the methods through which sessions run; only tf_keras functions are traced already.

        These have to rebuild their callables for tracing, which takes longer than a step: it is done in the warm-up.

        Raises:
            NativeProfilerError: This version of TensorFlow does not have these methods.
        """
        try:
            from tensorflow.python.client import pywrap_tf_session
            from tensorflow.python.client.session import BaseSession

            self._patches.append(wrap(BaseSession, RUN_METHOD, partial(self._session_run, pywrap_tf_session)))
            if "partial_run" in vars(BaseSession):
                self._patches.append(wrap(BaseSession, "partial_run", self._partial_run))
        except (ImportError, KeyError) as error:
            msg = (
                f"TensorFlow {tf.__version__} runs its v1 sessions through internals that this version of "
                f"unified-profiler does not support ({type(error).__name__}: {error})."
            )
            raise NativeProfilerError(msg) from error
        if _KERAS_MODULE in sys.modules:
            self._arm_keras(sys.modules[_KERAS_MODULE])

    @property
    def armed(self) -> bool:
        """Whether the methods that run sessions are patched."""
        return bool(self._patches)

    def start(self) -> None:
        """Start tracing."""
        self.recording = True

    def stop(self) -> tuple[Path, ...]:
        """Stop tracing and return the files of the runs."""
        with self._lock:
            self.recording = False
            running = self._running
        self._undo()
        if running:
            self._report(f"{running} session run(s) were still in progress when recording ended: not recorded.")
        self._write_buffered()
        try:
            if self.entries:
                (self._folder / INDEX_NAME).write_text(json.dumps(self.entries), encoding="utf-8")
        except OSError as error:
            self._report(f"The index of {len(self.entries)} session run(s) was not written: {error}")
        return tuple(self._folder / entry["file"] for entry in self.entries)

    def discard(self) -> None:
        """Drop the buffered runs and restore everything that was patched."""
        self.recording = False
        self._buffered.clear()
        self._undo()

    def tracing_options(self, user_options: Any) -> Any:
        """Return a copy of a run's own options that traces it."""
        options = tf.compat.v1.RunOptions()
        if user_options is not None:
            options.CopyFrom(user_options)
        if options.trace_level == options.NO_TRACE:
            options.trace_level = options.SOFTWARE_TRACE
        elif options.trace_level != options.SOFTWARE_TRACE and self.xplane_active:
            self._report(_LOWERED.format(level=tf.compat.v1.RunOptions.TraceLevel.Name(options.trace_level)))
            options.trace_level = options.SOFTWARE_TRACE
        return options

    def count_running(self, change: int) -> None:
        """Add to the number of runs in progress."""
        with self._lock:
            self._running += change

    def keep(self, metadata: bytes, graph: Any, *, step: int | None, start_ns: int) -> None:
        """Keep a run that succeeded, with its RunMetadata as TensorFlow wrote it."""
        run = Run(metadata, getattr(graph, GRAPH_NAME, None), step, start_ns, time.time_ns(), threading.get_native_id())
        with self._lock:
            if not self.recording:
                return  # armed only
            self._buffered.append(run)
            if len(self._buffered) >= _MAX_BUFFERED:
                self._write_buffered()

    def report_failure(self, error: Exception) -> None:
        """Report a run that could not be traced; it is made all the same."""
        self._report(f"A session run was not recorded: {type(error).__name__}: {error}")

    def _write_buffered(self) -> None:
        buffered, self._buffered = self._buffered, []
        pending = [run for run in buffered if run.has_nodes]
        if not pending:
            return
        written = len(self.entries)
        try:
            self._folder.mkdir(exist_ok=True)
            for run in pending:
                file = self._run_file(len(self.entries))
                file.write_bytes(run.metadata)
                self.entries.append({"file": file.name, **run.entry()})
        except OSError as error:
            missing = len(pending) - (len(self.entries) - written)
            self._report(f"{missing} session run(s) were not written: {error}")
            with suppress(OSError):
                self._run_file(len(self.entries)).unlink(missing_ok=True)  # partly written

    def _run_file(self, index: int) -> Path:
        return self._folder / f"run-{index:05}.pb"

    def _arm_keras(self, module: ModuleType) -> None:
        function = getattr(module, "GraphExecutionFunction", None)
        if function is None:
            self._report("tf_keras in graph mode is not traced: this version has no GraphExecutionFunction.")
        else:
            self._patches.append(wrap(function, "__call__", self._keras_call))

    def _session_run(self, native: Any, original: Method) -> Method:
        def run(session: Any, options: Any, feeds: Any, fetches: Any, targets: Any, metadata: Any) -> Any:
            if not self.recording:
                return original(session, options, feeds, fetches, targets, metadata)
            with TracedSessionRun(self, native, session, options, metadata) as traced:
                return original(session, traced.options, feeds, fetches, targets, traced.metadata)

        return run

    def _partial_run(self, original: Method) -> Method:
        def partial_run(session: Any, handle: Any, fetches: Any, feed_dict: Any = None) -> Any:
            if self.recording and not self.xplane_active:
                self._report(_PARTIAL)
            return original(session, handle, fetches, feed_dict)

        return partial_run

    def _keras_call(self, original: Method) -> Method:
        def __call__(function: Any, inputs: Any) -> Any:  # noqa: N807
            missing = {"outputs", "run_metadata", *_KERAS_CALLABLE} - vars(function).keys()
            if missing:
                self._report(f"A tf_keras function is not traced: in this version it has no {sorted(missing)}.")
            if missing or not self.armed:
                return original(function, inputs)
            user_metadata = function.run_metadata
            with TracedKerasFunction(self, function) as traced:
                self._trace_keras(function, traced)
                try:
                    return original(function, inputs)
                finally:
                    function.run_metadata = user_metadata

        return __call__

    def _trace_keras(self, function: Any, traced: TracedKerasFunction) -> None:
        """Make a tf_keras function rebuild its callable with tracing, once, and save the one it had."""
        function.run_metadata = traced.metadata
        if function in self._keras_originals or function.run_options == traced.options:
            return
        self._keras_originals[function] = {name: getattr(function, name) for name in _KERAS_CALLABLE}
        function.run_options, function._callable_fn = traced.options, None

    def _undo(self) -> None:
        patches, self._patches = self._patches, []
        for undo in patches:
            undo()
        for function, originals in self._keras_originals.items():
            vars(function).update(originals)
        self._keras_originals.clear()
