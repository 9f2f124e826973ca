"""Writing a run directory: one writer per rank, which never overwrites and never leaves half a file."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
from pathlib import Path

from unified_profiler.errors import OutputDirectoryError
from unified_profiler.model.clocks import CLOCKS, Clocks
from unified_profiler.model.part_files import remove_abandoned
from unified_profiler.model.records import CycleRecord, Manifest, TraceInfo
from unified_profiler.model.run import CYCLES, MANIFEST, NATIVE, PENDING, STEPS, Run
from unified_profiler.model.steps import StepFile
from unified_profiler.model.storage import read_parquet, write_parquet, write_text
from unified_profiler.model.text import storable
from unified_profiler.model.trace import Trace

logger = logging.getLogger("unified_profiler")


class RankWriter:
    """The files of one rank.

    Attributes:
        folder: Where they are.
        pending: Where cycles wait that are no traces yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pending = folder / PENDING

    def native_folder(self, cycle: int) -> Path:
        """Return where the native files of a cycle go if they are kept."""
        return self.folder / NATIVE / f"cycle-{cycle:05d}"

    def cycle_file(self, cycle: int) -> Path:
        """Return the file of a cycle."""
        return self.folder / f"cycle-{cycle:05d}.parquet"

    def write_trace(self, trace: Trace) -> Trace:
        """Write a trace and return one that reads its events back from the file when asked.

        Raises:
            FileExistsError: There is a trace of that cycle already, which is never replaced.
        """
        file = self.cycle_file(trace.info.cycle)
        write_parquet(trace, file, replace=False)
        return read_parquet(file)

    def list_cycles(self) -> None:
        """Replace the list of finished cycles: the process that appended to it may have been killed."""
        infos = [read_parquet(file).info for file in sorted(self.folder.glob("cycle-*.parquet"))]
        write_text(self.folder / CYCLES, "".join(map(self._line, infos)))

    def write_manifest(self, manifest: Manifest) -> None:
        """Write or replace the manifest, without what is in the files that grow with the run."""
        text = manifest.model_dump_json(indent=2, exclude={"cycles", "overhead"})
        write_text(self.folder / MANIFEST, text + "\n")

    def _line(self, info: TraceInfo) -> str:
        return CycleRecord(file=self.cycle_file(info.cycle).name, info=info).model_dump_json() + "\n"


def save_clocks(run: Run, clocks: Clocks | None) -> None:
    """Write newly estimated clocks into the run directory, if there is one and it can be written."""
    if run.path is None or clocks is None or clocks.method == "host":
        return
    try:
        write_text(run.path / CLOCKS, clocks.model_dump_json(indent=2) + "\n")
    except OSError as error:
        logger.info("The clocks of %s were estimated, but cannot be saved in it: %s", run.path, error)


class RunWriter(RankWriter):
    """The files of this rank in a run of its own.

    All ranks of a job ask for the same name and so meet in one directory. A name that this rank has used before gets
    a number, in which the ranks agree as long as each of them starts its profilers in the same order.
    """

    def __init__(self, output_dir: Path, name: str, rank: int) -> None:
        self.run, self.path = _claim(output_dir, name, f"rank-{rank:05d}")
        super().__init__(self.path / f"rank-{rank:05d}")
        self.steps = StepFile(self.folder / STEPS)
        if not rank:
            remove_abandoned(_folders_of_runs(output_dir))

    def clear(self) -> None:
        """Remove the cycles and steps written so far: they turned out to be no steps of the program."""
        for file in (*self.folder.glob("cycle-*.parquet"), self.folder / CYCLES, self.folder / STEPS):
            file.unlink(missing_ok=True)
        shutil.rmtree(self.folder / NATIVE, ignore_errors=True)
        self.steps = StepFile(self.folder / STEPS)

    def write_trace(self, trace: Trace) -> Trace:
        """Write a trace and append it to the list of finished cycles.

        Only the process that made the folder appends: in the folder of another one the list may be a link or a pipe.
        """
        written = super().write_trace(trace)
        with (self.folder / CYCLES).open("a", encoding="utf-8") as cycles:
            cycles.write(self._line(trace.info))
        return written


def check_output_dir(path: Path, *, option: str = "output_dir") -> None:
    """Find out early whether files can be written to a directory that an option names.

    Raises:
        OutputDirectoryError: It is a file, or neither it nor its nearest parent can be written to, or no path can be
            like that.
    """
    try:
        nearest = _nearest(path.absolute())
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


def _nearest(path: Path) -> Path:
    """Return what there is of a path: itself, or the nearest of its parents.

    Raises:
        OSError: A part of it may not be entered, is too long, or is a link that leads nowhere.
        ValueError: No path can have such a name.
    """
    for folder in (path, *path.parents):
        try:
            folder.stat()
        except (FileNotFoundError, NotADirectoryError):
            if folder.is_symlink():
                raise
        else:
            return folder
    return path  # not even the root is there: what is done with it will say so


def _claim(output_dir: Path, name: str, rank_folder: str) -> tuple[str, Path]:
    for number in itertools.count(1):
        run = name if number == 1 else f"{name}.{number}"
        try:
            (output_dir / run).mkdir(parents=True, exist_ok=True)
            (output_dir / run / rank_folder).mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            msg = f"The run directory {output_dir / run} cannot be made: {error}. Choose another `output_dir`."
            raise OutputDirectoryError(msg) from error
        return run, output_dir / run
    raise AssertionError  # the loop only ends by returning or raising


def _folders_of_runs(output_dir: Path) -> set[Path]:
    """Return the folders that processes write files to in all runs; a link that leads elsewhere is not followed."""
    ranks = list(output_dir.glob("*/rank-*"))
    cycles = output_dir.glob(f"*/rank-*/{PENDING}/cycle-*")
    root = output_dir.resolve()
    folders = {*ranks, *(folder.parent for folder in ranks), *cycles}
    return {folder for folder in folders if folder.resolve().is_relative_to(root)}
