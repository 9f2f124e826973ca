"""What is in a file, packed or not, with errors that say what is wrong with it."""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from unified_profiler.errors import TraceFormatError

_OPENING = 1 << 16
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_OWN_JSON = re.compile(rb'\s*\{\s*"unified_profiler"\s*:')


@dataclass(frozen=True)
class Opening:
    """The first bytes of a file, unpacked."""

    path: Path
    start: bytes
    compressed: bool

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet, by content or by its name."""
        return self.start.startswith(_PARQUET) or self.path.suffix == ".parquet"

    @property
    def is_own_json(self) -> bool:
        """Whether it is chrome JSON that this package wrote."""
        return _OWN_JSON.match(self.start) is not None

    @property
    def is_json(self) -> bool:
        """Whether it looks like any JSON array or object."""
        return self.start.lstrip()[:1] in {b"{", b"["}


def look_into(path: Path) -> Opening:
    """Read the first bytes of a file.

    Raises:
        TraceFormatError: It cannot be read, is empty, or is broken gzip.
    """
    start = _read(path, packed=False, size=_OPENING)
    compressed = start.startswith(_GZIP)
    if compressed:
        start = _read(path, packed=True, size=_OPENING)
    if not start.strip():
        msg = f"{path} is empty. The program that wrote it may have been stopped before it was done; record again."
        raise TraceFormatError(msg)
    return Opening(path, start, compressed)


def contents(opening: Opening) -> bytes:
    """Read a whole file, unpacked.

    Raises:
        TraceFormatError: It cannot be read, or is broken gzip.
    """
    return _read(opening.path, packed=opening.compressed, size=-1)


def _read(path: Path, *, packed: bool, size: int) -> bytes:
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            return file.read(size)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        msg = f"{path} is a damaged gzip file, perhaps cut off while it was written or copied: {error}"
        raise TraceFormatError(msg) from error
    except OSError as error:
        msg = f"{path} cannot be read: {error}"
        raise TraceFormatError(msg) from error
