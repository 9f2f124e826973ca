"""Drives MindSpore's native profiler through one recording cycle.

MindSpore allows one profiler at a time in a process. One that is already active belongs to other code and is not
touched; one that starts during a recording takes over.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import mindspore

from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler.spi.recorder_states import RecorderState, native_errors
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.device_driver import DeviceDriver
from unified_profiler_mindspore.record.host_driver import HostDriver
from unified_profiler_mindspore.record.options import check_options

_PROFILER = "MindSpore's profiler"


class MindSporeRecorder:
    """Records one cycle: on a CPU with the host profiler, on an accelerator with the device profiler as well."""

    def __init__(self, options: RecordOptions, workdir: Path) -> None:
        """Create the recorder of one cycle.

        Args:
            options: What to record. `native_options` are arguments of `mindspore.profiler.profile` and of its
                `_ExperimentalConfig`, and take precedence over the rest.
            workdir: Directory for the native files.

        Raises:
            ConfigurationError: A native option is wrong.
        """
        defaults = {"record_shapes": options.record_shapes, "profile_memory": options.profile_memory}
        native_options, folder = check_options(defaults | dict(options.native_options)), workdir.absolute()
        self._driver: HostDriver | DeviceDriver = (
            HostDriver(native_options, folder, with_flops=options.with_flops)
            if mindspore.get_context("device_target") == "CPU"
            else DeviceDriver(native_options, folder)
        )
        self._state = RecorderState.NEW

    def arm(self) -> None:
        """Check that recording can start; MindSpore itself needs no preparation.

        Raises:
            BackendBusyError: A profiler is active already.
        """
        self._state.expect(RecorderState.NEW, "arm")
        native.check_available()
        self._state = RecorderState.ARMED

    def start(self) -> None:
        """Start recording, after all kernels queued so far have run.

        Raises:
            BackendBusyError: Another profiler was started after this one was armed.
            NativeProfilerError: MindSpore refused.
        """
        self._state.expect(RecorderState.ARMED, "start")
        self.synchronize()
        native.acquire()
        self._state = RecorderState.RECORDING
        with native_errors(_PROFILER, "start"):
            self._driver.start()

    def synchronize(self) -> None:
        """Wait for kernels that PyNative mode has only queued so far, so that they belong to the step that queued them.

        It raises errors of the program's own kernels, which MindSpore reports to the first caller that waits.
        """
        native.wait_for_kernels()

    def mark_step(self, step: int) -> None:
        """Do nothing: the native files contain no steps, and `synchronize` has separated this one from the last."""

    def stop(self) -> NativeCapture:
        """Stop recording; the native files are complete.

        Raises:
            BackendBusyError: MindSpore's own profiler started during the recording.
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
        """Release all resources; the native profiler is free afterwards, unless other code has taken over."""
        if self._state is RecorderState.RECORDING:
            with suppress(Exception):
                self._driver.abandon()
            self._release()
        self._state = RecorderState.DONE

    def _release(self) -> None:
        self._state = RecorderState.DONE
        native.in_use.release()
