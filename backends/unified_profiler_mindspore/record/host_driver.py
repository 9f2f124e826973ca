"""Records the kernels that run on the host with MindSpore's C++ profiler, directly into the work directory."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from unified_profiler.errors import BackendBusyError, NativeProfilerError
from unified_profiler.spi import NativeCapture
from unified_profiler.spi.patching import Undo
from unified_profiler_mindspore.read.files import FRAMEWORK, LAUNCHES, MEMORY, SHAPES, framework_files
from unified_profiler_mindspore.read.note import Recording, write_note
from unified_profiler_mindspore.record import native
from unified_profiler_mindspore.record.boundaries import BoundaryObserver
from unified_profiler_mindspore.record.dispatch_observer import DispatchObserver
from unified_profiler_mindspore.record.graph_files import write_graphs
from unified_profiler_mindspore.record.live_classes import base_names

_DISPLACED = (
    "MindSpore's own profiler started while this one was recording (mindspore.profiler.profile, mindspore.Profiler), "
    "and MindSpore allows one at a time. The program keeps the recording of its own; the operators of this cycle are "
    "lost. Use one of them in a step, or leave MindSpore out with `backend=`."
)

logger = logging.getLogger("unified_profiler")


class HostDriver:
    """One recording on the host. `analyse()` is never run: its input files contain more than those it writes."""

    def __init__(self, options: Mapping[str, Any], workdir: Path, *, with_flops: bool = False) -> None:
        """Prepare a recording; of the checked native options, only those for memory and shapes affect a host."""
        self._with_flops = with_flops
        self._boundaries = BoundaryObserver()
        self._observer = DispatchObserver() if with_flops or options.get("record_shapes") else None
        self._with_memory = bool(options.get("profile_memory"))
        self._folder = workdir / FRAMEWORK
        self._start_ns = 0
        self._is_active = False
        self._lock = threading.Lock()
        self._undo_watch: Undo | None = None

    def start(self) -> None:
        """Start recording."""
        self._folder.mkdir(parents=True)
        profiler = native.host_profiler()
        self._undo_watch = native.before_own_profiler(self._stop_quietly)
        self._is_active = True
        self._start_ns = time.time_ns()
        profiler.init(str(self._folder))
        profiler.step_profiling_enable(True)
        profiler.enable_op_time()
        if self._with_memory:
            profiler.enable_profile_memory()
        self._boundaries.begin()
        if self._observer is not None:
            self._observer.begin()

    def stop(self) -> NativeCapture:
        """Stop recording and write the note."""
        spans = self._boundaries.end()
        native.wait_for_kernels()
        calls = self._observer.end() if self._observer is not None else None
        stop_ns = time.time_ns()
        if not self._stop_profiler():
            raise BackendBusyError(_DISPLACED)
        files = [*self._written_files(), *write_graphs(self._boundaries.graphs, self._folder)]
        note = Recording(
            framework_version=native.version(),
            pid=os.getpid(),
            start_ns=self._start_ns,
            stop_ns=stop_ns,
            sizes_bytes={file.name: file.stat().st_size for file in files},
            spans=spans,
            bases=base_names(),
            with_flops=self._with_flops,
            calls=calls,
        )
        return NativeCapture(
            backend="mindspore",
            files=(*files, write_note(note, self._folder)),
            framework_version=note.framework_version,
            start_ns=note.start_ns,
            stop_ns=note.stop_ns,
        )

    def abandon(self) -> None:
        """Drop the recording; a native profiler that other code has taken over is left alone."""
        self._boundaries.end()
        self._stop_quietly()
        if self._observer is not None:
            self._observer.end()

    def _stop_quietly(self) -> None:
        try:
            native.wait_for_kernels()
        except Exception as error:  # noqa: BLE001  MindSpore raises it only once
            logger.error("MindSpore's kernels failed while a recording was abandoned: %s", error)  # noqa: TRY400
        self._stop_profiler()

    def _stop_profiler(self) -> bool:
        """Stop the native profiler, and return whether it was still recording."""
        with self._lock:
            was_active, self._is_active = self._is_active, False
            undo, self._undo_watch = self._undo_watch, None
            if undo is not None:
                undo()
            if was_active:
                # Without its directory the profiler would add this recording to the next one.
                with suppress(OSError):
                    self._folder.mkdir(parents=True, exist_ok=True)
                native.host_profiler().stop()
        return was_active

    def _written_files(self) -> Sequence[Path]:
        """Return the native files, none if no kernel ran; that of memory only if it was requested.

        Once requested, MindSpore also records memory in all later recordings of the process.
        """
        files = framework_files(self._folder)
        if not self._with_memory and MEMORY in files:
            files.pop(MEMORY).unlink()
        missing = {LAUNCHES, SHAPES} - files.keys() if files.keys() & {LAUNCHES, SHAPES} else set()
        cut_off = [file.name for file in files.values() if not file.read_bytes().endswith(b"\n")]
        if missing or cut_off:
            msg = (
                f"MindSpore's profiler did not write complete files to {self._folder} (missing: {sorted(missing)}, cut "
                f"off: {cut_off}). Is the disk full?"
            )
            raise NativeProfilerError(msg)
        return list(files.values())
