"""Stores and loads ended cycles that are not traces yet: their native files and the other data of a trace.

| in the folder `pending` of a rank | |
|---|---|
| `owner.lock` | held by the recording process |
| `reader.lock` | held by the reader that finishes the cycles of an ended process |
| `cycle-00000/<backend>/` | the native files, where the recorder wrote them |
| `cycle-00000/calls.arrow`, `counters.arrow` | API calls, hardware samples |
| `cycle-00000/cycle.json` | everything else. It is written last: a cycle without it is incomplete |
"""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Annotated, Any

import msgspec

from unified_profiler.delivery.finishing import EndedCycle
from unified_profiler.model.arrow_files import read_stream, write_stream
from unified_profiler.model.file_locks import FileLock
from unified_profiler.model.foreign import inside, read_bytes, reading
from unified_profiler.model.part_files import atomic_write
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.run import cycle_name
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable
from unified_profiler.model.storage import parse_record
from unified_profiler.presentation.text import counted
from unified_profiler.presentation.units import format_bytes
from unified_profiler.recording.window import Window
from unified_profiler.spi import NativeCapture

RECORD = "cycle.json"
LONG_BYTES = 1 << 26
"""Size of native files that take about a second to convert to traces."""
_TABLES = ("calls", "counters")
_UNCHANGED = ("step", "keep_native", "options", "max_events")
"""Fields of a cycle that are stored as they are."""
_EXPECTED = "the record of a cycle next to its native files"

logger = logging.getLogger("unified_profiler")


class PendingCycles:
    """The pending cycles of one rank.

    Attributes:
        folder: Their location.
        owner: The lock of the recording process.
        reader: The lock of a reader that finishes them after that process has ended.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = FileLock(folder / "owner.lock")
        self.reader = FileLock(folder / "reader.lock")

    def own(self) -> None:
        """Create the folder and take its lock, as the recording process.

        On a file system without locks, readers consider complete cycles abandoned. They may finish them, which is
        harmless.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.reader.create()
        if not self.owner.held:
            with suppress(OSError):
                self.owner.take(create=True)

    def folder_of(self, cycle: int) -> Path:
        """Return the folder of a cycle."""
        return self.folder / cycle_name(cycle)

    def waiting(self) -> list[Path]:
        """Return the folders of complete cycles, in order."""
        return sorted(record.parent for record in self.folder.glob(f"cycle-*/{RECORD}"))

    def incomplete(self) -> list[Path]:
        """Return the folders of cycles in which the process ended, in order."""
        return sorted(path for path in self.folder.glob("cycle-*") if not is_pending(path))

    def warn_if_large(self) -> None:
        """Log a warning if finishing the cycles will take a while."""
        waiting = self.waiting()
        size = sum(file.stat().st_size for folder in waiting for file in folder.rglob("*") if file.is_file())
        if size >= LONG_BYTES:
            cycles = counted(len(waiting), "recorded cycle")
            logger.warning("Making traces of %s (%s) takes a while.", cycles, format_bytes(size))

    def remove_folder(self) -> None:
        """Remove the folder if no cycle is left in it."""
        if not any(self.folder.glob("cycle-*")):
            shutil.rmtree(self.folder, ignore_errors=True)


def is_pending(folder: Path) -> bool:
    """Return whether a folder contains a complete cycle that is not a trace yet."""
    return (folder / RECORD).exists()


def remove_cycle_folder(folder: Path, *, native: Path | None) -> None:
    """Remove the folder of a cycle whose trace exists.

    Args:
        folder: The folder.
        native: New location of its native files; None to remove them. They move first and in one operation, so that no
            cycle is ever pending without its files.
    """
    if native is None:
        (folder / RECORD).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        return
    native.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(native)
    for name in (RECORD, *map(_table_file, _TABLES)):
        (native / name).unlink(missing_ok=True)


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a record that contains the version of its writer."""

    info: msgspec.Raw


class _Stored(_Head, frozen=True, kw_only=True):
    """The file format of a cycle; paths are relative to its folder."""

    window: Window
    captures: tuple[NativeCapture, ...]
    step: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] | None
    keep_native: bool
    options: tuple[str, ...] = ()
    max_events: Annotated[int, msgspec.Meta(ge=0)] = 0


def store(cycle: EndedCycle, folder: Path) -> None:
    """Write a cycle atomically next to its native files.

    Raises:
        TypeError: The details of a capture are not plain data.
        ValueError: A native file is not in the folder, or a text is not valid Unicode.
        OSError: It cannot be written.
    """
    stored = _Stored(
        info=msgspec.Raw(cycle.info.model_dump_json().encode()),
        window=replace(cycle.window, calls=None, counters=None),
        captures=tuple(_with_files(c, [file.relative_to(folder) for file in c.files]) for c in cycle.captures),
        **{name: getattr(cycle, name) for name in _UNCHANGED},
    )
    _check_plain([capture.details for capture in cycle.captures])
    text = msgspec.json.encode(stored, enc_hook=PurePath.as_posix)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _TABLES:
        table: EventTable | None = getattr(cycle.window, name)
        if table is not None:
            write_stream(table, folder / _table_file(name))
    with atomic_write(folder / RECORD) as part:
        part.write_bytes(text)


def load(folder: Path) -> EndedCycle:
    """Read a cycle that `store` wrote, possibly in another process or location.

    Raises:
        TraceFormatError: It is damaged.
        SchemaVersionError: A newer version of this package wrote it.
    """
    path = folder / RECORD
    for link in filter(Path.is_symlink, folder.rglob("*")):
        inside(folder, link)
    text = read_bytes(path)
    with reading(path, expected=_EXPECTED):
        head = msgspec.json.decode(text, type=_Head)
    info: TraceInfo = parse_record(path, bytes(head.info), TraceInfo)
    with reading(path, expected=_EXPECTED):
        stored = msgspec.json.decode(text, type=_Stored, dec_hook=lambda wanted, value: wanted(value))
        tables = {name: _read_table(folder / _table_file(name)) for name in _TABLES}
        captures = tuple(_with_files(c, [inside(folder, folder / file) for file in c.files]) for c in stored.captures)
    return EndedCycle(
        window=replace(stored.window, calls=tables["calls"], counters=tables["counters"]),
        info=info,
        captures=captures,
        **{name: getattr(stored, name) for name in _UNCHANGED},
    )


def _with_files(capture: NativeCapture, files: Iterable[Path]) -> NativeCapture:
    return replace(capture, files=tuple(files))


def _check_plain(value: Any) -> None:
    """Reject values that JSON would change silently: keys that are not text, objects, NaN and infinity."""
    match value:
        case None | str() | int():
            return
        case float() if math.isfinite(value):
            return
        case list() | tuple():
            for item in value:
                _check_plain(item)
            return
        case Mapping() if all(isinstance(key, str) for key in value):
            _check_plain(list(value.values()))
            return
    msg = f"Details of a capture must be plain data, so that they can be stored; found {value!r:.200}."
    raise TypeError(msg)


def _table_file(name: str) -> str:
    return f"{name}.arrow"


def _read_table(path: Path) -> EventTable | None:
    return read_stream(path, read_bytes(path), EVENT_SCHEMA) if path.exists() else None
