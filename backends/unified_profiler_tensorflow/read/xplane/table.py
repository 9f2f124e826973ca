"""Reads one XPlane file: its table of events, and the metadata of the recording."""

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
from unified_profiler_tensorflow.read.node_lookup import NodeLookup
from unified_profiler_tensorflow.read.xplane.columns import XPlaneColumns
from unified_profiler_tensorflow.read.xplane.describer import Describer
from unified_profiler_tensorflow.read.xplane.ignored_stats import ignored_stats
from unified_profiler_tensorflow.read.xplane.sessions import SessionRun


def read_xplane(
    path: Path, capture: NativeCapture, *, file_number: int, sessions: Sequence[SessionRun], lookup: NodeLookup
) -> tuple[EventTable, dict[str, Any]]:
    """Read a file; return its events and its metadata.

    Args:
        path: The file.
        capture: The capture that it belongs to.
        file_number: Its index among the files of the capture, one per host.
        sessions: The session runs of the capture, whose operators are taken from RunMetadata instead.
        lookup: Classifies nodes.

    Raises:
        TraceFormatError: The file is damaged, empty or of another format.
    """
    with reading(path, expected="an XPlane file"), no_collection():
        space = open_space(path)
        programs = Programs(space.planes)
        events = read_events(space, LaneAssigner(capture, file_number=file_number), ignored_stats)
        describer = Describer.of(programs, events.descriptions, lookup)
        table = XPlaneColumns(events, describer, sessions).table(space.hosts[0] if space.hosts else None)
        return checked_events(table), recording_metadata(space) | {"hlo_modules": programs.names}
