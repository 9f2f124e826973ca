"""Temporary directories that a killed process does not leave behind for good: the next one removes them."""

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
    """The temporary directory of one Profiler, private to the user, made when it is first asked for.

    It is locked as long as its process lives; one that is not was abandoned.
    """

    def __init__(self) -> None:
        self._root: Path | None = None
        self._lock: FileLock | None = None
        self._removal: weakref.finalize[[Path, int], Scratch] | None = None

    def folder(self, name: str) -> Path:
        """Return a path in it that does not exist yet."""
        if self._root is not None and not self._root.is_dir():  # somebody has cleared the temporary directory
            self.remove()
        if self._root is None:
            _remove_abandoned(Path(tempfile.gettempdir()))
            self._root, self._lock = _locked_directory()
            self._removal = weakref.finalize(self, _remove, self._root, os.getpid())
        return self._root / name

    def remove(self) -> None:
        """Remove it and what is in it."""
        if self._removal is not None:
            self._removal()
        self._release()

    def keep(self, folder: Path) -> None:
        """Leave it to the user if a folder is in it that is to be kept: nobody removes it."""
        if self._root is not None and folder.is_relative_to(self._root):
            (self._root / _LOCK).unlink(missing_ok=True)
            self.leave()

    def leave(self) -> None:
        """Have no part in it any more, as a forked child."""
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
            if lock.take(make=True) and (root / _LOCK).exists():
                return root, lock
            lock.forget()  # somebody took it for abandoned before it was locked
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
    if os.getpid() == process:  # a forked child exits, too
        shutil.rmtree(root, ignore_errors=True)
