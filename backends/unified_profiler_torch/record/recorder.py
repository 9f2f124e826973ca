"""TorchRecorder: drives torch.profiler through one cycle and leaves a Kineto trace.

torch allows one profiler at a time in a process; one that is already active is somebody else's and is not touched, and
one that begins while this one records takes its place (see `native`).
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
from unified_profiler_torch.record.session import NativeSession, end_left_behind
from unified_profiler_torch.record.session_state import refuse_within_backward

_PROFILER = "torch.profiler"

TRACE_NAME = "torch.pt.trace.json"
"""Name of the trace in the work directory; TensorBoard looks for this ending."""


class TorchRecorder:
    """Records one cycle with torch.profiler.

    Kineto announces start and stop in two lines on stderr. They are left alone: the only setting that silences them
    (KINETO_LOG_LEVEL) is read once per process and would silence Kineto's errors, too.
    """

    def __init__(self, options: RecordOptions, workdir: Path) -> None:
        """Make the recorder of one cycle.

        Args:
            options: What to record. `native_options` are arguments of `torch.profiler.profile` and win over the rest.
            workdir: Where the trace is written.
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
            BackendBusyError: A torch profiler is active already, or warming up.
            NativeProfilerError: torch refused.
        """
        self._state.expect(RecorderState.NEW, "arm")
        refuse_within_backward("begin to record")
        with native_errors(_PROFILER, "prepare"):
            self._session.prepare()
        self._state = RecorderState.ARMED

    def start(self) -> None:
        """Begin to record.

        Raises:
            BackendBusyError: Another torch profiler was started after this one was armed.
            NativeProfilerError: torch refused.
        """
        self._state.expect(RecorderState.ARMED, "start")
        refuse_within_backward("begin to record")
        with native_errors(_PROFILER, "start"):
            self._session.start()
            self._annotations = annotate()
        self._state = RecorderState.RECORDING

    def mark_step(self, step: int) -> None:
        """Annotate the step in the native trace, if that is kept: other tools look for it."""
        end_left_behind()
        if self._state is not RecorderState.RECORDING or not self._options.keep_native:
            return
        self._close_step()
        self._step = torch.profiler.record_function(f"ProfilerStep#{step}")
        self._step.__enter__()

    def synchronize(self) -> None:
        """Do nothing: what runs on a device later carries the number of the call that launched it."""

    def stop(self) -> NativeCapture:
        """End recording and save the trace.

        Raises:
            BackendBusyError: Another torch profiler began while this one recorded.
            NativeProfilerError: Recording was started on another thread or stopped by somebody else, torch failed, or
                the trace could not be written.
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
                msg = f"Kineto wrote no file to {path}"
                raise OSError(msg)
        details = {"flops": bool(self._arguments()["with_flops"]), "modules": self._options.with_modules}
        version = str(torch.__version__)
        return NativeCapture(
            backend="torch", files=(path,), framework_version=version, stop_ns=stop_ns, details=details
        )

    def discard(self) -> None:
        """Let go of everything; the native profiler is free afterwards, or as soon as the thread that started it acts.

        A recording that was started on another thread goes on there, unseen, until that thread takes an optimizer step,
        records again or ends.
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
            "with_modules": options.with_modules,  # those of TorchScript, which calls none in Python
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
    """Keep torch from building its own table of events at stop, which nobody here reads; None if it cannot."""
    try:
        return torch._C._profiler._ExperimentalConfig(trace_only=True)
    except (AttributeError, TypeError):
        return None
