"""Locks on files: held by a process, seen by all others, and gone with the process, whatever way it ends."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

_CANNOT_BE_WRITTEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class FileLock:
    """A lock on a file, which the holder makes if need be; `flock`, so it also excludes others in the same process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether it is held here."""
        return self._descriptor is not None

    def make(self) -> None:
        """Make the file, so that others need not: they may not be allowed to."""
        os.close(self._open(make=True))

    def take(self, *, wait: bool = False, make: bool = False) -> bool:
        """Take it and say whether that was possible; False if somebody else holds it and `wait` is not set.

        Raises:
            OSError: There is no such file, or the file system knows no locks.
        """
        descriptor = self._open(make=make)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let go of it, if it is held here. In a forked child, which shares it, this must be `forget`."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the file: in a forked child, the parent still holds the lock, and nobody does once it has ended."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self, *, make: bool) -> int:
        try:
            return os.open(self._path, os.O_RDWR | (os.O_CREAT if make else 0), 0o666)
        except OSError as error:
            if error.errno not in _CANNOT_BE_WRITTEN:
                raise
            return os.open(self._path, os.O_RDONLY)  # enough for a lock on local file systems
