"""A clock that is turned by hand, and a backend that records what it is told to and fails where it is told to."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.schema import EventTable, Kind, Layer, event_table
from unified_profiler.spi import Abilities, ApiSurface, Capability, EventConventions, NativeCapture, RecordOptions


class FakeClock:
    """A clock that moves on by a fixed amount at each look, and by hand; for any number of threads."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000, *, tick_ns: int = 1000) -> None:
        self.now_ns = start_ns
        self.tick_ns = tick_ns
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """Return the time and move on."""
        return self.advance(self.tick_ns)

    def advance(self, duration_ns: int) -> int:
        """Let time pass, and return the time after that."""
        with self._lock:
            self.now_ns += duration_ns
            return self.now_ns


class FakeError(RuntimeError):
    """What a fake recorder raises where it was told to."""


@dataclass
class FakeBackend:
    """A backend without a framework.

    Attributes:
        name: Its name.
        module: The module looked up in `sys.modules`; the default is always there.
        capabilities: What it says it can record.
        fails_at: Verbs at which its recorders raise.
        clock: What its operators read the time from.
        calls: Every verb of every recorder, in order.
        recording: The operators of the recorder at work, None while there is none.
        surface: How calls of its API are seen.
        memory: The bytes that it says it has given out, by device.
        conventions: The names and attribute keys of its events.
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
    conventions: EventConventions = field(default_factory=EventConventions)

    def op(self, name: str) -> None:
        """Run an operator of this make-believe framework."""
        start = self.clock()
        if self.recording is not None:
            self.recording.append((name, start))

    def recorder(self, options: RecordOptions, workdir: Path) -> FakeRecorder:
        """Make the recorder of one cycle."""
        self._called("recorder")
        return FakeRecorder(self, options, workdir)

    def normalizer(self) -> FakeNormalizer:
        """Make the normalizer."""
        return FakeNormalizer(self)

    @property
    def abilities(self) -> Abilities:
        """The surface it was given, if any, and its memory."""
        surface = self.surface
        return Abilities(api_surface=None if surface is None else lambda: surface, allocated_bytes=self.allocated_bytes)

    def allocated_bytes(self) -> Mapping[str, int]:
        """Return the memory it was given; not noted among the calls, since it comes from a thread of the profiler's."""
        if "allocated_bytes" in self.fails_at:
            msg = "told to fail at allocated_bytes"
            raise FakeError(msg)
        return self.memory

    def _called(self, verb: str) -> None:
        self.calls.append(verb)
        if verb in self.fails_at:
            msg = f"told to fail at {verb}"
            raise FakeError(msg)


class FakeRecorder:
    """Notes the operators that run while it records."""

    def __init__(self, backend: FakeBackend, options: RecordOptions, workdir: Path) -> None:
        self.options = options
        self._backend = backend
        self._workdir = workdir

    def arm(self) -> None:
        """Note the call."""
        self._backend._called("arm")

    def start(self) -> None:
        """Begin to note operators."""
        self._backend._called("start")
        self._backend.recording = []

    def mark_step(self, step: int) -> None:  # noqa: ARG002  the protocol's signature
        """Note the call."""
        self._backend._called("mark_step")

    def synchronize(self) -> None:
        """Note the call."""
        self._backend._called("synchronize")

    def stop(self) -> NativeCapture:
        """Write what was recorded."""
        self._backend._called("stop")
        file = self._workdir / "fake.json"
        file.write_text(json.dumps({"fake": self._backend.recording}))
        self._backend.recording = None
        details = {"pid": os.getpid(), "tid": threading.get_native_id()}
        return NativeCapture(backend=self._backend.name, files=(file,), framework_version="1.0", details=details)

    def discard(self) -> None:
        """Forget everything."""
        self._backend.recording = None
        self._backend._called("discard")


@dataclass(frozen=True)
class FakeNormalizer:
    """Reads what fake recorders write."""

    backend: FakeBackend

    def recognizes(self, path: Path) -> bool:
        """Say whether a file was written by a fake recorder."""
        return path.is_file() and path.read_bytes().startswith(b'{"fake"')

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return an event per recorded operator."""
        self.backend._called("normalize")
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
