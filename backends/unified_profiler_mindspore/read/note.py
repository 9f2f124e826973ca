"""Reads and writes the note that a recorder leaves beside the native files: version, time window, file sizes and more.

MindSpore writes no version and no time window into its files, and does not report a full disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from unified_profiler.errors import TraceFormatError
from unified_profiler.model.foreign import read_bytes, reading

NAME = "unified_profiler.json"

Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class DirectionSpan(msgspec.Struct, frozen=True, array_like=True):
    """A time span in which all kernels had one direction, except in spans nested within it."""

    direction: str
    start_ns: int
    stop_ns: int
    optimizer: str | None = None
    """Class of the optimizer that was called."""


class OperatorCall(msgspec.Struct, frozen=True, array_like=True):
    """An operator of PyNative mode with the shapes that it was dispatched with."""

    operator: str
    inputs: tuple[tuple[Size, ...] | None, ...]
    """Shapes of the arguments, None for those that are not tensors."""
    result: tuple[Size, ...]


class OperatorCalls(msgspec.Struct, frozen=True):
    """The operators that were dispatched while recording."""

    distinct: tuple[OperatorCall, ...]
    order: tuple[Size, ...]
    """Positions in `distinct`, in the order of dispatch."""

    def __post_init__(self) -> None:
        """Raise a ValueError if a position is out of range."""
        if max(self.order, default=-1) >= len(self.distinct):
            msg = f"expected positions below {len(self.distinct)}, found {max(self.order)}"
            raise ValueError(msg)


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of one recording."""

    framework_version: str
    pid: int
    start_ns: int
    stop_ns: int
    sizes_bytes: dict[str, int]
    """Size of each native file when recording ended, by name."""
    spans: tuple[DirectionSpan, ...] | None = None
    """Gradient computations and parameter updates called by the program; None if not known."""
    bases: dict[str, list[str]] = {}
    """Names of the bases of optimizers and of user-defined classes that only rename a layer of MindSpore."""
    with_flops: bool = False
    calls: OperatorCalls | None = None
    """Operators of PyNative mode whose shapes MindSpore does not record; None if they were not observed."""


def write_note(note: Recording, folder: Path) -> Path:
    """Write the note and return its path."""
    path = folder / NAME
    path.write_bytes(msgspec.json.encode(note))
    return path


def read_note(path: Path) -> Recording:
    """Read the note.

    Raises:
        TraceFormatError: It is damaged.
    """
    with reading(path, expected="a note of unified_profiler"):
        return msgspec.json.decode(read_bytes(path), type=Recording)


def check_sizes(note: Recording, files: Sequence[Path]) -> None:
    """Compare the sizes of the files with those in the note.

    Raises:
        TraceFormatError: A file is missing, or longer or shorter than it was.
    """
    sizes = {file.name: file.stat().st_size for file in files if file.is_file()}
    for name, expected in note.sizes_bytes.items():
        if sizes.get(name) != expected:
            state = "is missing" if name not in sizes else f"has {sizes[name]} bytes"
            msg = f"{name} {state}, but had {expected} bytes when it was recorded. Copy it again, or record again."
            raise TraceFormatError(msg)
