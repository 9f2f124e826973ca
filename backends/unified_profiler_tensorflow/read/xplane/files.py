"""Finding XPlane files in the directories that TensorFlow writes: `plugins/profile/<run>/<host>.xplane.pb`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

SUFFIX = ".xplane.pb"
RUN_METADATA = "run_metadata"
"""The folder beside it in which the recorder leaves what sessions said about themselves."""
INDEX_NAME = "runs.json"
"""In that folder, beside the files of the runs: what RunMetadata itself does not say."""

_DEPTH = 2
_PROFILES = Path("plugins", "profile")
"""Where TensorFlow puts profiles into a log directory, a folder for each run."""
_MOST_ENTRIES = 20_000  # somebody may ask about a directory with a whole file system in it


def profiles_in(directory: Path) -> Iterator[Path]:
    """Yield the XPlane files in a directory, at most two levels down, and in log directories at most one level down.

    What lies deeper is somebody else's: a source tree with profiles among its test data is no profile.
    """
    log_directories = (_walk(folder / _PROFILES, 1) for folder in (directory, *_folders(directory)))
    entries = islice(chain(chain.from_iterable(log_directories), _walk(directory, _DEPTH)), _MOST_ENTRIES)
    yield from dict.fromkeys(path for path in entries if path.name.endswith(SUFFIX))


def sessions_in(directory: Path) -> list[Path]:
    """Return the RunMetadata files of our recorder in a directory."""
    folder = directory if directory.name == RUN_METADATA else directory / RUN_METADATA
    return sorted(folder.glob("run-*.pb")) if folder.is_dir() else []


def newest_run(files: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Return the files of the newest run, one per host, and the names of the others: TensorFlow names runs by time."""
    runs = sorted({file.parent for file in files}, key=lambda run: (run.name, run))
    return sorted(file for file in files if file.parent == runs[-1]), [run.name for run in runs[:-1]]


def _walk(directory: Path, folders: int) -> Iterator[Path]:
    yield from _entries(directory)
    if folders:
        for folder in _folders(directory):
            yield from _walk(folder, folders - 1)


def _folders(directory: Path) -> list[Path]:
    return [entry for entry in _entries(directory) if entry.is_dir() and not entry.is_symlink()]


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []
