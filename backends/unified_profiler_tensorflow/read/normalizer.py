"""TensorFlowNormalizer: converts XPlane files, RunMetadata and timelines, from any program, to events of the schema.

Does not import TensorFlow. `xplane.ignored_stats` lists the stats of XPlane files that are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.collection import no_collection
from unified_profiler.model.foreign import read_bytes, reading
from unified_profiler.model.foreign_values import native_metadata
from unified_profiler.model.schema import EventTable, empty_table
from unified_profiler.spi import NativeCapture
from unified_profiler.spi.xplane.files import SUFFIX, newest_run, profiles_in
from unified_profiler.spi.xplane.planes import looks_like_xplane
from unified_profiler_tensorflow.read.live_objects import read_note
from unified_profiler_tensorflow.read.node_lookup import NodeLookup
from unified_profiler_tensorflow.read.run_metadata import step_stats, timeline
from unified_profiler_tensorflow.read.run_metadata.events import read_run
from unified_profiler_tensorflow.read.run_metadata.files import INDEX_NAME, run_metadata_files
from unified_profiler_tensorflow.read.run_metadata.work import WorkReader
from unified_profiler_tensorflow.read.xplane.sessions import SessionRun, input_shapes, with_shapes
from unified_profiler_tensorflow.read.xplane.table import read_xplane


class TensorFlowNormalizer:
    """Converts the files of TensorFlow's profilers to events."""

    def recognizes(self, path: Path) -> bool:
        """Return whether this is an XPlane file, a RunMetadata, a timeline, or a directory of profiles."""
        with suppress(OSError):  # a directory without read permission
            if path.is_dir():
                return bool(run_metadata_files(path)) or next(profiles_in(path), None) is not None
            return path.is_file() and (_is_xplane(path) or step_stats.recognizes(path) or timeline.recognizes(path))
        return False

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return all events of the capture; the schema metadata `native` describes the capture as a whole.

        A program that built graphs and ran none of them leaves a capture without files, and no events.

        Raises:
            TraceFormatError: A file is damaged, empty or of another format.
        """
        paths = ", ".join(map(str, capture.files))
        with reading(paths, expected="files of TensorFlow's profilers"), no_collection():
            return self._normalize(capture)

    def _normalize(self, capture: NativeCapture) -> EventTable:
        sources = _Sources.of(capture.files)
        entries = [_entry(file, capture) for file in sources.sessions]
        lookup = NodeLookup.of(read_note((*sources.profiles, *sources.sessions)))
        reader = WorkReader(lookup)
        pairs = zip(sources.sessions, entries, strict=True)
        sessions = [read_run(file, entry, reader) for file, entry in pairs]
        timelines = [timeline.read(file) for file in sources.timelines]
        runs = [run for run in map(SessionRun.of, sessions, entries) if run]
        profiles = [
            read_xplane(file, capture, file_number=number, sessions=runs, lookup=lookup)
            for number, file in enumerate(sources.profiles)
        ]
        native = {
            "framework_version": capture.framework_version,
            "xplane": [metadata for _, metadata in profiles],
            "run_metadata": [native_metadata(session.table) for session in sessions],
            "timeline": [native_metadata(table) for table in timelines],
            "files": sources.taken,
            "other_runs": sources.other_runs,
            "problems": capture.details.get("problems"),
        }
        if sessions:
            shapes = {node: shape for table, _ in profiles for node, shape in input_shapes(table).items()}
            sessions = [with_shapes(session, shapes, lookup) for session in sessions]
        tables = [*(table for table, _ in profiles), *(session.table for session in sessions), *timelines]
        events = _concatenate(tables)
        metadata = msgspec.json.encode({name: value for name, value in native.items() if value})
        return events.replace_schema_metadata({b"native": metadata})


@dataclass
class _Sources:
    """The files of a capture by format."""

    profiles: list[Path] = field(default_factory=list)
    sessions: list[Path] = field(default_factory=list)
    timelines: list[Path] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    """The files that were taken from a directory, by their paths in it."""
    other_runs: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, files: Sequence[Path]) -> _Sources:
        """Classify the files, and those in directories.

        Raises:
            TraceFormatError: None of them is TensorFlow's.
        """
        sources = cls()
        for file in files:
            sources._add(file)
        if files and not (sources.profiles or sources.sessions or sources.timelines):
            paths = [str(file) for file in files]
            msg = f"There are no files of TensorFlow's profilers in {paths}: expected `*{SUFFIX}` files or RunMetadata."
            raise TraceFormatError(msg)
        return sources

    def _add(self, path: Path) -> None:
        if path.is_dir():
            self._add_directory(path)
        elif _is_xplane(path):
            self.profiles.append(path)
        elif step_stats.recognizes(path) or (path.suffix == ".pb" and (path.parent / INDEX_NAME).exists()):
            self.sessions.append(path)
        elif path.suffix == ".json":
            self.timelines.append(path)
        else:
            self.profiles.append(path)  # the XPlane reader reports what is wrong with an unknown file

    def _add_directory(self, path: Path) -> None:
        newest, sessions = list(profiles_in(path)), run_metadata_files(path)
        if newest:
            newest, self.other_runs = newest_run(newest)
        self.profiles += newest
        self.sessions += sessions
        self.taken += [file.relative_to(path).as_posix() for file in (*newest, *sessions)]


def _is_xplane(path: Path) -> bool:
    return path.name.endswith(SUFFIX) or looks_like_xplane(path)


def _entry(file: Path, capture: NativeCapture) -> Mapping[str, Any] | None:
    """Return what the recorder stored about a session run."""
    entry = capture.details.get("runs", {}).get(file.name)
    if entry is not None:
        return dict(entry)
    try:
        with reading(file.parent / INDEX_NAME):
            index = msgspec.json.decode(read_bytes(file.parent / INDEX_NAME), type=list[dict[str, Any]])
    except TraceFormatError:  # runs are useful without it
        return None
    return next((entry for entry in index if entry.get("file") == file.name), None)


def _concatenate(tables: list[EventTable]) -> EventTable:
    plain = [table.replace_schema_metadata(None) for table in tables]
    if len(plain) < 2:
        return plain[0] if plain else empty_table()
    return pa.concat_tables(plain).unify_dictionaries().combine_chunks()
