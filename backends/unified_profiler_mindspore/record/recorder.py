"""MindSporeRecorder: drives MindSpore's native profiler through one cycle and leaves the files it writes.

MindSpore allows one profiler at a time in a process; one that is already active is somebody else's and is not touched,
and one that begins while this one records takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Protocol

import mindspore

from unified_profiler.errors import NativeProfilerError, UnifiedProfilerError, UsageError
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.device_driver import DeviceDriver
from unified_profiler_mindspore.record.host_driver import HostDriver
from unified_profiler_mindspore.record.options import checked


class _State(Enum):
    NEW = "new"
    ARMED = "armed"
    RECORDING = "recording"
    DONE = "done"


class Driver(Protocol):
    """One recording with one of MindSpore's profilers; what it raises becomes a NativeProfilerError."""

    def start(self) -> None:
        """Begin to record."""
        ...

    def stop(self) -> NativeCapture:
        """End recording and return what was recorded."""
        ...

    def abandon(self) -> None:
        """End recording and forget it."""
        ...


class MindSporeRecorder:
    """Records one cycle: on a CPU with the profiler of the host, on an accelerator with that of the device, too."""

    def __init__(self, options: RecordOptions, workdir: Path) -> None:
        """Make the recorder of one cycle.

        Args:
            options: What to record. `native_options` are arguments of `mindspore.profiler.profile` and of its
                `_ExperimentalConfig`, and win over the rest.
            workdir: Where the native files are written.

        Raises:
            ConfigurationError: A native option is wrong.
        """
        wanted = {"record_shapes": options.record_shapes, "profile_memory": options.profile_memory}
        native_options, folder = checked(wanted | dict(options.native_options)), workdir.absolute()
        self._driver: Driver = (
            HostDriver(native_options, folder, with_flops=options.with_flops)
            if mindspore.get_context("device_target") == "CPU"
            else DeviceDriver(native_options, folder)
        )
        self._state = _State.NEW

    def arm(self) -> None:
        """Check that recording can begin; MindSpore itself needs no preparation.

        Raises:
            BackendBusyError: A profiler is active already.
        """
        self._expect(_State.NEW, "arm")
        native.refuse_if_taken()
        self._state = _State.ARMED

    def start(self) -> None:
        """Begin to record, with nothing under way that belongs to what was before.

        Raises:
            BackendBusyError: Another profiler was started after this one was armed.
            NativeProfilerError: MindSpore refused.
        """
        self._expect(_State.ARMED, "start")
        self.synchronize()
        native.take()
        self._state = _State.RECORDING
        with _failing("start"):
            self._driver.start()

    def synchronize(self) -> None:
        """Wait for kernels that PyNative mode has only queued so far, so that they belong to the step that queued them.

        What this raises is an error of the program's own kernels: MindSpore tells it to whoever waits first.
        """
        native.wait_for_kernels()

    def mark_step(self, step: int) -> None:
        """Do nothing: the native files know no steps, and `synchronize` has separated this one from the one before."""

    def stop(self) -> NativeCapture:
        """End recording; the native files are complete.

        Raises:
            BackendBusyError: MindSpore's own profiler began while this one recorded.
            NativeProfilerError: MindSpore failed, or the files could not be written.
        """
        self._expect(_State.RECORDING, "stop")
        try:
            with _failing("stop"):
                capture = self._driver.stop()
        except BaseException:
            self.discard()
            raise
        self._release()
        return capture

    def discard(self) -> None:
        """Let go of everything; the native profiler is free afterwards, unless somebody else took it."""
        if self._state is _State.RECORDING:
            with suppress(Exception):
                self._driver.abandon()
            self._release()
        self._state = _State.DONE

    def _release(self) -> None:
        self._state = _State.DONE
        native.in_use.release()

    def _expect(self, state: _State, verb: str) -> None:
        if self._state is not state:
            msg = f"`{verb}` is for a recorder that is {state.value}; this one is {self._state.value}. Make a new one."
            raise UsageError(msg)


@contextmanager
def _failing(verb: str) -> Iterator[None]:
    try:
        yield
    except UnifiedProfilerError:
        raise
    except Exception as error:
        msg = f"MindSpore's profiler failed to {verb}: {type(error).__name__}: {error}"
        raise NativeProfilerError(msg) from error
