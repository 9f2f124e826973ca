"""Converts the output of MindSpore's profiler, whichever program recorded it, to events of the schema.

Works without MindSpore. Left out are the files and fields named in the docstrings of `files`, `trace_view` and
`launches`, and processes derived from others (`device.events.DERIVED`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import peek_bytes, reading
from unified_profiler.model.foreign_values import checked_events
from unified_profiler.model.schema import EventTable
from unified_profiler.spi import NativeCapture
from unified_profiler_mindspore.read.device.events import device_events
from unified_profiler_mindspore.read.device.trace_view import KERNELS, OUTPUT, TRACE
from unified_profiler_mindspore.read.files import FRAMEWORK, LAUNCHES, MEMORY, SHAPES
from unified_profiler_mindspore.read.host.events import host_events
from unified_profiler_mindspore.read.note import NAME

_PROCESS_NAMES = (b'"MindSpore"', b'"CPU OP"', b'"Ascend Hardware"')
"""Processes of MindSpore's timeline; torch on the same device writes a file of the same name."""

_PREFIXES = (LAUNCHES, SHAPES, MEMORY, NAME, TRACE, KERNELS)
"""Prefixes of file names that identify their directory."""

_OPENING = 1 << 16
"""Bytes of the timeline that are searched for process names."""


class MindSporeNormalizer:
    """Converts a directory of MindSpore's profiler to events, from the host's files or those of a device."""

    def recognizes(self, path: Path) -> bool:
        """Return whether this is a directory of MindSpore's profiler, or a file in one."""
        with suppress(OSError):  # a directory without read permission
            return _folder_of(path) is not None
        return False

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return all events of the capture; metadata of the recording is in the schema metadata `native`.

        Raises:
            TraceFormatError: The files are damaged, missing or of another kind.
        """
        with reading(", ".join(map(str, capture.files)), expected="a directory of MindSpore's profiler"):
            folder = _capture_folder(capture.files)
            table, metadata = device_events(folder) if (folder / TRACE).is_file() else host_events(folder)
            if folder not in capture.files:
                metadata = {**metadata, "files": [folder.name]}
            return checked_events(table).replace_schema_metadata({b"native": msgspec.json.encode(metadata)})


def _capture_folder(paths: Sequence[Path]) -> Path:
    folders = {folder for path in paths if (folder := _folder_of(path))}
    if len(folders) != 1:
        names = [str(path) for path in paths]
        msg = f"A capture of MindSpore is one directory of its profiler, or files in it; found {names}."
        raise TraceFormatError(msg)
    return folders.pop()


def _folder_of(path: Path) -> Path | None:
    """Return the directory with the files to read: those of a device if there was one, otherwise those of the host.

    Without a device, the analysis contains less than the files it was made from.
    """
    if path.is_file():
        return path.parent if path.name.startswith(_PREFIXES) and _is_readable(path.parent) else None
    output, host = path / OUTPUT, path / FRAMEWORK
    if _is_analysis(output) and ((output / KERNELS).is_file() or not _is_host(host)):
        return output
    return next(filter(_is_readable, (host, path)), None)


def _is_readable(folder: Path) -> bool:
    return _is_host(folder) or _is_analysis(folder)


def _is_host(folder: Path) -> bool:
    return folder.is_dir() and (any(folder.glob(f"{LAUNCHES}_*.txt")) or (folder / NAME).is_file())


def _is_analysis(folder: Path) -> bool:
    opening = peek_bytes(folder / TRACE, _OPENING)
    return opening.lstrip().startswith(b"[") and any(name in opening for name in _PROCESS_NAMES)
