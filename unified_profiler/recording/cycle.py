"""One cycle: the recorders of all backends driven together, each failing on its own, and the window they recorded."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from unified_profiler.errors import UnsupportedCapabilityError
from unified_profiler.recording.faults import FaultLog, Outcome
from unified_profiler.spi import Backend, NativeCapture, Recorder, RecordOptions


class Cycle:
    """Recorders from ARM to STOP or DISCARD. A recorder that fails is discarded and the others go on.

    Attributes:
        number: Its number in the run.
        step: The step that began last.
        workdir: The folder with the native files; None if nothing was to be recorded.
        captures: What was recorded.
        backends: Those that it was recorded with, by their names.
    """

    def __init__(self, number: int, *, options: RecordOptions, faults: FaultLog) -> None:
        self.number = number
        self.step: int | None = None
        self.workdir: Path | None = None
        self.captures: list[NativeCapture] = []
        self.backends: dict[str, Backend] = {}
        self._options = options
        self._faults = faults
        self._recorders: list[tuple[Backend, Recorder]] = []

    def arm(self, backends: Sequence[Backend], *, workdir: Path) -> None:
        """Make and arm a recorder of each backend; each writes to a folder of its own below `workdir`."""
        self.workdir, self.backends = workdir, {backend.name: backend for backend in backends}
        for error in missing_capabilities(backends, self._options):
            self._faults.report(error.backend, "record", error, cycle=self.number, step=self.step)
        for backend in backends:
            folder = workdir / backend.name
            with self._guard(backend, "arm"):
                folder.mkdir()
                recorder = backend.recorder(_options_of(backend, self._options), folder)
                self._recorders.append((backend, recorder))
        self._each("arm")

    def start(self) -> None:
        """Begin to record."""
        self._each("start")

    def mark_step(self, step: int) -> None:
        """Tell all recorders which step begins."""
        self.step = step
        self._each("mark_step", step)

    def synchronize(self) -> None:
        """Wait until all queued work is done; its errors are the program's own and are raised."""
        for _, recorder in self._recorders:
            recorder.synchronize()

    def stop(self, now: int) -> None:
        """End recording. For all backends it ends now: while one is being stopped, the next one still records."""
        for backend, recorder in self._recorders:
            with self._guard(backend, "stop") as outcome:
                capture = recorder.stop()
                stop_ns = now if capture.stop_ns is None else min(now, capture.stop_ns)
                self.captures.append(replace(capture, backend=backend.name, stop_ns=stop_ns))
            if outcome.failed:
                self._discard(backend, recorder)
        self._recorders.clear()

    def discard(self) -> None:
        """Let go of everything."""
        for backend, recorder in self._recorders:
            self._discard(backend, recorder)
        self._recorders.clear()
        self._remove_files()

    def _each(self, verb: str, *arguments: int) -> None:
        for pair in list(self._recorders):
            backend, recorder = pair
            try:
                getattr(recorder, verb)(*arguments)
            except Exception as error:  # noqa: BLE001  no `with` of a guard: this is on the way of every recorded step
                self._faults.report(backend.name, verb, error, cycle=self.number, step=self.step)
                self._recorders.remove(pair)
                self._discard(backend, recorder)

    def _discard(self, backend: Backend, recorder: Recorder) -> None:
        with self._guard(backend, "discard"):
            recorder.discard()

    def _guard(self, backend: Backend, action: str) -> AbstractContextManager[Outcome]:
        return self._faults.guard(backend.name, action, cycle=self.number, step=self.step)

    def _remove_files(self) -> None:
        if self.workdir is not None:
            shutil.rmtree(self.workdir, ignore_errors=True)


def missing_capabilities(backends: Iterable[Backend], options: RecordOptions) -> list[UnsupportedCapabilityError]:
    """Return an error for each thing asked for that a backend cannot record."""
    return [
        UnsupportedCapabilityError(backend.name, capability.value)
        for backend in backends
        for capability in sorted(options.wanted() - backend.capabilities, key=lambda wanted: wanted.value)
    ]


def _options_of(backend: Backend, options: RecordOptions) -> RecordOptions:
    """Narrow `native_options`, which users give by the names of backends, to those of one backend."""
    return replace(options, native_options=options.native_options.get(backend.name, {}))
