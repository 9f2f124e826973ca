"""Reads a run directory and finishes the cycles that ended processes left without making traces of them.

The lock of a process indicates whether it has ended. Its id does not, because another process may have it by now.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path

from unified_profiler import registry
from unified_profiler.delivery.finishing import EndedCycle, Finished, finish
from unified_profiler.delivery.pending import PendingCycles, is_pending, load, remove_cycle_folder
from unified_profiler.delivery.run_writer import RankWriter
from unified_profiler.errors import SchemaVersionError, TraceFormatError, UnifiedProfilerError
from unified_profiler.model.foreign import inside
from unified_profiler.model.part_files import remove_abandoned
from unified_profiler.model.records import Failure, Manifest
from unified_profiler.model.run import MANIFEST, NATIVE, PENDING, Run, cycle_name, rank_folders, read_run, sorted_traces
from unified_profiler.model.storage import read_record
from unified_profiler.model.trace import Trace
from unified_profiler.recording.faults import FaultLog

_STILL_RUNS = (
    "{count} cycles in {folder} are not traces yet and are missing here. The process that recorded them still runs, "
    "and makes the traces when it stops."
)

logger = logging.getLogger("unified_profiler")


def read_finished(path: Path) -> Run:
    """Read a run directory, and finish the cycles that ended processes left in it.

    The traces are written to the run, or stay in memory if that is not possible. Cycles of a process that still runs
    are not touched and result in a hint.

    Raises:
        TraceFormatError: The directory is not a run, or one of its files is damaged.
    """
    unfinished = {rank: folder for rank, folder in rank_folders(path).items() if (folder / PENDING).exists()}
    for folder in unfinished.values():
        inside(path, folder / PENDING)
        inside(path, folder / NATIVE)
    unwritten = {rank: _finish_rank(rank, folder) for rank, folder in unfinished.items()}
    run = read_run(path)
    traces = sorted_traces([*run.traces, *(trace for rank in unwritten.values() for trace in rank.traces)])
    manifests = {rank: unwritten.get(rank, _Unwritten()).added_to(m) for rank, m in run.manifests.items()}
    return replace(run, traces=traces, manifests=manifests)


class _Process(Enum):
    """State of the process that recorded."""

    RUNS = auto()
    ENDED = auto()
    UNKNOWN = auto()
    """The file system does not support locks, or they are not permitted: nothing is touched."""


@dataclass
class _Unwritten:
    """Results of a rank that are not in its files."""

    traces: list[Trace] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    def hint(self, text: str) -> None:
        self.hints.append(text)
        logger.warning("%s", text)

    @contextmanager
    def reported(self, cycle: Path) -> Iterator[None]:
        """Report a cycle that cannot be read, and leave it as it is; the rest of the run does not need it."""
        try:
            yield
        except SchemaVersionError:
            raise
        except TraceFormatError as error:
            self.failures.append(Failure(source="output", action="read what was set aside", error=str(error)))
            self.hint(f"{cycle} is left as it is, and is missing here: {error}")

    def added_to(self, manifest: Manifest) -> Manifest:
        hints = (*manifest.hints, *self.hints)
        return _with_failures(manifest, self.failures).model_copy(update={"hints": hints})


def _finish_rank(number: int, folder: Path) -> _Unwritten:
    rank, unwritten = RankWriter(folder), _Unwritten()
    pending = PendingCycles(rank.pending)
    with _locked(pending) as process:
        write = process is _Process.ENDED and (folder / MANIFEST).is_file() and os.access(folder, os.W_OK)
        waiting = pending.waiting()
        if process is _Process.RUNS:
            if waiting:
                unwritten.hint(_STILL_RUNS.format(count=len(waiting), folder=folder))
            return unwritten
        pending.warn_if_large()
        for cycle in waiting:
            with unwritten.reported(cycle):
                _finish_cycle(rank, _load_checked(cycle, rank=number), cycle, unwritten, write=write)
        if write:
            _clean_up(rank, pending)
    return unwritten


def _load_checked(folder: Path, *, rank: int) -> EndedCycle:
    """Load a cycle, whose number must match its folder's name: it determines where the trace is written."""
    cycle = load(folder)
    number, info = cycle.window.cycle, cycle.info
    if (info.rank, info.cycle, folder.name) != (rank, number, cycle_name(number)):
        actual = f"cycle {number} of rank {info.rank}"
        msg = f"{folder} describes {actual}, expected {folder.name} of rank {rank}. It was moved or damaged."
        raise TraceFormatError(msg)
    return cycle


