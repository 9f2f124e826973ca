"""Reads traces of native profilers, written by any program, through the backends' normalizers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler import registry
from unified_profiler.model.arrow_arrays import number_array
from unified_profiler.model.assembly import assemble
from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import int_or_none, native_metadata
from unified_profiler.model.nesting import has_text
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EventTable, Layer
from unified_profiler.model.text import storable
from unified_profiler.model.trace import Trace
from unified_profiler.spi import Backend, NativeCapture


def recognized_by(path: Path) -> Backend | None:
    """Return the backend whose native profiler wrote the file or directory, or None."""
    return next((b for b in registry.backends().values() if b.normalizer().recognizes(path)), None)


def read_native(path: Path, backend: Backend) -> Trace:
    """Read a native capture.

    Raises:
        TraceFormatError: It is damaged, empty or of another kind.
    """
    return NativeTrace.read(path, backend).trace()


@dataclass(frozen=True)
class NativeTrace:
    """The events of a native capture, before it is known which rank and cycle they are."""

    path: Path
    backend: Backend
    events: EventTable
    metadata: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, backend: Backend) -> NativeTrace:
        """Read a native capture.

        Raises:
            TraceFormatError: It is damaged, empty or of another kind.
        """
        with reading(path, expected=f"a native trace of {backend.name}"):
            table = backend.normalizer().normalize(NativeCapture(backend=backend.name, files=(path,)))
            return cls(path, backend, table, native_metadata(table))

    @property
    def rank(self) -> int | None:
        """The rank that was recorded, if any."""
        rank: int | None = _most_common(self.events.column("rank"), default=None)
        return rank

    @property
    def world_size(self) -> int | None:
        """The number of ranks that was recorded, if any."""
        return int_or_none(self._distributed.get("world_size"))

    @property
    def _distributed(self) -> Mapping[str, Any]:
        return self.metadata.get("distributedInfo") or {}

    @property
    def start_ns(self) -> int:
        """When the first event began."""
        return _min_max(self.events.column("start_ns"))[0] or 0

    def trace(self, *, rank: int | None = None, cycle: int = 0, world_size: int = 1) -> Trace:
        """Build the trace.

        Args:
            rank: The rank of events without a recorded one.
            cycle: The number of the cycle.
            world_size: The number of ranks if it was not recorded.

        Raises:
            TraceFormatError: The capture is damaged.
        """
        with reading(self.path, expected=f"a native trace of {self.backend.name}"):
            events = assemble([self.events], rank=rank, cycle=cycle)
            return Trace(events, self._info(events, rank=rank or 0, cycle=cycle, world_size=world_size))

    def _info(self, events: EventTable, *, rank: int, cycle: int, world_size: int) -> TraceInfo:
        first, last = _min_max(events.column("step"))
        # The pid of a device event is the number of the device
        on_threads = events.column("pid").filter(number_array(has_text(events, "layer", Layer.FRAMEWORK.value)))
        return TraceInfo(
            rank=_most_common(events.column("rank"), default=rank),
            cycle=cycle,
            world_size=self._distributed.get("world_size", world_size),
            host=_most_common(events.column("host"), default=""),
            pid=_most_common(on_threads, default=0),
            frameworks={self.backend.name: str(self.metadata.get("framework_version") or "")},
            start_ns=_min_max(events.column("start_ns"))[0] or 0,
            end_ns=_min_max(pc.add(events.column("start_ns"), events.column("duration_ns")))[1] or 0,
            first_step=first,
            last_step=last,
            event_count=len(events),
            source=storable(str(self.path)),
            native={self.backend.name: dict(self.metadata)} if self.metadata else {},
        )


def _min_max(values: pa.ChunkedArray) -> tuple[int | None, int | None]:
    limits = pc.min_max(values).as_py()
    return limits["min"], limits["max"]


def _most_common(values: pa.ChunkedArray, *, default: Any) -> Any:
    counts = values.drop_null().value_counts().to_pylist()
    return max(counts, key=lambda count: count["counts"])["values"] if counts else default
