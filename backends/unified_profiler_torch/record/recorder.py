"""Records one cycle with torch.profiler and writes a Kineto trace.

torch allows one profiler at a time in a process. A profiler that is already active is not touched; one that starts
while this one records displaces it (see `session`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.profiler

from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler.spi.patching import Undo
from unified_profiler.spi.recorder_states import RecorderState, native_errors
from unified_profiler_torch.record.annotations import annotate
from unified_profiler_torch.record.session import NativeSession, end_deferred_sessions
from unified_profiler_torch.record.session_state import refuse_within_backward

_PROFILER = "torch.profiler"

TRACE_NAME = "torch.pt.trace.json"
"""Name of the trace in the work directory; TensorBoard looks for this ending."""


class TorchRecorder:
    """Records one cycle with torch.profiler."""

    def __init__(self, options: RecordOptions, workdir: Path) -> None:
        """Create the recorder of one cycle.

        Args:
            options: The recording options; `native_options` are arguments of `torch.profiler.profile` and override
                the others.
            workdir: Directory of the trace.
        """
        self._options = options
        self._workdir = workdir
        self._state = RecorderState.NEW
        self._session = NativeSession(self._arguments())
        self._step: Any = None
        self._annotations: list[Undo] = []

    def arm(self) -> None:
        """Prepare the native profiler.

        Raises:
            BackendBusyError: A torch profiler is already active or warming up.
            NativeProfilerError: torch refused.
        """
        self._state.expect(RecorderState.NEW, "arm")
        refuse_within_backward("start recording")
        with native_errors(_PROFILER, "prepare"):
            self._session.prepare()
        self._state = RecorderState.ARMED

    def start(self) -> None:
        """Start recording.

        Raises:
            BackendBusyError: Another torch profiler was started after this one was armed.
            NativeProfilerError: torch refused.
        """
        self._state.expect(RecorderState.ARMED, "start")
        refuse_within_backward("start recording")
        with native_errors(_PROFILER, "start"):
            self._session.start()
            self._annotations = annotate()
        self._state = RecorderState.RECORDING

    def mark_step(self, step: int) -> None:
        """Annotate the step in the native trace, if the trace is kept: other tools read the annotation."""
        end_deferred_sessions()
        if self._state is not RecorderState.RECORDING or not self._options.keep_native:
            return
        self._close_step()
        self._step = torch.profiler.record_function(f"ProfilerStep#{step}")
        self._step.__enter__()

    def synchronize(self) -> None:
        """Do nothing: later work on a device has the correlation id of the call that launched it."""

    def stop(self) -> NativeCapture:
        """Stop recording and save the trace.

        Raises:
            BackendBusyError: Another torch profiler started while this one recorded.
            NativeProfilerError: Recording was started on another thread or stopped by other code, torch failed, or the
                trace could not be written.
        """
        self._state.expect(RecorderState.RECORDING, "stop")
        stop_ns = time.time_ns()
        with native_errors(_PROFILER, "stop"):
            self._close_annotations()
            results = self._session.stop()
            self._state = RecorderState.DONE
        path = self._workdir / TRACE_NAME
        with native_errors(_PROFILER, "save"):
            results.save(str(path))
            if not path.is_file():
                msg = f"Kineto did not write {path}"
                raise OSError(msg)
        details = {"flops": bool(self._arguments()["with_flops"]), "modules": self._options.with_modules}
        version = str(torch.__version__)
        return NativeCapture(
            backend="torch", files=(path,), framework_version=version, stop_ns=stop_ns, details=details
        )

    def discard(self) -> None:
        """Release the native profiler.

        A recording that was started on another thread continues there, unused, until that thread takes an optimizer
        step, records again or ends.
        """
        self._state = RecorderState.DONE
        with suppress(Exception):
            self._close_annotations()
        self._session.discard()

    def _arguments(self) -> dict[str, Any]:
        options = self._options
        arguments: dict[str, Any] = {
            "activities": torch.profiler.supported_activities(),
            "record_shapes": options.record_shapes,
            "profile_memory": options.profile_memory,
            "with_stack": options.with_stack,
            "with_flops": options.with_flops,
            "with_modules": options.with_modules,  # of TorchScript, which calls no modules in Python
        } | dict(options.native_options)
        if not arguments["with_stack"]:  # torch needs its own table of events to find the stacks
            arguments.setdefault("experimental_config", _trace_only())
        return arguments

    def _close_annotations(self) -> None:
        while self._annotations:
            self._annotations.pop()()
        self._close_step()

    def _close_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)


def _trace_only() -> Any:
    """Return a configuration without torch's own event table, which is not needed; None if torch lacks the option."""
    try:
        return torch._C._profiler._ExperimentalConfig(trace_only=True)
    except (AttributeError, TypeError):
        return None
