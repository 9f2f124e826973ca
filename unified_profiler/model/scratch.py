"""Temporary directories; those of killed processes are removed by the next process that creates one."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

from unified_profiler.model.file_locks import FileLock

_PREFIX = "unified-profiler-"
_LOCK = "owner.lock"


class Scratch:
    """A temporary directory, private to the user and created at first use.

    It is locked as long as its process lives; an unlocked one was abandoned.
    """

    def __init__(self) -> None:
        self._root: Path | None = None
        self._lock: FileLock | None = None
        self._removal: weakref.finalize[[Path, int], Scratch] | None = None

    def folder(self, name: str) -> Path:
        """Return a path in the directory that does not exist yet."""
        if self._root is not None and not self._root.is_dir():  # the temporary files of the system were cleared
            self.remove()
        if self._root is None:
            _remove_abandoned(Path(tempfile.gettempdir()))
            self._root, self._lock = _locked_directory()
            self._removal = weakref.finalize(self, _remove, self._root, os.getpid())
        return self._root / name

    def remove(self) -> None:
        """Remove the directory and its content."""
        if self._removal is not None:
            self._removal()
        self._release()

    def keep(self, folder: Path) -> None:
        """Leave the directory to the user for good, if a given folder is in it."""
        if self._root is not None and folder.is_relative_to(self._root):
            (self._root / _LOCK).unlink(missing_ok=True)
            self.leave()

    def leave(self) -> None:
        """Give up the directory without removing it, as a forked child must."""
        if self._removal is not None:
            self._removal.detach()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.forget()
        self._root = self._lock = self._removal = None


def _locked_directory() -> tuple[Path, FileLock]:
    while True:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = FileLock(root / _LOCK)
        with suppress(OSError):
            if lock.take(create=True) and (root / _LOCK).exists():
                return root, lock
            lock.forget()  # another process removed it as abandoned before it was locked
            continue
        return root, lock  # a file system without locks


def _remove_abandoned(temporary: Path) -> None:
    for file in temporary.glob(f"{_PREFIX}*/{_LOCK}"):
        root, lock = file.parent, FileLock(file)
        with suppress(OSError):
            if root.is_symlink() or root.stat().st_uid != os.geteuid() or not lock.take():
                continue
            shutil.rmtree(root, ignore_errors=True)
            lock.forget()


def _remove(root: Path, process: int) -> None:
    if os.getpid() == process:  # not at the exit of a forked child
        shutil.rmtree(root, ignore_errors=True)
