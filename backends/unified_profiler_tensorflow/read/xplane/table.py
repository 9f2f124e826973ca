"""One XPlane file as a table of events, and what it says about the recording as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unified_profiler.model.collection import no_collection
from unified_profiler.model.foreign import reading
from unified_profiler.model.foreign_values import checked_events
from unified_profiler.model.schema import EventTable
from unified_profiler.spi import NativeCapture
from unified_profiler_tensorflow.read.node_reader import NodeReader
from unified_profiler_tensorflow.read.protobuf import message_classes
from unified_profiler_tensorflow.read.xplane.attributes import jsonable
from unified_profiler_tensorflow.read.xplane.describer import Describer
from unified_profiler_tensorflow.read.xplane.hlo import Programs
from unified_profiler_tensorflow.read.xplane.lanes import Lanes
from unified_profiler_tensorflow.read.xplane.mapping import Mapping
from unified_profiler_tensorflow.read.xplane.planes import Space, open_space
from unified_profiler_tensorflow.read.xplane.rows import read_rows
from unified_profiler_tensorflow.read.xplane.sessions import SessionRun

_OPTIONS = message_classes(
    "unified_profiler.tensorflow.options",
    {
        "ProfileOptions": {
            "include_dataset_ops": (1, "bool"),
            "host_tracer_level": (2, "uint32"),
            "device_tracer_level": (3, "uint32"),
            "python_tracer_level": (4, "uint32"),
            "version": (5, "uint32"),
            "enable_hlo_proto": (7, "bool"),
            "start_timestamp_ns": (8, "uint64"),
            "duration_ms": (9, "uint64"),
        }
    },
)["ProfileOptions"]


def read_xplane(
    path: Path,
    capture: NativeCapture,
    *,
    file_number: int = 0,
    sessions: Sequence[SessionRun] = (),
    reader: NodeReader,
) -> tuple[EventTable, dict[str, Any]]:
    """Read a file.

    Args:
        path: The file.
        capture: The capture that it belongs to.
        file_number: Its number among the files of the capture, one per host.
        sessions: Runs of sessions in the same capture, whose operators RunMetadata tells.
        reader: What is known about nodes.

    Raises:
        TraceFormatError: It is damaged, empty or of another kind.
    """
    with reading(path, expected="an XPlane file"), no_collection():
        space = open_space(path)
        programs = Programs(space.planes)
        rows = read_rows(space, Lanes(capture, file_number=file_number))
        describer = Describer.of(programs, (saying.stats for saying in rows.descriptions), reader)
        table = Mapping(rows, describer, sessions).table(space.hosts[0] if space.hosts else None)
        return checked_events(table), _said(space, programs)


def _said(space: Space, programs: Programs) -> dict[str, Any]:
    """Return what the file says about the recording as a whole."""
    task = dict(space.task)
    options = _OPTIONS.FromString(task.pop("profile_options", b""))
    return {
        "file": space.path.name,
        "hostnames": space.hosts,
        "errors": space.errors,
        "warnings": space.warnings,
        "planes": {
            plane.name: {k: jsonable(v) for k, v in plane.stats.items() if plane.stats is not space.task}
            for plane in space.planes
        },
        "task": {name: jsonable(value) for name, value in task.items()},
        "profile_options": {field.name: getattr(options, field.name) for field in options.DESCRIPTOR.fields},
        "hlo_modules": programs.names,
    }
