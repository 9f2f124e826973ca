"""DeviceDriver: records a host and its accelerator with `mindspore.profiler.profile`, and has it analyzed.

What an accelerator leaves is binary and only MindSpore's own analysis can read it, in a process of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import mindspore
from mindspore.profiler import ProfilerActivity, profile

from unified_profiler.errors import NativeProfilerError
from unified_profiler.spi import NativeCapture
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.options import arguments_of_profile

_ACTIVITY = {"Ascend": ProfilerActivity.NPU, "GPU": ProfilerActivity.GPU}


class DeviceDriver:
    """One recording of host and device. MindSpore logs its failures and goes on; they are found and raised here."""

    def __init__(self, options: Mapping[str, Any], workdir: Path) -> None:
        """Take the checked native options."""
        device = _ACTIVITY.get(str(mindspore.get_context("device_target")))
        self._arguments = {"activities": [ProfilerActivity.CPU] + ([device] if device else [])} | dict(options)
        self._workdir = workdir
        self._profile: Any = None
        self._wanted = True
        self._start_ns = 0

    def start(self) -> None:
        """Begin to record."""
        with native.output_below(str(self._workdir)):
            arguments = arguments_of_profile(self._arguments)
            self._profile = profile(start_profile=False, on_trace_ready=self._analyse, **arguments)
        self._start_ns = time.time_ns()
        self._profile.start()
        if not native.is_taken():
            msg = "mindspore.profiler.profile did not start; MindSpore's log says why."
            raise NativeProfilerError(msg)

    def stop(self) -> NativeCapture:
        """End recording and have it analyzed."""
        stop_ns = time.time_ns()
        self._end()
        folders = sorted(path for path in self._workdir.iterdir() if path.is_dir())
        if len(folders) != 1:
            msg = f"mindspore.profiler.profile left {len(folders)} directories in {self._workdir} instead of one."
            raise NativeProfilerError(msg)
        return NativeCapture(
            backend="mindspore",
            files=(folders[0],),
            framework_version=native.version(),
            start_ns=self._start_ns,
            stop_ns=stop_ns,
        )

    def abandon(self) -> None:
        """End recording and forget it."""
        self._wanted = False
        if self._profile is not None:
            self._end()

    def _end(self) -> None:
        self._profile.stop()
        if native.is_taken():
            native.free()
            msg = "mindspore.profiler.profile failed to stop; MindSpore's log says why."
            raise NativeProfilerError(msg)

    def _analyse(self, interface: Any) -> None:
        if self._wanted:
            with redirect_stdout(sys.stderr):  # it draws a bar of progress; stdout is the program's
                interface.analyse()
