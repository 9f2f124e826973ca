"""TensorFlowRecorder: drives TensorFlow's two native profilers through one cycle.

RunMetadata records the runs of v1 sessions, with the memory and the output shapes that XPlane does not have; XPlane
records the whole process. A program that builds graphs gets all its operators from RunMetadata: there XPlane, which
would slow the runs down a second time, is left out unless it is asked for what only it can tell. Each may fail without
the other: what is missing then is said in the capture's problems.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tensorflow as tf

from unified_profiler.errors import BackendError
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler.spi.recorder_states import RecorderState
from unified_profiler_tensorflow.read.live_objects import XPLANE, write_note
from unified_profiler_tensorflow.read.run_metadata.files import RUN_METADATA
from unified_profiler_tensorflow.read.xplane.nodes import executed_nodes
from unified_profiler_tensorflow.record.live_collector import live_objects
from unified_profiler_tensorflow.record.session_collector import SessionCollector
from unified_profiler_tensorflow.record.xplane_collector import XPlaneCollector, python_threads

logger = logging.getLogger("unified_profiler")

_SESSIONS_ONLY = "Of TensorFlow only the runs of v1 sessions are recorded."
_EAGER_SINCE = "Recording began in a graph, so that only runs of sessions were recorded; {since}. {remedy}"
_REMEDY = "To record eager operators from the beginning, start the Profiler outside `with graph.as_default():`."


class TensorFlowRecorder:
    """Records one cycle with XPlane and RunMetadata."""

    def __init__(self, options: RecordOptions, workdir: Path) -> None:
        """Make the recorder of one cycle.

        Args:
            options: What to record. `native_options` are those of `tf.profiler.experimental.ProfilerOptions` and win
                over the rest (`delay_ms` means nothing within one process).
            workdir: Where the files are written: those of XPlane to `xplane`, those of sessions to `run_metadata`.
        """
        self._options = options
        self._workdir = workdir
        self._state = RecorderState.NEW
        self._xplane = XPlaneCollector(options, workdir / XPLANE)
        self._sessions = SessionCollector(workdir / RUN_METADATA, self._report)
        self._accelerated = self._xplane_tried = False
        self._errors: list[BackendError] = []
        self._problems: list[str] = []
        self._threads: dict[int, tuple[int, str]] = {}
        self._thread = self._start_ns = 0
        self._step: Any = None

    def arm(self) -> None:
        """Prepare both native profilers.

        Raises:
            NativeProfilerError: TensorFlow does not know one of the native options.
        """
        self._state.expect(RecorderState.NEW, "arm")
        self._xplane.warm_up()
        self._accelerated = any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
        with self._on_its_own("The runs of v1 sessions are not recorded."):
            self._sessions.arm()
        self._sessions.xplane_ours = self._whole_process()
        self._state = RecorderState.ARMED

    def start(self) -> None:
        """Begin to record.

        Another active profiler of TensorFlow leaves the sessions to be recorded; if none runs, `stop` raises.

        Raises:
            NativeProfilerError: Neither native profiler can record.
            BackendBusyError: XPlane is taken, and sessions cannot be recorded.
        """
        self._state.expect(RecorderState.ARMED, "start")
        self._state = RecorderState.RECORDING
        self._thread, self._threads = threading.get_native_id(), python_threads()
        self._start_ns = time.time_ns()
        self._sessions.start()
        if self._whole_process():
            self._start_xplane()
        if not self._sessions.armed and not self._xplane.active:
            raise self._errors[-1]

    def mark_step(self, step: int) -> None:
        """Remember the step for the runs; annotate it in a native trace that is kept: TensorBoard looks for it."""
        if self._state is not RecorderState.RECORDING:
            return
        self._sessions.step = step
        self._close_step()
        if self._became_eager():
            self._start_xplane()
            since = f"from step {step} on the whole process is, since the program executes eagerly"
            self._report(_EAGER_SINCE.format(since=since, remedy=_REMEDY))
        if self._options.keep_native:
            self._step = tf.profiler.experimental.Trace("ProfilerStep", step_num=step, _r=1)
            self._step.__enter__()

    def synchronize(self) -> None:
        """Do nothing: a call returns when its work on the processor is done, and a device's work tells its launch."""

    def stop(self) -> NativeCapture:
        """End recording and save what was recorded.

        Raises:
            BackendBusyError: XPlane was taken by somebody else, and no session ran.
            NativeProfilerError: TensorFlow failed, and there is nothing else that was recorded.
        """
        self._state.expect(RecorderState.RECORDING, "stop")
        stop_ns = time.time_ns()
        self._state = RecorderState.DONE
        self._close_step()
        if self._became_eager():
            since = "it ended outside, and what was executed eagerly in between, if anything, is missing"
            self._report(_EAGER_SINCE.format(since=since, remedy=_REMEDY))
        profiles = self._stop_xplane()
        files = (*profiles, *self._sessions.stop())
        if not files and self._errors:
            raise self._errors[-1]
        if files:
            self._note_live_objects(profiles)
        self._report_missing_memory()
        return NativeCapture(
            backend="tensorflow",
            files=files,
            framework_version=str(tf.__version__),
            start_ns=self._start_ns,
            stop_ns=stop_ns,
            details={
                "pid": os.getpid(),
                "thread": self._thread,
                "threads": [[line, *thread] for line, thread in (self._threads | python_threads()).items()],
                "runs": {entry["file"]: entry for entry in self._sessions.entries},
                "options": self._xplane.applied,
                "problems": self._problems,
            },
        )

    def discard(self) -> None:
        """Let go of everything; both native profilers are free afterwards."""
        self._state = RecorderState.DONE
        for let_go in (self._close_step, self._xplane.discard, self._sessions.discard):
            with suppress(Exception):
                let_go()

    def _whole_process(self) -> bool:
        """Say whether XPlane is needed: for more than runs of sessions, or for more than RunMetadata tells of them."""
        options = self._options
        asked = options.record_shapes or options.with_flops or options.with_stack or bool(options.native_options)
        return asked or self._accelerated or not self._sessions.armed or tf.executing_eagerly()

    def _became_eager(self) -> bool:
        return not self._xplane_tried and tf.executing_eagerly()

    def _start_xplane(self) -> None:
        self._xplane_tried = True
        with self._on_its_own(_SESSIONS_ONLY):
            self._xplane.start()
        self._sessions.xplane_ours = self._xplane.active

    def _stop_xplane(self) -> tuple[Path, ...]:
        files: tuple[Path, ...] = ()
        if self._xplane.started:
            with self._on_its_own(_SESSIONS_ONLY):
                files = self._xplane.stop()
        for sentence in self._xplane.ignored():
            self._report(sentence)
        return files

    def _note_live_objects(self, profiles: Sequence[Path]) -> None:
        """Leave beside the files what only the live objects tell. Without it the default names have to do."""
        try:
            found = live_objects(executed_nodes(profiles), self._report, with_flops=self._options.with_flops)
            write_note(found, self._workdir)
        except Exception as error:  # noqa: BLE001  it reads objects of the program, in whatever state
            self._report(f"Names of layers and optimizers are not known: {type(error).__name__}: {error}")

    def _report_missing_memory(self) -> None:
        if self._options.profile_memory and not self._sessions.entries and not self._accelerated:
            self._report("Memory is not recorded: on the processor TensorFlow tells it for v1 sessions only; none ran.")

    def _close_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    @contextmanager
    def _on_its_own(self, consequence: str) -> Iterator[None]:
        """Let one of the two fail while the other goes on."""
        try:
            yield
        except BackendError as error:
            self._errors.append(error)
            self._report(f"{consequence} {error}")

    def _report(self, problem: str) -> None:
        if problem not in self._problems:
            self._problems.append(problem)
            _warn_once(problem)


@functools.cache
def _warn_once(problem: str) -> None:
    """Log a sentence the first time it comes up in this process: a recorder lives for one cycle only."""
    logger.warning("tensorflow: %s", problem)
