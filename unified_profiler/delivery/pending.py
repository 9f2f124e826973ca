"""Cycles that have ended and are no traces yet: their native files, and beside them all else that a trace is made of.

| in the folder `pending` of a rank | |
|---|---|
| `owner.lock` | held by the process that records |
| `reader.lock` | held by whoever finishes what a process that ended has left |
| `cycle-00000/<backend>/` | the native files, where the recorder wrote them |
| `cycle-00000/calls.arrow`, `counters.arrow` | API calls, readings of the hardware |
| `cycle-00000/cycle.json` | all the rest. It is written last: a cycle without it does not count |
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
from unified_profiler.model.part_files import written_whole
from unified_profiler.model.records import TraceInfo
from unified_profiler.model.schema import EVENT_SCHEMA, EventTable
from unified_profiler.model.storage import parse_record
from unified_profiler.recording.window import Window
from unified_profiler.spi import NativeCapture

RECORD = "cycle.json"
LONG_BYTES = 1 << 26
"""Native files that take about a second to be turned into traces."""
_TABLES = ("calls", "counters")
_EXPECTED = "the record of a cycle beside its native files"

logger = logging.getLogger("unified_profiler")


class PendingCycles:
    """The pending cycles of one rank.

    Attributes:
        folder: Where they are.
        owner: The lock of the process that records.
        reader: The lock of whoever finishes them after that.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = FileLock(folder / "owner.lock")
        self.reader = FileLock(folder / "reader.lock")

    def own(self) -> None:
        """Make the folder and hold it, as the process that records.

        Where a file system has no locks, others take complete cycles for left behind. They may finish them, and do no
        harm by it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.reader.make()
        if not self.owner.held:
            with suppress(OSError):
                self.owner.take(make=True)

    def folder_of(self, cycle: int) -> Path:
        """Return the folder of a cycle."""
        return self.folder / cycle_name(cycle)

    def waiting(self) -> list[Path]:
        """Return the folders of complete cycles, in order."""
        return sorted(record.parent for record in self.folder.glob(f"cycle-*/{RECORD}"))

    def cut_off(self) -> list[Path]:
        """Return the folders of cycles in which the process ended, in order."""
        return sorted(path for path in self.folder.glob("cycle-*") if not is_pending(path))

    def announce(self) -> None:
        """Say that finishing them takes a while, if it does."""
        waiting = self.waiting()
        size = sum(file.stat().st_size for folder in waiting for file in folder.rglob("*") if file.is_file())
        if size >= LONG_BYTES:
            logger.warning(
                "Making traces of what was recorded takes a while: %d cycles, %.0f MB.", len(waiting), size / 1e6
            )

    def remove_all(self) -> None:
        """Remove what is left of the folder when nothing is pending."""
        if not any(self.folder.glob("cycle-*")):
            shutil.rmtree(self.folder, ignore_errors=True)


def cycle_name(cycle: int) -> str:
    """Return the name of the folder of a cycle."""
    return f"cycle-{cycle:05d}"


def is_pending(folder: Path) -> bool:
    """Say whether a folder holds a complete cycle that is no trace yet."""
    return (folder / RECORD).exists()


def put_away(folder: Path, *, native: Path | None) -> None:
    """Take the folder of a cycle away, once there is a trace of it.

    Args:
        folder: The folder.
        native: Where its native files go; None to remove them. They go first, in one move: at no moment is a cycle
            pending whose files are gone.
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
    """The part of a record that tells which version wrote it."""

    info: msgspec.Raw


class _Stored(_Head, frozen=True, kw_only=True):
    """A cycle as it is written; paths are relative to its folder."""

    window: Window
    captures: tuple[NativeCapture, ...]
    step: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] | None
    keep_native: bool
    options: tuple[str, ...] = ()
    max_events: Annotated[int, msgspec.Meta(ge=0)] = 0


def store(cycle: EndedCycle, folder: Path) -> None:
    """Write a cycle down beside its native files, whole or not at all.

    Raises:
        TypeError: The details of a capture are no plain data.
        ValueError: A native file is not in the folder, or a text is no Unicode.
        OSError: It cannot be written.
    """
    stored = _Stored(
        info=msgspec.Raw(cycle.info.model_dump_json().encode()),
        window=replace(cycle.window, calls=None, counters=None),
        captures=tuple(_with_files(c, [file.relative_to(folder) for file in c.files]) for c in cycle.captures),
        step=cycle.step,
        keep_native=cycle.keep_native,
        options=cycle.options,
        max_events=cycle.max_events,
    )
    _check_plain([capture.details for capture in cycle.captures])
    text = msgspec.json.encode(stored, enc_hook=PurePath.as_posix)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _TABLES:
        _write_table(getattr(cycle.window, name), folder / _table_file(name))
    with written_whole(folder / RECORD) as part:
        part.write_bytes(text)


def load(folder: Path) -> EndedCycle:
    """Read what `store` wrote, in whichever process and place.

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
        step=stored.step,
        keep_native=stored.keep_native,
        options=stored.options,
        max_events=stored.max_events,
    )


def _with_files(capture: NativeCapture, files: Iterable[Path]) -> NativeCapture:
    return replace(capture, files=tuple(files))


def _check_plain(value: Any) -> None:
    """Refuse what JSON would change without a word: keys that are no texts, objects, numbers that are none."""
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
    msg = f"Details of a capture must be plain data, so that they can be written down; found {value!r:.200}."
    raise TypeError(msg)


def _table_file(name: str) -> str:
    return f"{name}.arrow"


def _write_table(table: EventTable | None, path: Path) -> None:
    if table is not None:
        write_stream(table, path)


def _read_table(path: Path) -> EventTable | None:
    return read_stream(path, read_bytes(path), EVENT_SCHEMA) if path.exists() else None
