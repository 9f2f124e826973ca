"""Drives TensorFlow's two native profilers, XPlane and RunMetadata, through one recording cycle.

RunMetadata records the runs of v1 sessions, with the memory and the output shapes that XPlane lacks; XPlane records the
whole process. In a program that builds graphs, RunMetadata contains all operators: XPlane, which would slow the runs
down a second time, is used there only for options that it alone supports. Each may fail without the other: the
capture's problems then describe what is missing.
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
from unified_profiler_tensorflow.record.live_collector import collect_live_objects
from unified_profiler_tensorflow.record.session_collector import SessionCollector
from unified_profiler_tensorflow.record.xplane_collector import XPlaneCollector, python_threads

logger = logging.getLogger("unified_profiler")

_SESSIONS_ONLY = "For TensorFlow, only the runs of v1 sessions are recorded."
_LATE_EAGER = (
    "Recording started inside a graph, where only session runs are recorded; {consequence}. To record eager operators "
    "from the beginning, start the Profiler outside `with graph.as_default():`."
)


class TensorFlowRecorder:
    """Records one cycle with XPlane and RunMetadata."""

    def __init__(self, options: RecordOptions, workdir: Path) -> None:
        """Create the recorder of one cycle.

        Args:
            options: What to record. `native_options` are those of `tf.profiler.experimental.ProfilerOptions` and take
                precedence (`delay_ms` has no effect within one process).
            workdir: Where the files are written: those of XPlane to `xplane`, those of sessions to `run_metadata`.
        """
        self._options = options
        self._workdir = workdir
        self._state = RecorderState.NEW
        self._xplane = XPlaneCollector(options, workdir / XPLANE)
        self._sessions = SessionCollector(workdir / RUN_METADATA, self._report)
        self._has_accelerator = self._xplane_tried = False
        self._errors: list[BackendError] = []
        self._problems: list[str] = []
        self._threads: dict[int, tuple[int, str]] = {}
        self._thread = self._start_ns = 0
        self._step: Any = None

    def arm(self) -> None:
        """Prepare both native profilers.

        Raises:
            NativeProfilerError: TensorFlow does not support one of the native options.
        """
        self._state.expect(RecorderState.NEW, "arm")
        self._xplane.warm_up()
        self._has_accelerator = any(device.device_type != "CPU" for device in tf.config.list_physical_devices())
        with self._continue_without("The runs of v1 sessions are not recorded."):
            self._sessions.arm()
        self._sessions.xplane_active = self._needs_xplane()
        self._state = RecorderState.ARMED

    def start(self) -> None:
        """Start recording.

        If another TensorFlow profiler is active, only sessions are recorded; if none runs, `stop` raises.

        Raises:
            NativeProfilerError: Neither native profiler can record.
            BackendBusyError: XPlane is in use, and sessions cannot be recorded.
        """
        self._state.expect(RecorderState.ARMED, "start")
        self._state = RecorderState.RECORDING
        self._thread, self._threads = threading.get_native_id(), python_threads()
        self._start_ns = time.time_ns()
        self._sessions.start()
        if self._needs_xplane():
            self._start_xplane()
        if not self._sessions.armed and not self._xplane.active:
            raise self._errors[-1]

    def mark_step(self, step: int) -> None:
        """Assign the step to the following runs, and annotate it for TensorBoard if the native trace is kept."""
        if self._state is not RecorderState.RECORDING:
            return
        self._sessions.step = step
        self._close_step()
        if self._became_eager():
            self._start_xplane()
            consequence = f"from step {step} on the whole process is recorded, since the program executes eagerly"
            self._report(_LATE_EAGER.format(consequence=consequence))
        if self._options.keep_native:
            self._step = tf.profiler.experimental.Trace("ProfilerStep", step_num=step, _r=1)
            self._step.__enter__()

    def synchronize(self) -> None:
        """Do nothing: a call returns after its work on the CPU, and work on a device is linked to its launch."""

    def stop(self) -> NativeCapture:
        """Stop recording and save the native files.

        Raises:
            BackendBusyError: XPlane was in use by another profiler, and no session ran.
            NativeProfilerError: TensorFlow failed, and nothing else was recorded.
        """
        self._state.expect(RecorderState.RECORDING, "stop")
        stop_ns = time.time_ns()
        self._state = RecorderState.DONE
        self._close_step()
        if self._became_eager():
            consequence = "it ended outside, and any operators executed eagerly in between are missing"
            self._report(_LATE_EAGER.format(consequence=consequence))
        profiles = self._stop_xplane()
        files = (*profiles, *self._sessions.stop())
        if not files and self._errors:
            raise self._errors[-1]
        if files:
            self._save_live_objects(profiles)
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
                "options": self._xplane.applied_levels,
                "problems": self._problems,
            },
        )

    def discard(self) -> None:
        """Release both native profilers and everything recorded."""
        self._state = RecorderState.DONE
        for release in (self._close_step, self._xplane.discard, self._sessions.discard):
            with suppress(Exception):
                release()

    def _needs_xplane(self) -> bool:
        """Return whether RunMetadata is not enough: because of options, an accelerator or eager execution."""
        options = self._options
        requested = options.record_shapes or options.with_flops or options.with_stack or bool(options.native_options)
        return requested or self._has_accelerator or not self._sessions.armed or tf.executing_eagerly()

    def _became_eager(self) -> bool:
        return not self._xplane_tried and tf.executing_eagerly()

    def _start_xplane(self) -> None:
        self._xplane_tried = True
        with self._continue_without(_SESSIONS_ONLY):
            self._xplane.start()
        self._sessions.xplane_active = self._xplane.active

    def _stop_xplane(self) -> tuple[Path, ...]:
        files: tuple[Path, ...] = ()
        if self._xplane.started:
            with self._continue_without(_SESSIONS_ONLY):
                files = self._xplane.stop()
        for problem in self._xplane.ignored_options():
            self._report(problem)
        return files

    def _save_live_objects(self, profiles: Sequence[Path]) -> None:
        """Save the classes of live objects; without them, only default names identify layers and optimizers."""
        try:
            live = collect_live_objects(executed_nodes(profiles), self._report, with_flops=self._options.with_flops)
            write_note(live, self._workdir)
        except Exception as error:  # noqa: BLE001  reads objects of the program, in whatever state
            self._report(f"The names of layers and optimizers could not be read: {type(error).__name__}: {error}")

    def _report_missing_memory(self) -> None:
        if self._options.profile_memory and not self._sessions.entries and not self._has_accelerator:
            self._report(
                "Memory is not recorded: on the CPU, TensorFlow reports it only for v1 sessions, and none ran."
            )

    def _close_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    @contextmanager
    def _continue_without(self, consequence: str) -> Iterator[None]:
        """Report the failure of one native profiler while the other goes on."""
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
    """Log a problem once per process; a recorder lives for one cycle only."""
    logger.warning("tensorflow: %s", problem)
