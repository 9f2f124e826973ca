"""Writes files atomically: under a temporary name first, then renamed.

A temporary file is locked while its process writes it. The lock ends with the process, so an unlocked temporary file
was left by a killed process, and any other may remove it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SUFFIX = ".unified_profiler.part"
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


@contextmanager
def atomic_write(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """Yield a temporary path next to `path`, renamed to it at the end and removed if anything fails.

    Args:
        path: The file to write.
        replace: Whether an existing file is replaced.

    Raises:
        FileExistsError: The file exists and `replace` is not set.
        OSError: The file cannot be written.
    """
    part, descriptor = _locked_part(path)
    try:
        yield part
        if replace:
            part.replace(path)
        else:
            _rename_if_free(part, path)
    finally:
        part.unlink(missing_ok=True)
        os.close(descriptor)


def remove_abandoned(folders: Iterable[Path]) -> None:
    """Remove temporary files of processes that have ended from some folders."""
    for folder in folders:
        for part in folder.glob(f".*{_SUFFIX}"):
            with suppress(OSError):
                _remove_if_abandoned(part)


def _remove_if_abandoned(part: Path) -> None:
    descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink()
    finally:
        os.close(descriptor)


def _locked_part(path: Path) -> tuple[Path, int]:
    """Create a temporary file next to a path and lock it, if the file system supports locks."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return part, descriptor
        os.close(descriptor)  # another process removed it as abandoned before it was locked


def _rename_if_free(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        part.replace(path)