@contextmanager
def _locked(pending: PendingCycles) -> Iterator[_Process]:
    """Exclude other readers, waiting for them if necessary, and yield the state of the process that recorded."""
    process = _Process.UNKNOWN
    try:
        with suppress(OSError):
            if not pending.reader.take():
                logger.info("Another process makes traces of the cycles in %s; waiting for it.", pending.folder)
                pending.reader.take(wait=True)
            process = _Process.ENDED if pending.owner.take() else _Process.RUNS
        yield process
    finally:
        pending.owner.release()
        pending.reader.release()


def _finish_cycle(rank: RankWriter, cycle: EndedCycle, folder: Path, unwritten: _Unwritten, *, write: bool) -> None:
    faults, number = FaultLog(strict=False), cycle.window.cycle
    if rank.cycle_file(number).exists():  # its writer was killed before it removed the folder; it is never replaced
        if write:
            with suppress(OSError):
                remove_cycle_folder(folder, native=rank.native_folder(number) if cycle.keep_native else None)
        return
    try:
        backends = {capture.backend: registry.get(capture.backend) for capture in cycle.captures}
    except UnifiedProfilerError as error:
        unwritten.hint(f"Cycle {number} in {rank.folder} waits for its backend: {error}")
        return
    native = rank.native_folder(number) if write else rank.pending / folder.name
    finished = finish(cycle, backends.__getitem__, faults, kept_in=native)
    if not is_pending(folder):  # a process that could not see our lock has finished it
        return
    if write and _write(rank, finished, faults.failures):
        with suppress(OSError):  # the next reader retries
            remove_cycle_folder(folder, native=native if finished.keep_native else None)
    else:
        unwritten.failures += faults.failures
        unwritten.traces += [] if finished.trace is None else [finished.trace]


def _write(rank: RankWriter, finished: Finished, failures: Sequence[Failure]) -> bool:
    """Write a trace, and its failures to the manifest; return whether that was possible."""
    try:
        if failures:
            rank.write_manifest(_with_failures(_manifest(rank), failures))
        if finished.trace is not None:
            rank.write_trace(finished.trace)
    except OSError as error:
        logger.info("%s cannot be written, so its traces stay in memory: %s", rank.folder, error)
        return False
    return True


def _manifest(rank: RankWriter) -> Manifest:
    return read_record(rank.folder / MANIFEST, Manifest)


def _with_failures(manifest: Manifest, failures: Sequence[Failure]) -> Manifest:
    """Add failures that the manifest lacks; a reader that was killed may have added some."""
    new = (failure for failure in failures if failure not in manifest.failures)
    return manifest.model_copy(update={"failures": (*manifest.failures, *new)})


def _clean_up(rank: RankWriter, pending: PendingCycles) -> None:
    """Remove the rest of the folder, but keep native files of a cycle in which the process ended.

    On another machine the lock may have no effect, and an incomplete cycle may still be recorded.
    """
    same_host = _manifest(rank).host == socket.gethostname()
    remove_abandoned([rank.folder])
    with suppress(OSError):
        rank.list_cycles()
        for folder in pending.incomplete() if same_host else ():
            _keep_native_files(folder, rank.folder / NATIVE / folder.name)
        pending.remove_folder()


def _keep_native_files(folder: Path, native: Path) -> None:
    remove_abandoned([folder])
    has_files = any(file.is_file() for file in folder.rglob("*"))
    remove_cycle_folder(folder, native=native if has_files else None)
    if has_files:
        logger.warning("The process ended in the middle of a cycle; its native files are in %s", native)
