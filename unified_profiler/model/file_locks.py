"""File locks between processes, which the operating system releases when the holder ends in any way."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}


class FileLock:
    """A `flock` lock on a file. It also excludes other holders in the same process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def create(self) -> None:
        """Create the file for others, who may lack the permission."""
        os.close(self._open(create=True))

    def take(self, *, wait: bool = False, create: bool = False) -> bool:
        """Acquire the lock; return False if another holder has it and `wait` is not set.

        Raises:
            OSError: The file does not exist, or the file system does not support locks.
        """
        descriptor = self._open(create=create)
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
        """Release the lock, if held. A forked child, which shares it, must call `forget` instead."""
        if self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the file in a forked child; the parent keeps the lock until it ends."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self, *, create: bool) -> int:
        try:
            return os.open(self._path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            return os.open(self._path, os.O_RDONLY)  # enough for a lock on local file systems
