"""Writes a run directory: one writer per rank, which never overwrites traces and never leaves partial files."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from unified_profiler.errors import OutputDirectoryError
from unified_profiler.model.clocks import CLOCKS, Clocks
from unified_profiler.model.part_files import remove_abandoned
from unified_profiler.model.records import CycleRecord, Manifest, TraceInfo
from unified_profiler.model.run import CYCLES, MANIFEST, NATIVE, PENDING, STEPS, Run, cycle_name
from unified_profiler.model.steps import StepFile
from unified_profiler.model.storage import read_parquet, write_parquet, write_text
from unified_profiler.model.text import storable
from unified_profiler.model.trace import Trace

logger = logging.getLogger("unified_profiler")


class RankWriter:
    """The files of one rank.

    Attributes:
        folder: Their location.
        pending: The folder of cycles that are not traces yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pending = folder / PENDING

    def native_folder(self, cycle: int) -> Path:
        """Return the location of the native files of a cycle, if they are kept."""
        return self.folder / NATIVE / cycle_name(cycle)

    def cycle_file(self, cycle: int) -> Path:
        """Return the file of a cycle."""
        return self.folder / f"{cycle_name(cycle)}.parquet"

    def write_trace(self, trace: Trace) -> Trace:
        """Write a trace and return one that reads its events from the file at first use.

        Raises:
            FileExistsError: The cycle already has a trace, which is never replaced.
        """
        file = self.cycle_file(trace.info.cycle)
        write_parquet(trace, file, replace=False)
        return read_parquet(file)

    def list_cycles(self) -> None:
        """Rewrite the list of finished cycles, because the process that appended to it may have been killed."""
        infos = [read_parquet(file).info for file in sorted(self.folder.glob("cycle-*.parquet"))]
        write_text(self.folder / CYCLES, "".join(map(self._line, infos)))

    def write_manifest(self, manifest: Manifest) -> None:
        """Write or replace the manifest, without the data in the files that grow with the run."""
        text = manifest.model_dump_json(indent=2, exclude={"cycles", "overhead"})
        write_text(self.folder / MANIFEST, text + "\n")

    def _line(self, info: TraceInfo) -> str:
        return CycleRecord(file=self.cycle_file(info.cycle).name, info=info).model_dump_json() + "\n"


def save_clocks(run: Run, clocks: Clocks | None) -> None:
    """Write newly estimated clocks to the run directory, if it exists and is writable."""
    if run.path is None or clocks is None or clocks.method == "host":
        return
    try:
        write_text(run.path / CLOCKS, clocks.model_dump_json(indent=2) + "\n")
    except OSError as error:
        logger.info("The clocks of %s were estimated, but cannot be saved in it: %s", run.path, error)


class RunWriter(RankWriter):
    """The files of this rank in a new run.

    All ranks of a job use the same name and so share one directory. A name that this rank has used before gets a
    number, on which the ranks agree if each of them starts its profilers in the same order.
    """

    def __init__(self, output_dir: Path, name: str, rank: int) -> None:
        self.run, self.path = _create_rank_folder(output_dir, name, f"rank-{rank:05d}")
        super().__init__(self.path / f"rank-{rank:05d}")
        self.steps = StepFile(self.folder / STEPS)
        if not rank:
            remove_abandoned(_written_folders(output_dir))

    def clear(self) -> None:
        """Remove the cycles and steps written so far, which turned out not to be steps of the program."""
        for file in (*self.folder.glob("cycle-*.parquet"), self.folder / CYCLES, self.folder / STEPS):
            file.unlink(missing_ok=True)
        shutil.rmtree(self.folder / NATIVE, ignore_errors=True)
        self.steps = StepFile(self.folder / STEPS)

    def remove(self) -> None:
        """Remove the files of this rank, and the run if no other rank has files in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            self.path.rmdir()

    def write_trace(self, trace: Trace) -> Trace:
        """Write a trace and append it to the list of finished cycles.

        Only the process that created the folder appends: in another one's folder the list may be a link or a pipe.
        """
        written = super().write_trace(trace)
        with (self.folder / CYCLES).open("a", encoding="utf-8") as cycles:
            cycles.write(self._line(trace.info))
        return written


def check_output_dir(path: Path, *, option: str = "output_dir") -> None:
    """Check early that a directory given by an option can be written to.

    Raises:
        OutputDirectoryError: It is a file, it and its nearest existing parent are not writable, or the path is invalid.
    """
    try:
        nearest = _nearest_existing(path.absolute())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        msg = f"`{option}` {storable(str(path))!r} cannot be used: {reason}. Choose a directory of your own."
        raise OutputDirectoryError(msg) from error
    if not nearest.is_dir():
        msg = f"`{option}` must be a directory, but {nearest} is a file. Choose another path or move the file."
        raise OutputDirectoryError(msg)
    if not os.access(nearest, os.W_OK | os.X_OK):
        msg = f"`{option}` {path} cannot be written: no permission for {nearest}. Choose a directory of your own."
        raise OutputDirectoryError(msg)
    try:
        Path(tempfile.mkdtemp(prefix=".unified-profiler-", dir=nearest)).rmdir()
    except OSError as error:  # permissions do not cover file systems that are full, read only or not for files
        msg = f"`{option}` {path} cannot be written: {error.strerror} in {nearest}. Choose another directory."
        raise OutputDirectoryError(msg) from error


def _nearest_existing(path: Path) -> Path:
    """Return the path or its nearest existing parent; raise if a part is not accessible, invalid or a broken link."""
    for folder in (path, *path.parents):
        try:
            folder.stat()
        except (FileNotFoundError, NotADirectoryError):
            if folder.is_symlink():
                raise
        else:
            return folder
    return path  # not even the root exists: using the path will fail


def _create_rank_folder(output_dir: Path, name: str, rank_folder: str) -> tuple[str, Path]:
    """Create the folder of a rank in the first run of the name that lacks it; return name and path of that run."""
    for number in itertools.count(1):
        run = name if number == 1 else f"{name}.{number}"
        try:
            (output_dir / run).mkdir(parents=True, exist_ok=True)
            (output_dir / run / rank_folder).mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            msg = f"The run directory {output_dir / run} cannot be created: {error}. Choose another `output_dir`."
            raise OutputDirectoryError(msg) from error
        return run, output_dir / run
    raise AssertionError  # the loop only ends by returning or raising


def _written_folders(output_dir: Path) -> set[Path]:
    """Return the folders of all runs that processes write files to, without links out of the directory."""
    ranks = list(output_dir.glob("*/rank-*"))
    cycles = output_dir.glob(f"*/rank-*/{PENDING}/cycle-*")
    root = output_dir.resolve()
    folders = {*ranks, *(folder.parent for folder in ranks), *cycles}
    return {folder for folder in folders if folder.resolve().is_relative_to(root)}
