"""MindSporeRecorder: drives MindSpore's native profiler through one cycle and leaves the files it writes.

MindSpore allows one profiler at a time in a process; one that is already active is somebody else's and is not touched,
and one that begins while this one records takes its place.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Protocol

import mindspore

from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler.spi.recorder_states import RecorderState, native_errors
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.device_driver import DeviceDriver
from unified_profiler_mindspore.record.host_driver import HostDriver
from unified_profiler_mindspore.record.options import checked

_PROFILER = "MindSpore's profiler"


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
        self._state = RecorderState.NEW

    def arm(self) -> None:
        """Check that recording can begin; MindSpore itself needs no preparation.

        Raises:
            BackendBusyError: A profiler is active already.
        """
        self._state.expect(RecorderState.NEW, "arm")
        native.refuse_if_taken()
        self._state = RecorderState.ARMED

    def start(self) -> None:
        """Begin to record, with nothing under way that belongs to what was before.

        Raises:
            BackendBusyError: Another profiler was started after this one was armed.
            NativeProfilerError: MindSpore refused.
        """
        self._state.expect(RecorderState.ARMED, "start")
        self.synchronize()
        native.take()
        self._state = RecorderState.RECORDING
        with native_errors(_PROFILER, "start"):
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
        self._state.expect(RecorderState.RECORDING, "stop")
        try:
            with native_errors(_PROFILER, "stop"):
                capture = self._driver.stop()
        except BaseException:
            self.discard()
            raise
        self._release()
        return capture

    def discard(self) -> None:
        """Let go of everything; the native profiler is free afterwards, unless somebody else took it."""
        if self._state is RecorderState.RECORDING:
            with suppress(Exception):
                self._driver.abandon()
            self._release()
        self._state = RecorderState.DONE

    def _release(self) -> None:
        self._state = RecorderState.DONE
        native.in_use.release()
