"""Records a host and its accelerator with `mindspore.profiler.profile`, and runs MindSpore's analysis on the result.

The files of an accelerator are binary, and only MindSpore's own analysis can read them, in a process of its own.
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
from unified_profiler_mindspore.record.options import profile_arguments

_ACTIVITY = {"Ascend": ProfilerActivity.NPU, "GPU": ProfilerActivity.GPU}


class DeviceDriver:
    """One recording of host and device. MindSpore only logs its failures; this class detects and raises them."""

    def __init__(self, options: Mapping[str, Any], workdir: Path) -> None:
        """Prepare a recording with checked native options."""
        device = _ACTIVITY.get(str(mindspore.get_context("device_target")))
        self._arguments = {"activities": [ProfilerActivity.CPU] + ([device] if device else [])} | dict(options)
        self._workdir = workdir
        self._profile: Any = None
        self._analyze_on_stop = True
        self._start_ns = 0

    def start(self) -> None:
        """Start recording."""
        with native.output_below(str(self._workdir)):
            arguments = profile_arguments(self._arguments)
            self._profile = profile(start_profile=False, on_trace_ready=self._analyze, **arguments)
        self._start_ns = time.time_ns()
        self._profile.start()
        if not native.is_profiler_active():
            msg = "mindspore.profiler.profile did not start; MindSpore's log contains the reason."
            raise NativeProfilerError(msg)

    def stop(self) -> NativeCapture:
        """Stop recording and analyze the result."""
        stop_ns = time.time_ns()
        self._stop_profile()
        folders = sorted(path for path in self._workdir.iterdir() if path.is_dir())
        if len(folders) != 1:
            msg = f"mindspore.profiler.profile created {len(folders)} directories in {self._workdir} instead of one."
            raise NativeProfilerError(msg)
        return NativeCapture(
            backend="mindspore",
            files=(folders[0],),
            framework_version=native.version(),
            start_ns=self._start_ns,
            stop_ns=stop_ns,
        )

    def abandon(self) -> None:
        """Stop recording and drop the result."""
        self._analyze_on_stop = False
        if self._profile is not None:
            self._stop_profile()

    def _stop_profile(self) -> None:
        self._profile.stop()
        if native.is_profiler_active():
            native.reset_profiler()
            msg = "mindspore.profiler.profile failed to stop; MindSpore's log contains the reason."
            raise NativeProfilerError(msg)

    def _analyze(self, interface: Any) -> None:
        if self._analyze_on_stop:
            with redirect_stdout(sys.stderr):  # for its progress bar; stdout belongs to the program
                interface.analyse()
