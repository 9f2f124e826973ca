"""Reads traces of native profilers, written by any program, through the backends' normalizers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from unified_profiler import registry
from unified_profiler.model.assembly import assemble
from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import native_metadata
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
    with reading(path, expected=f"a native trace of {backend.name}"):
        table = backend.normalizer().normalize(NativeCapture(backend=backend.name, files=(path,)))
        metadata = native_metadata(table)
        events = assemble([table])
        return Trace(events, _info(events, metadata, backend, path))


def _info(events: EventTable, metadata: Mapping[str, Any], backend: Backend, path: Path) -> TraceInfo:
    distributed = metadata.get("distributedInfo") or {}
    first, last = _min_max(events.column("step"))
    # The pid of a device event is the number of the device
    on_threads = events.filter(pa.array(has_text(events, "layer", Layer.FRAMEWORK.value)))
    return TraceInfo(
        rank=_most_common(events.column("rank"), default=0),
        world_size=distributed.get("world_size", 1),
        host=_most_common(events.column("host"), default=""),
        pid=_most_common(on_threads.column("pid"), default=0),
        frameworks={backend.name: str(metadata.get("framework_version") or "")},
        start_ns=_min_max(events.column("start_ns"))[0] or 0,
        end_ns=_min_max(pc.add(events.column("start_ns"), events.column("duration_ns")))[1] or 0,
        first_step=first,
        last_step=last,
        event_count=len(events),
        source=storable(str(path)),
        native={backend.name: dict(metadata)} if metadata else {},
    )


def _min_max(values: pa.ChunkedArray) -> tuple[int | None, int | None]:
    limits = pc.min_max(values).as_py()
    return limits["min"], limits["max"]


def _most_common(values: pa.ChunkedArray, *, default: Any) -> Any:
    counts = values.drop_null().value_counts().to_pylist()
    return max(counts, key=lambda count: count["counts"])["values"] if counts else default
