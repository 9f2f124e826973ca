"""Files that are written whole or not at all: under a temporary name first, then renamed.

A process that is killed leaves its temporary file behind. While one is being written it is locked, and the lock goes
with the process: so one that is not locked has been abandoned, and whoever comes by may remove it.
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
def written_whole(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """Give a temporary path beside `path`, renamed to it at the end and removed if anything fails.

    Args:
        path: The file to be written.
        replace: Whether a file of that name is replaced.

    Raises:
        FileExistsError: There is a file of that name, which is not to be replaced.
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
    """Remove the temporary files in some folders that processes left which have ended."""
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
    """Make a temporary file beside a path and lock it, where the file system has locks."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return part, descriptor
        os.close(descriptor)  # somebody took it for abandoned before it was locked


def _rename_if_free(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        part.replace(path)
