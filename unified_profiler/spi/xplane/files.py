"""Finds XPlane files in log directories: `plugins/profile/<run>/<host>.xplane.pb`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

SUFFIX = ".xplane.pb"

_DEPTH = 2
_PROFILES = Path("plugins", "profile")
"""The folder of a log directory that contains a folder for each run."""
_MAX_ENTRIES = 20_000  # the directory may contain a whole file system


def profiles_in(directory: Path) -> Iterator[Path]:
    """Yield the XPlane files in a directory, at most two levels down, and in log directories at most one level down.

    Deeper files are skipped: a source tree with XPlane files among its test data is not a profile.
    """
    log_directories = (_walk(folder / _PROFILES, 1) for folder in (directory, *_folders(directory)))
    entries = islice(chain(chain.from_iterable(log_directories), _walk(directory, _DEPTH)), _MAX_ENTRIES)
    yield from dict.fromkeys(path for path in entries if path.name.endswith(SUFFIX))


def newest_run(files: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Return the files of the newest run, one per host, and the names of the other runs. Runs are named by time."""
    runs = sorted({file.parent for file in files}, key=lambda run: (run.name, run))
    return sorted(file for file in files if file.parent == runs[-1]), [run.name for run in runs[:-1]]


def _walk(directory: Path, depth: int) -> Iterator[Path]:
    yield from _entries(directory)
    if depth:
        for folder in _folders(directory):
            yield from _walk(folder, depth - 1)


def _folders(directory: Path) -> list[Path]:
    return [entry for entry in _entries(directory) if entry.is_dir() and not entry.is_symlink()]


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []
