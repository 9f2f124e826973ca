"""A clock that tests advance, and a backend without a framework that fails at selected verbs."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.schema import EventTable, Kind, Layer, event_table
from unified_profiler.spi import Abilities, ApiSurface, Capability, NativeCapture, RecordOptions


class FakeClock:
    """A thread-safe clock that advances by a fixed amount at each reading, and by `advance`."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000, *, tick_ns: int = 1000) -> None:
        self.now_ns = start_ns
        self.tick_ns = tick_ns
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """Advance the clock by a tick and return the time."""
        return self.advance(self.tick_ns)

    def advance(self, duration_ns: int) -> int:
        """Advance the clock and return the new time."""
        with self._lock:
            self.now_ns += duration_ns
            return self.now_ns


class FakeError(RuntimeError):
    """The error of a fake backend at the verbs of `fails_at`."""


@dataclass
class FakeBackend:
    """A backend without a framework.

    Attributes:
        name: Its name.
        module: The module looked up in `sys.modules`; the default is always imported.
        capabilities: The capabilities that it reports.
        fails_at: Verbs at which its recorders raise.
        clock: The clock of its operators.
        calls: Every verb of every recorder, in order.
        recording: The operators of the current recorder, None if none is recording.
        surface: The surface that traces its API.
        memory: The allocated bytes that it reports, by device.
    """

    name: str = "fake"
    module: str = "sys"
    capabilities: frozenset[Capability] = frozenset(Capability)
    fails_at: frozenset[str] = frozenset()
    clock: FakeClock = field(default_factory=FakeClock)
    calls: list[str] = field(default_factory=list)
    recording: list[tuple[str, int]] | None = None
    surface: ApiSurface | None = None
    memory: Mapping[str, int] = field(default_factory=dict)

    def op(self, name: str) -> None:
        """Run an operator of the fake framework."""
        start = self.clock()
        if self.recording is not None:
            self.recording.append((name, start))

    def recorder(self, options: RecordOptions, workdir: Path) -> FakeRecorder:
        """Create the recorder of one cycle."""
        self._record_call("recorder")
        return FakeRecorder(self, options, workdir)

    def normalizer(self) -> FakeNormalizer:
        """Create the normalizer."""
        return FakeNormalizer(self)

    @property
    def abilities(self) -> Abilities:
        """The given surface, if any, and the memory."""
        surface = self.surface
        return Abilities(api_surface=None if surface is None else lambda: surface, allocated_bytes=self.allocated_bytes)

    def allocated_bytes(self) -> Mapping[str, int]:
        """Return the given memory; not added to `calls`, since a thread of the profiler calls it."""
        if "allocated_bytes" in self.fails_at:
            msg = "failure at allocated_bytes"
            raise FakeError(msg)
        return self.memory

    def _record_call(self, verb: str) -> None:
        self.calls.append(verb)
        if verb in self.fails_at:
            msg = f"failure at {verb}"
            raise FakeError(msg)


class FakeRecorder:
    """Records the operators of the fake framework."""

    def __init__(self, backend: FakeBackend, options: RecordOptions, workdir: Path) -> None:
        self.options = options
        self._backend = backend
        self._workdir = workdir

    def arm(self) -> None:
        """Record the call."""
        self._backend._record_call("arm")

    def start(self) -> None:
        """Start recording operators."""
        self._backend._record_call("start")
        self._backend.recording = []

    def mark_step(self, step: int) -> None:  # noqa: ARG002  the protocol's signature
        """Record the call."""
        self._backend._record_call("mark_step")

    def synchronize(self) -> None:
        """Record the call."""
        self._backend._record_call("synchronize")

    def stop(self) -> NativeCapture:
        """Write the recorded operators."""
        self._backend._record_call("stop")
        file = self._workdir / "fake.json"
        file.write_text(json.dumps({"fake": self._backend.recording}))
        self._backend.recording = None
        details = {"pid": os.getpid(), "tid": threading.get_native_id()}
        return NativeCapture(backend=self._backend.name, files=(file,), framework_version="1.0", details=details)

    def discard(self) -> None:
        """Drop all operators."""
        self._backend.recording = None
        self._backend._record_call("discard")


@dataclass(frozen=True)
class FakeNormalizer:
    """Reads the files of fake recorders."""

    backend: FakeBackend

    def recognizes(self, path: Path) -> bool:
        """Return whether a file was written by a fake recorder."""
        return path.is_file() and path.read_bytes().startswith(b'{"fake"')

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return an event per recorded operator."""
        self.backend._record_call("normalize")
        try:
            ops = json.loads(capture.files[0].read_text())["fake"]
        except (ValueError, KeyError, TypeError) as error:
            msg = f"{capture.files[0]} is not a fake capture: {error!r}"
            raise TraceFormatError(msg) from error
        return event_table(
            {
                "name": [name for name, _ in ops],
                "layer": Layer.FRAMEWORK.value,
                "kind": Kind.OP.value,
                "framework": self.backend.name,
                "start_ns": [start for _, start in ops],
                "duration_ns": 100,
                "pid": capture.details.get("pid", 0),
                "tid": capture.details.get("tid", 0),
            },
            rows=len(ops),
        )
