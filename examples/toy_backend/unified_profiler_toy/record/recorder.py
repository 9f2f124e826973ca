"""The recorder of one cycle."""

from __future__ import annotations

from pathlib import Path

import toy_framework
from unified_profiler.errors import BackendBusyError
from unified_profiler.spi import NativeCapture, RecordOptions
from unified_profiler.spi.recorder_states import native_errors


class ToyRecorder:
    """Drives `toy_framework.Profiler`, which works at once: there is nothing to arm, to mark or to wait for."""

    def __init__(self, options: RecordOptions, workdir: Path) -> None:
        self._file = workdir / "toy_trace.json"
        self._profiler = toy_framework.Profiler(shapes=options.record_shapes)

    def arm(self) -> None:
        """Do nothing: starting is cheap."""

    def start(self) -> None:
        """Start the native profiler, unless somebody else uses it."""
        if toy_framework.Profiler.running is not None:
            msg = "a toy_framework.Profiler is running already; stop it before this one starts"
            raise BackendBusyError(msg)
        with native_errors("toy_framework.Profiler", "start"):
            self._profiler.start()

    def mark_step(self, step: int) -> None:
        """Do nothing: the native profiler does not use steps."""

    def synchronize(self) -> None:
        """Do nothing: operators are done when their calls return."""

    def stop(self) -> NativeCapture:
        """Stop the native profiler and have it write its file."""
        with native_errors("toy_framework.Profiler", "stop"):
            self._profiler.stop()
            self._profiler.save(self._file)
        return NativeCapture(backend="toy", files=(self._file,), framework_version=toy_framework.__version__)

    def discard(self) -> None:
        """Stop the native profiler if this recorder started it."""
        self._profiler.stop()
