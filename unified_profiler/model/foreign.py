"""Reads untrusted files safely: size limits, regular files only, and `TraceFormatError` for anything wrong with them.

Every reader opens files through `read_bytes`, `read_chunks` or `first_bytes`, which limit how much is read, and
interprets their content within `reading`, which names the file in every error.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unified_profiler.errors import TraceFormatError, UnifiedProfilerError
from unified_profiler.presentation.units import format_bytes, parse_bytes

LIMIT_VARIABLE = "UNIFIED_PROFILER_MAX_BYTES"
"""Environment variable with the limit of bytes read from one file, after decompression."""

_LIMIT = 4 << 30
_PACKED_RATIO = 100
"""Traces compress by a factor of 10 to 30; a file that exceeds this factor is meant to exhaust memory."""
_PACKED_ALLOWANCE = 256 << 20
_RAISE_LIMIT = f"allow more with {LIMIT_VARIABLE}=32GB"
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 22
_PEEK = 1 << 16
"""Bytes of a compressed file that are read to get its first bytes, however long its header is."""


@contextmanager
def reading(path: Path | str, *, expected: str = "a file that a profiler wrote") -> Iterator[None]:
    """Convert every exception of a block that interprets the content of a file to a `TraceFormatError`.

    Args:
        path: The file.
        expected: The expected kind of file, with an article.

    Raises:
        TraceFormatError: The block raised an exception that is not one of this package.
    """
    try:
        yield
    except UnifiedProfilerError:
        raise
    except MemoryError as error:
        msg = f"{path} asks for more memory than there is; expected {expected}. It is damaged, or too large to read."
        raise TraceFormatError(msg) from error
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:500]
        msg = f"{path} cannot be read; expected {expected}. It is damaged, cut off or of another kind ({reason})."
        raise TraceFormatError(msg) from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, decompressed if it is gzip.

    Raises:
        TraceFormatError: It is not a regular file, cannot be read, is damaged gzip, or is larger than allowed.
    """
    with _opened(path) as file:
        check_size(path, os.fstat(file.fileno()).st_size)
        if not _is_packed(file):
            return file.read()
        content = io.BytesIO()
        content.writelines(_decompressed(path, file, _CHUNK))
        return content.getvalue()


def read_chunks(path: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a file in pieces of at most `size` bytes, decompressed if it is gzip.

    Raises:
        TraceFormatError: It is not a regular file, cannot be read, is damaged gzip, or is larger than allowed.
    """
    with _opened(path) as file:
        check_size(path, os.fstat(file.fileno()).st_size)
        if _is_packed(file):
            yield from _decompressed(path, file, size)
        else:
            yield from iter(lambda: file.read(size), b"")


def first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, decompressed if it is gzip.

    Raises:
        TraceFormatError: It is not a regular file, cannot be read, or is damaged gzip.
    """
    with _opened(path) as file:
        if not _is_packed(file):
            return file.read(count)
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(file.read(_PEEK), count)


def peek_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, decompressed if it is gzip; empty if it cannot be read."""
    try:
        return first_bytes(path, count)
    except TraceFormatError:
        return b""


def size_limit() -> int:
    """Return how many bytes may be read from one file.

    Raises:
        ConfigurationError: The environment variable is not a size.
    """
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    return parse_bytes(text, option=LIMIT_VARIABLE) if text else _LIMIT


def check_size(path: Path | str, size: int) -> None:
    """Raise TraceFormatError if the content of a file takes more memory than allowed."""
    if size > size_limit():
        raise _too_large(path, f"holds {format_bytes(size)}", size_limit())


def check_regular(path: Path) -> None:
    """Reject anything but a regular file: reading a device may never end, and a pipe can be read only once.

    Raises:
        TraceFormatError: It is not a regular file, or does not exist.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        msg = f"{path} cannot be read: {error}"
        raise TraceFormatError(msg) from error
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
        msg = f"{path} is {kind}; expected a regular file. Copy its content to a file and read that."
        raise TraceFormatError(msg)


def inside(root: Path, path: Path) -> Path:
    """Return a path in an untrusted directory, such as a run, after checking that no link leads out of it.

    Raises:
        TraceFormatError: A link leads out of the directory.
    """
    with reading(path, expected=f"a file in {root}"):
        if path.resolve().is_relative_to(root.resolve()):
            return path
    msg = f"{path} leads out of {root}: expected a file in it, found a link. Put the file itself there."
    raise TraceFormatError(msg)


@contextmanager
def _opened(path: Path) -> Iterator[io.FileIO]:
    check_regular(path)
    try:
        with path.open("rb", buffering=0) as file:  # a buffer would copy the content once more
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        msg = f"{path} is a damaged gzip file, perhaps cut off while it was written or copied: {error}"
        raise TraceFormatError(msg) from error
    except OSError as error:
        msg = f"{path} cannot be read: {error}"
        raise TraceFormatError(msg) from error


def _is_packed(file: io.FileIO) -> bool:
    start = file.read(len(_GZIP))
    file.seek(0)
    return start == _GZIP


def _decompressed(path: Path, file: io.FileIO, size: int) -> Iterator[bytes]:
    limit = min(size_limit(), max(_PACKED_ALLOWANCE, _PACKED_RATIO * os.fstat(file.fileno()).st_size))
    total = 0
    with io.BufferedReader(file, _PEEK) as buffered, gzip.GzipFile(fileobj=buffered) as packed:
        while chunk := packed.read(size):
            total += len(chunk)
            if total > limit:
                advice = "unpack it and read that" if limit < size_limit() else _RAISE_LIMIT
                raise _too_large(path, f"unpacks to more than {format_bytes(limit)}", limit, advice)
            yield chunk


def _too_large(path: Path | str, size: str, limit: int, advice: str = _RAISE_LIMIT) -> TraceFormatError:
    return TraceFormatError(
        f"{path} {size}; expected at most {format_bytes(limit)}, since a damaged or hostile file could fill the "
        f"memory. If the file is sound, {advice}."
    )
