"""HostDriver: records the kernels that run on the host, with the C++ profiler, straight into the work directory."""

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
from unified_profiler_mindspore.record import live_classes, native
from unified_profiler_mindspore.record.boundaries import Borders
from unified_profiler_mindspore.record.dispatch_observer import DispatchObserver
from unified_profiler_mindspore.record.graph_files import write_graphs

_DISPLACED = (
    "MindSpore's own profiler began while this one recorded (mindspore.profiler.profile, mindspore.Profiler), and "
    "MindSpore allows one at a time. The program has what its own recorded; the operators of this cycle are lost. Use "
    "one of them in a step, or leave MindSpore out with `backend=`."
)

logger = logging.getLogger("unified_profiler")


class HostDriver:
    """One recording on the host. `analyse()` is never run: the files that it reads say more than those it writes."""

    def __init__(self, options: Mapping[str, Any], workdir: Path, *, with_flops: bool = False) -> None:
        """Take the checked native options; all but those for memory and shapes have no effect on a host."""
        self._with_flops = with_flops
        self._borders = Borders()
        self._observer = DispatchObserver() if with_flops or options.get("record_shapes") else None
        self._with_memory = bool(options.get("profile_memory"))
        self._folder = workdir / FRAMEWORK
        self._start_ns = 0
        self._active = False
        self._lock = threading.Lock()
        self._unwatch: Undo | None = None

    def start(self) -> None:
        """Begin to record."""
        self._folder.mkdir(parents=True)
        profiler = native.host_profiler()
        self._unwatch = native.before_own_profiler(self._end_quietly)
        self._active = True
        self._start_ns = time.time_ns()
        profiler.init(str(self._folder))
        profiler.step_profiling_enable(True)
        profiler.enable_op_time()
        if self._with_memory:
            profiler.enable_profile_memory()
        self._borders.begin()
        if self._observer is not None:
            self._observer.begin()

    def stop(self) -> NativeCapture:
        """End recording."""
        spans = self._borders.end()
        native.wait_for_kernels()
        calls = self._observer.end() if self._observer is not None else None
        stop_ns = time.time_ns()
        if not self._end():
            raise BackendBusyError(_DISPLACED)
        files = [*self._written(), *write_graphs(self._borders.graphs, self._folder)]
        note = Recording(
            framework_version=native.version(),
            pid=os.getpid(),
            start_ns=self._start_ns,
            stop_ns=stop_ns,
            sizes_bytes={file.name: file.stat().st_size for file in files},
            spans=spans,
            bases=live_classes.bases(),
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
        """End recording and forget it; a native profiler that is somebody else's by now is left alone."""
        self._borders.end()
        self._end_quietly()
        if self._observer is not None:
            self._observer.end()

    def _end_quietly(self) -> None:
        try:
            native.wait_for_kernels()
        except Exception as error:  # noqa: BLE001  MindSpore tells it once: nobody else will hear of it
            logger.error("MindSpore's kernels failed while a recording was given up: %s", error)  # noqa: TRY400
        self._end()

    def _end(self) -> bool:
        """End recording, and say whether it was still under way."""
        with self._lock:
            active, self._active = self._active, False
            unwatch, self._unwatch = self._unwatch, None
            if unwatch is not None:
                unwatch()
            if active:
                with suppress(OSError):  # without its directory the profiler would mix this recording into the next one
                    self._folder.mkdir(parents=True, exist_ok=True)
                native.host_profiler().stop()
        return active

    def _written(self) -> Sequence[Path]:
        """Return the files that were written, none if no kernel ran; memory only where it was asked for.

        Once asked for, MindSpore records memory in all later recordings of the process, too.
        """
        found = framework_files(self._folder)
        if not self._with_memory and MEMORY in found:
            found.pop(MEMORY).unlink()
        missing = {LAUNCHES, SHAPES} - found.keys() if found.keys() & {LAUNCHES, SHAPES} else set()
        cut = [file.name for file in found.values() if not file.read_bytes().endswith(b"\n")]
        if missing or cut:
            msg = (
                f"MindSpore's profiler could not write all it had to {self._folder} (missing: {sorted(missing)}, cut "
                f"off: {cut}). Is the disk full?"
            )
            raise NativeProfilerError(msg)
        return list(found.values())
