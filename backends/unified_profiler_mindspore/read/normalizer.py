"""MindSporeNormalizer: what MindSpore's profiler wrote, in this program or any other, as events of the schema.

Works without MindSpore. Left out are the files of `files.LEFT_OUT` and `trace_view.LEFT_OUT`, the fields named in
`launches`, and what is derived from the rest (`device_events.DERIVED`).
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

_MARKS = (b'"MindSpore"', b'"CPU OP"', b'"Ascend Hardware"')
"""Processes of MindSpore's timeline; torch on the same device writes a file of the same name."""

_NAMES = (LAUNCHES, SHAPES, MEMORY, NAME, TRACE, KERNELS)
"""Beginnings of the names of files that stand for their directory."""

_OPENING = 1 << 16


class MindSporeNormalizer:
    """Turns a directory of MindSpore's profiler into events: from the host's files, or those of a device."""

    def recognizes(self, path: Path) -> bool:
        """Say whether this is a directory of MindSpore's profiler, or a file in one."""
        with suppress(OSError):  # a directory that may not be looked into
            return _folder_of(path) is not None
        return False

    def normalize(self, capture: NativeCapture) -> EventTable:
        """Return all events of the capture; what is known about it as a whole is the schema metadata `native`.

        Raises:
            TraceFormatError: The files are damaged, missing or of another kind.
        """
        with reading(", ".join(map(str, capture.files)), expected="a directory of MindSpore's profiler"):
            folder = _one_folder(capture.files)
            table, said = device_events(folder) if (folder / TRACE).is_file() else host_events(folder)
            said = {**said, "files": [folder.name]} if folder not in capture.files else said
            return checked_events(table).replace_schema_metadata({b"native": msgspec.json.encode(said)})


def _one_folder(paths: Sequence[Path]) -> Path:
    folders = {folder for path in paths if (folder := _folder_of(path))}
    if len(folders) != 1:
        names = [str(path) for path in paths]
        msg = f"A capture of MindSpore is one directory of its profiler, or files in it; found {names}."
        raise TraceFormatError(msg)
    return folders.pop()


def _folder_of(path: Path) -> Path | None:
    """Return the directory with the files to read: of a device where there was one, otherwise of the host.

    On a host alone the analysis knows less than the files it was made from.
    """
    if path.is_file():
        return path.parent if path.name.startswith(_NAMES) and _is_either(path.parent) else None
    output, host = path / OUTPUT, path / FRAMEWORK
    if _is_analyzed(output) and ((output / KERNELS).is_file() or not _is_host(host)):
        return output
    return next((folder for folder in (host, path) if _is_either(folder)), None)


def _is_either(folder: Path) -> bool:
    return _is_host(folder) or _is_analyzed(folder)


def _is_host(folder: Path) -> bool:
    return folder.is_dir() and (any(folder.glob(f"{LAUNCHES}_*.txt")) or (folder / NAME).is_file())


def _is_analyzed(folder: Path) -> bool:
    opening = peek_bytes(folder / TRACE, _OPENING)
    return opening.lstrip().startswith(b"[") and any(mark in opening for mark in _MARKS)
