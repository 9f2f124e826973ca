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
from unified_profiler.spi.xplane.events import read_events
from unified_profiler.spi.xplane.hlo import Programs
from unified_profiler.spi.xplane.lanes import LaneAssigner
from unified_profiler.spi.xplane.planes import open_space
from unified_profiler.spi.xplane.stats import recording_metadata
from unified_profiler_tensorflow.read.node_reader import NodeReader
from unified_profiler_tensorflow.read.xplane.describer import Describer
from unified_profiler_tensorflow.read.xplane.left_out import left_out
from unified_profiler_tensorflow.read.xplane.mapping import Mapping
from unified_profiler_tensorflow.read.xplane.sessions import SessionRun


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
        rows = read_events(space, LaneAssigner(capture, file_number=file_number), left_out)
        describer = Describer.of(programs, (saying.stats for saying in rows.descriptions), reader)
        table = Mapping(rows, describer, sessions).table(space.hosts[0] if space.hosts else None)
        return checked_events(table), recording_metadata(space) | {"hlo_modules": programs.names}
