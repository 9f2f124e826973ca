"""Reading a run whose process has not made traces of all it recorded: what it left behind is finished here.

Whether a process has ended is told by the lock that it held, not by its number, which may be another one's by now.
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
from unified_profiler.delivery.pending import PendingCycles, cycle_name, is_pending, load, put_away
from unified_profiler.delivery.run_writer import RankWriter
from unified_profiler.errors import SchemaVersionError, TraceFormatError, UnifiedProfilerError
from unified_profiler.model.foreign import inside
from unified_profiler.model.part_files import remove_abandoned
from unified_profiler.model.records import Failure, Manifest
from unified_profiler.model.run import MANIFEST, NATIVE, PENDING, Run, rank_folders, read_run
from unified_profiler.model.storage import read_record
from unified_profiler.model.trace import Trace
from unified_profiler.recording.faults import FaultLog

_STILL_RUNS = (
    "Cycles in {folder} that are no traces yet, and are missing here: {count}. The process that recorded them still "
    "runs, and makes the traces when it stops."
)

logger = logging.getLogger("unified_profiler")


def read_finished(path: Path) -> Run:
    """Read a run directory, and finish what processes that have ended left in it.

    The traces are written into the run; where that is not possible, they stay in memory. Cycles of a process that
    still runs are left alone, and a hint says so.

    Raises:
        TraceFormatError: The directory holds no run, or one of its files is damaged.
    """
    unfinished = {rank: folder for rank, folder in rank_folders(path).items() if (folder / PENDING).exists()}
    for folder in unfinished.values():
        inside(path, folder / PENDING)
        inside(path, folder / NATIVE)
    left = {rank: _finish_rank(rank, folder) for rank, folder in unfinished.items()}
    run = read_run(path)
    traces = [*run.traces, *(trace for rank in left.values() for trace in rank.traces)]
    manifests = {
        rank: left[rank].added_to(manifest) if rank in left else manifest for rank, manifest in run.manifests.items()
    }
    in_order = sorted(traces, key=lambda trace: (trace.info.rank, trace.info.cycle))
    return replace(run, traces=tuple(in_order), manifests=manifests)


class _Process(Enum):
    """What has become of the process that recorded."""

    RUNS = auto()
    ENDED = auto()
    UNKNOWN = auto()
    """The file system has no locks, or they may not be used: nothing is touched."""


@dataclass
class _Left:
    """What there is to say of a rank beside its files."""

    traces: list[Trace] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    def hint(self, text: str) -> None:
        self.hints.append(text)
        logger.warning("%s", text)

    @contextmanager
    def reported(self, cycle: Path) -> Iterator[None]:
        """Keep a cycle that cannot be read where it is; the rest of the run can be read without it."""
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


def _finish_rank(number: int, folder: Path) -> _Left:
    rank, left = RankWriter(folder), _Left()
    pending = PendingCycles(rank.pending)
    with _claimed(pending) as process:
        write = process is _Process.ENDED and (folder / MANIFEST).is_file() and os.access(folder, os.W_OK)
        waiting = pending.waiting()
        if process is _Process.RUNS:
            if waiting:
                left.hint(_STILL_RUNS.format(count=len(waiting), folder=folder))
            return left
        pending.announce()
        for cycle in waiting:
            with left.reported(cycle):
                _finish_cycle(rank, _loaded(cycle, rank=number), cycle, left, write=write)
        if write:
            _tidy(rank, pending)
    return left


def _loaded(folder: Path, *, rank: int) -> EndedCycle:
    """Load a cycle, which must be the one that its folder is named after: it decides where the trace is written."""
    cycle = load(folder)
    number, info = cycle.window.cycle, cycle.info
    if (info.rank, info.cycle, folder.name) != (rank, number, cycle_name(number)):
        found = f"cycle {number} of rank {info.rank}"
        msg = f"{folder} describes {found}, expected {folder.name} of rank {rank}. It was moved or damaged."
        raise TraceFormatError(msg)
    return cycle


@contextmanager
def _claimed(pending: PendingCycles) -> Iterator[_Process]:
    """Wait for other readers, keep them waiting, and say what has become of the process that recorded."""
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


def _finish_cycle(rank: RankWriter, cycle: EndedCycle, folder: Path, left: _Left, *, write: bool) -> None:
    faults, number = FaultLog(strict=False), cycle.window.cycle
    if rank.cycle_file(number).exists():  # whoever wrote it was killed before it was put away; it is never replaced
        if write:
            with suppress(OSError):
                put_away(folder, native=rank.native_folder(number) if cycle.keep_native else None)
        return
    try:
        backends = {capture.backend: registry.get(capture.backend) for capture in cycle.captures}
    except UnifiedProfilerError as error:
        left.hint(f"Cycle {number} in {rank.folder} waits for its backend: {error}")
        return
    native = rank.native_folder(number) if write else rank.pending / folder.name
    finished = finish(cycle, backends.__getitem__, faults, kept_in=native)
    if not is_pending(folder):  # somebody who could not see that it is held here has finished it
        return
    if write and _written(rank, finished, faults.failures):
        with suppress(OSError):  # the next reader does it all again
            put_away(folder, native=native if finished.keep_native else None)
    else:
        left.failures += faults.failures
        left.traces += [] if finished.trace is None else [finished.trace]


def _written(rank: RankWriter, finished: Finished, failures: Sequence[Failure]) -> bool:
    """Write a trace, and into the manifest what went wrong with it; say whether that was possible."""
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
    """Add failures, but for those that a reader added which died before it was done."""
    new = (failure for failure in failures if failure not in manifest.failures)
    return manifest.model_copy(update={"failures": (*manifest.failures, *new)})


def _tidy(rank: RankWriter, pending: PendingCycles) -> None:
    """Remove what is left of the folder; native files of a cycle in which the process ended may be of use.

    Seen from another machine a lock may mean nothing, and such a cycle may be one that is being recorded.
    """
    here = _manifest(rank).host == socket.gethostname()
    remove_abandoned([rank.folder])
    with suppress(OSError):
        rank.list_cycles()
        for folder in pending.cut_off() if here else ():
            _keep_native_files(folder, rank.folder / NATIVE / folder.name)
        pending.remove_all()


def _keep_native_files(folder: Path, native: Path) -> None:
    remove_abandoned([folder])
    written = any(file.is_file() for file in folder.rglob("*"))
    put_away(folder, native=native if written else None)
    if written:
        logger.warning("The process ended in the middle of a cycle; what it had written is in %s", native)
