"""TorchRecorder: drives torch.profiler through one cycle and leaves a Kineto trace.

torch allows one profiler at a time in a process; one that is already active is somebody else's and is not touched.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any

import torch
import torch.autograd.profiler
import torch.profiler

from unified_profiler.errors import BackendBusyError, NativeProfilerError, UsageError
from unified_profiler.spi import NativeCapture, RecordOptions

TRACE_NAME = "torch.pt.trace.json"
"""Name of the trace in the work directory; TensorBoard looks for this ending."""


class _State(Enum):
    NEW = "new"
    ARMED = "armed"
    RECORDING = "recording"
    DONE = "done"


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
        self._state = _State.NEW
        self._profile: Any = None
        self._step: Any = None

    def arm(self) -> None:
        """Prepare the native profiler.

        Raises:
            BackendBusyError: A torch profiler is active already.
            NativeProfilerError: torch refused.
        """
        self._expect(_State.NEW, "arm")
        _refuse_if_busy()
        _refuse_within_backward()
        with _native("prepare"):
            self._profile = torch.profiler.profile(**self._arguments())
            self._profile.prepare_trace()
        self._state = _State.ARMED

    def start(self) -> None:
        """Begin to record.

        Raises:
            BackendBusyError: Another torch profiler was started after this one was armed.
            NativeProfilerError: torch refused.
        """
        self._expect(_State.ARMED, "start")
        _refuse_if_busy()
        _refuse_within_backward()
        self._state = _State.RECORDING
        with _native("start"):
            self._profile.start_trace()

    def mark_step(self, step: int) -> None:
        """Annotate the step in the native trace, if that is kept: other tools look for it."""
        if self._state is not _State.RECORDING or not self._options.keep_native:
            return
        self._close_step()
        self._step = torch.profiler.record_function(f"ProfilerStep#{step}")
        self._step.__enter__()

    def settle(self) -> None:
        """Do nothing: what runs on a device later carries the number of the call that launched it."""

    def stop(self) -> NativeCapture:
        """End recording and save the trace.

        Raises:
            NativeProfilerError: torch failed, or the trace could not be written.
        """
        self._expect(_State.RECORDING, "stop")
        stop_ns = time.time_ns()
        with _native("stop"):
            self._close_step()
            _end_open_ranges()
            self._profile.stop_trace()
            self._state = _State.DONE
        path = self._workdir / TRACE_NAME
        with _native("save"):
            self._profile.profiler.kineto_results.save(str(path))
            if not path.is_file():
                msg = f"Kineto wrote no file to {path}"
                raise OSError(msg)
        details = {"flops": bool(self._arguments()["with_flops"])}
        version = str(torch.__version__)
        return NativeCapture(
            backend="torch", files=(path,), framework_version=version, stop_ns=stop_ns, details=details
        )

    def discard(self) -> None:
        """Let go of everything; the native profiler is free afterwards."""
        state, self._state = self._state, _State.DONE
        with suppress(Exception):
            self._close_step()
        if state is _State.RECORDING:
            with suppress(Exception):
                _end_open_ranges()
        with suppress(Exception):
            if state is _State.ARMED and not _is_busy():
                self._profile.start_trace()  # the only way out of warm-up that torch has
                self._profile.stop_trace()
            elif state is _State.RECORDING:
                self._profile.stop_trace()
        with suppress(Exception):
            if state is _State.RECORDING and _is_busy():  # what stop_trace comes down to, where itself it fails
                self._profile.profiler.__exit__(None, None, None)
        self._profile = None

    def _arguments(self) -> dict[str, Any]:
        options = self._options
        arguments: dict[str, Any] = {
            "activities": torch.profiler.supported_activities(),
            "record_shapes": options.record_shapes,
            "profile_memory": options.profile_memory,
            "with_stack": options.with_stack,
            "with_flops": options.with_flops,
        } | dict(options.native_options)
        if not arguments["with_stack"]:  # torch needs its own table of events to find the stacks
            arguments.setdefault("experimental_config", _trace_only())
        return arguments

    def _close_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    def _expect(self, state: _State, verb: str) -> None:
        if self._state is not state:
            msg = f"`{verb}` is for a recorder that is {state.value}; this one is {self._state.value}. Make a new one."
            raise UsageError(msg)


def _trace_only() -> Any:
    """Keep torch from building its own table of events at stop, which nobody here reads; None if it cannot."""
    try:
        return torch._C._profiler._ExperimentalConfig(trace_only=True)
    except (AttributeError, TypeError):
        return None


def _is_busy() -> bool:
    elsewhere = getattr(torch.autograd.profiler, "_is_profiler_enabled", False)  # on any thread
    return bool(elsewhere or torch.autograd._profiler_enabled())


def _refuse_if_busy() -> None:
    if _is_busy():
        msg = (
            "A torch profiler is already active in this process, and torch allows one at a time. Stop it before this "
            "one records, or leave torch out with `backend=`."
        )
        raise BackendBusyError(msg)


def _end_open_ranges() -> None:
    """End the `record_function` ranges that are still open, such as the optimizer's when a hook of it ends a step.

    A range that is open when recording ends keeps a pointer into the memory of this recording. If it ends during the
    next one, torch writes through that pointer, and the process dies sooner or later. Ended here it is left alone by
    torch when its own end comes.
    """
    kind = torch.autograd.profiler.record_function
    for found in gc.get_referrers(kind):
        if isinstance(found, kind) and found.record is not None:
            torch.ops.profiler._record_function_exit._RecordFunction(found.record)


def _refuse_within_backward() -> None:
    """The autograd engine puts back at its end what it found at its beginning: the profiler would be on for ever."""
    if getattr(torch._C, "_current_graph_task_id", lambda: -1)() != -1:
        msg = (
            "torch's profiler cannot begin to record within a backward pass. Call `step()` after it, not in a hook "
            "that autograd calls."
        )
        raise NativeProfilerError(msg)


@contextmanager
def _native(verb: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        msg = f"torch.profiler failed to {verb}: {type(error).__name__}: {error}"
        raise NativeProfilerError(msg) from error
