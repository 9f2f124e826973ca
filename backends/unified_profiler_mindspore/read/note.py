"""The note that a recorder leaves beside the native files: what they do not say themselves, and how long they are.

MindSpore writes no version and no window into its files, and does not say when a disk was full.
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


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A time in which all kernels had one direction, where no span within it says otherwise."""

    direction: str
    start_ns: int
    stop_ns: int
    optimizer: str | None = None
    """Class of the optimizer that was called."""


class OperatorCall(msgspec.Struct, frozen=True, array_like=True):
    """An operator of PyNative mode with the shapes that it was dispatched with."""

    operator: str
    inputs: tuple[tuple[Size, ...] | None, ...]
    """Shapes of the arguments, None for those that are no tensors."""
    result: tuple[Size, ...]


class OperatorCalls(msgspec.Struct, frozen=True):
    """The operators that were dispatched while recording."""

    distinct: tuple[OperatorCall, ...]
    order: tuple[Size, ...]
    """Positions in `distinct`, in the order of dispatch."""

    def __post_init__(self) -> None:
        """Check the positions.

        Raises:
            ValueError: One is of no operator.
        """
        if max(self.order, default=-1) >= len(self.distinct):
            msg = f"expected positions below {len(self.distinct)}, found {max(self.order)}"
            raise ValueError(msg)


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One recording of this package."""

    framework_version: str
    pid: int
    start_ns: int
    stop_ns: int
    sizes_bytes: dict[str, int]
    """The native files and how long each was when recording ended."""
    spans: tuple[Span, ...] | None = None
    """When gradients were computed and parameters updated by calls of the program; None if it is not known."""
    bases: dict[str, list[str]] = {}
    """Classes of optimizers, and those of the program that are a layer of MindSpore by another name: their bases."""
    with_flops: bool = False
    calls: OperatorCalls | None = None
    """Operators of PyNative mode whose shapes MindSpore does not record; None if they were not observed."""


def write_note(note: Recording, folder: Path) -> Path:
    """Write the note and return where it is."""
    path = folder / NAME
    path.write_bytes(msgspec.json.encode(note))
    return path


def read_note(path: Path) -> Recording:
    """Read the note.

    Raises:
        TraceFormatError: It is damaged.
    """
    with reading(path, expected="a note that unified_profiler left"):
        return msgspec.json.decode(read_bytes(path), type=Recording)


def check_sizes(note: Recording, files: Sequence[Path]) -> None:
    """Compare the files with what the note says of them.

    Raises:
        TraceFormatError: One is missing, or longer or shorter than it was.
    """
    found = {file.name: file.stat().st_size for file in files if file.is_file()}
    for name, size in note.sizes_bytes.items():
        if found.get(name) != size:
            what = "is missing" if name not in found else f"has {found[name]} bytes"
            msg = f"{name} {what}, but had {size} bytes when it was recorded. Copy it again, or record again."
            raise TraceFormatError(msg)
