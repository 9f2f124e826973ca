"""Drives the recorders of all backends through one cycle; one that fails does not affect the others."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from unified_profiler.errors import UnsupportedCapabilityError
from unified_profiler.recording.faults import FaultLog, GuardOutcome
from unified_profiler.recording.native_messages import routine_messages_hidden
from unified_profiler.spi import Backend, NativeCapture, Recorder, RecordOptions


class Cycle:
    """The recorders from ARM to STOP or DISCARD. A recorder that fails is discarded and the others continue.

    Attributes:
        number: The number of the cycle in the run.
        step: The step that began last.
        workdir: The directory of the native files; None if no backend records.
        captures: The captures of the recorders that stopped without an error.
        backends: The recording backends by name.
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
        """Create and arm a recorder for each backend; each writes to its own directory below `workdir`."""
        self.workdir, self.backends = workdir, {backend.name: backend for backend in backends}
        for error in missing_capabilities(backends, self._options):
            self._faults.report(error.backend, "record", error, cycle=self.number, step=self.step)
        with self._quiet():
            for backend in backends:
                directory = workdir / backend.name
                with self._guard(backend, "arm"):
                    directory.mkdir()
                    # users give `native_options` by backend name
                    options = replace(self._options, native_options=self._options.native_options.get(backend.name, {}))
                    self._recorders.append((backend, backend.recorder(options, directory)))
            self._call_each("arm")

    def start(self) -> None:
        """Start recording."""
        with self._quiet():
            self._call_each("start")

    def mark_step(self, step: int) -> None:
        """Notify all recorders that a step begins."""
        self.step = step
        self._call_each("mark_step", step)

    def synchronize(self) -> None:
        """Wait until all queued work is done; errors of that work belong to the program and are raised."""
        for _, recorder in self._recorders:
            recorder.synchronize()

    def stop(self, now: int) -> None:
        """Stop all recorders. Every capture ends at `now`, although later recorders still record while others stop."""
        with self._quiet():
            for backend, recorder in self._recorders:
                with self._guard(backend, "stop") as outcome:
                    capture = recorder.stop()
                    stop_ns = now if capture.stop_ns is None else min(now, capture.stop_ns)
                    self.captures.append(replace(capture, backend=backend.name, stop_ns=stop_ns))
                if outcome.failed:
                    self._discard(backend, recorder)
            self._recorders.clear()

    def discard(self) -> None:
        """Discard all recorders and delete their files."""
        with self._quiet():
            for backend, recorder in self._recorders:
                self._discard(backend, recorder)
            self._recorders.clear()
        if self.workdir is not None:
            shutil.rmtree(self.workdir, ignore_errors=True)

    def _call_each(self, verb: str, *arguments: int) -> None:
        for pair in list(self._recorders):
            backend, recorder = pair
            try:
                getattr(recorder, verb)(*arguments)
            except Exception as error:  # noqa: BLE001  a guard would cost more, and this runs in every recorded step
                self._faults.report(backend.name, verb, error, cycle=self.number, step=self.step)
                self._recorders.remove(pair)
                self._discard(backend, recorder)

    def _discard(self, backend: Backend, recorder: Recorder) -> None:
        with self._guard(backend, "discard"):
            recorder.discard()

    def _quiet(self) -> AbstractContextManager[None]:
        return routine_messages_hidden(backend.abilities.routine_messages for backend in self.backends.values())

    def _guard(self, backend: Backend, action: str) -> AbstractContextManager[GuardOutcome]:
        return self._faults.guard(backend.name, action, cycle=self.number, step=self.step)


def missing_capabilities(backends: Iterable[Backend], options: RecordOptions) -> list[UnsupportedCapabilityError]:
    """Return an error for each requested capability that a backend lacks."""
    return [
        UnsupportedCapabilityError(backend.name, capability.value)
        for backend in backends
        for capability in sorted(options.wanted() - backend.capabilities, key=lambda capability: capability.value)
    ]
