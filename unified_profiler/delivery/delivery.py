"""Delivers ended cycles: assembles a Trace, writes it to the run directory and passes it to the handlers."""

from __future__ import annotations

import logging
import os
import platform
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from unified_profiler._version import __version__
from unified_profiler.config import Settings
from unified_profiler.delivery.deferral import Deferral
from unified_profiler.delivery.finishing import EndedCycle, finish
from unified_profiler.delivery.pending import is_pending, load, remove_cycle_folder
from unified_profiler.delivery.run_writer import RunWriter, check_output_dir
from unified_profiler.model.assembly import assemble
from unified_profiler.model.nesting import with_column
from unified_profiler.model.option_effects import OPTIONS
from unified_profiler.model.records import Manifest, StepSignal, TraceInfo
from unified_profiler.model.run import Run, completed, cycle_name, cycle_records
from unified_profiler.model.scratch import Scratch
from unified_profiler.model.storage import read_parquet
from unified_profiler.model.trace import Trace
from unified_profiler.recording.cycle import Cycle
from unified_profiler.recording.faults import FaultLog
from unified_profiler.recording.host import command_line, processor_name
from unified_profiler.recording.job import Job, this_job, this_machine
from unified_profiler.recording.steps import StepLog
from unified_profiler.recording.window import Window
from unified_profiler.spi import Backend

logger = logging.getLogger("unified_profiler")


class Handler(Protocol):
    """A function called with each finished trace."""

    def __call__(self, trace: Trace, /) -> object:
        """Handle a trace; an exception is recorded as a failure."""
        ...


class Delivery:
    """The traces of one Profiler, and its run directory if it has one."""

    def __init__(self, settings: Settings, faults: FaultLog, *, handlers: Sequence[Handler]) -> None:
        self.traces: list[Trace] = []
        self.job: Job = this_job()
        self.step_signal: StepSignal | None = None
        self.program_started_ns: int | None = None
        """Start of the script, if the profiler was started for it; else the run begins when the profiler starts."""
        self.start_up_ns: int | None = None
        self.exit_code: int | None = None
        """Exit code of the script, if the profiler was started for it."""
        self._settings = settings
        self._faults = faults
        self._handlers = handlers
        self._hints: list[str] = []
        self._writer: RunWriter | None = None
        self._deferral: Deferral | None = None
        self._scratch = Scratch()
        self._backends: dict[str, Backend] = {}
        self._started_ns = 0
        self._ended_ns: int | None = None
        if settings.output_dir is not None and settings.level:
            check_output_dir(settings.output_dir)

    def open(self) -> None:
        """Create the run directory at the first call."""
        self._ended_ns = None
        if not self._started_ns:
            self._create_run()
        if self._settings.deliver == "deferred" and (self._deferral is None or self._writer is None):
            pending = self._scratch.folder("pending") if self._writer is None else self._writer.pending
            self._deferral = Deferral(pending)

    def workdir(self, cycle: int) -> Path:
        """Return an empty directory for the native files of a cycle."""
        if self._deferral is not None:
            return self._deferral.workdir(cycle)
        if self._settings.keep_native and self._writer is not None:
            folder = self._writer.native_folder(cycle)
        else:
            folder = self._scratch.folder(cycle_name(cycle))
        folder.mkdir(parents=True)
        return folder

    def deliver(self, cycle: Cycle, window: Window, *, complete: bool, steps: StepLog) -> None:
        """Make the trace of an ended cycle, write it and call the handlers; or store the cycle for later."""
        ended = EndedCycle(
            window=window,
            info=self._info(window, complete=complete),
            captures=tuple(cycle.captures),
            step=cycle.step,
            keep_native=self._settings.keep_native,
            options=tuple(name for name in OPTIONS if getattr(self._settings, name)),
            max_events=self._settings.max_events or 0,
        )
        self._backends |= cycle.backends
        if self._deferral is None or not self._defer(ended, self._deferral):
            self._finish(ended, cycle.workdir)
        self._write_manifest(steps)

    def end_pending(self, *, finish: bool = True) -> None:
        """Make the traces of the stored cycles, or leave that to readers of the run."""
        if self._deferral is not None and not finish and self._writer is not None:
            self._deferral.release()
        elif self._deferral is not None:
            with closing(self._deferral.take()) as cycles:
                for number, folder in cycles:
                    self._finish_deferred(number, folder)
            self.traces.sort(key=lambda trace: trace.info.cycle)
        self._scratch.remove()

    def forget(self) -> None:
        """Remove all traces and written steps, as if nothing had been recorded."""
        self.traces.clear()
        if self._deferral is not None:
            self._deferral.clear()
        if self._writer is not None:
            with self._faults.guard("output", "remove what was recorded before"):
                self._writer.clear()

    def discard(self) -> None:
        """Remove the run, in which nothing was recorded."""
        self.traces.clear()
        if self._writer is not None:
            self._writer.remove()
            self._writer = None

    def leave_to_parent(self) -> None:
        """Give up the run in a forked child."""
        self._scratch.leave()
        if self._deferral is not None:
            self._deferral.leave_to_parent()

    def adopt(self, trace: Trace, *, cycle: int) -> None:
        """Add a trace recorded elsewhere."""
        update: dict[str, Any] = {"cycle": cycle, "step_signal": self.step_signal, "run": self._run_name()}
        events = with_column(trace.events, "cycle", pa.repeat(cycle, len(trace.events)))
        self._publish(Trace(events, trace.info.model_copy(update=update)))

    def hint(self, text: str) -> None:
        """Record and log a hint on how to get a better result, once."""
        if text not in self._hints:
            self._hints.append(text)
            logger.warning("%s", text)

    def close(self, steps: StepLog) -> None:
        """Write the final manifest."""
        self._ended_ns = time.time_ns()
        self._write_manifest(steps)

    def run(self, steps: StepLog) -> Run:
        """Return the run so far."""
        table = steps.to_table(self.job.rank)
        return Run(
            path=None if self._writer is None else self._writer.path,
            traces=tuple(self.traces),
            manifests={self.job.rank: completed(self._manifest(steps), cycle_records(self.traces), table)},
            steps=table,
        )

    def _create_run(self) -> None:
        self._started_ns = self.program_started_ns or time.time_ns()
        self.job = this_job()  # again: a trainer may start the processes after the Profiler was created
        # Arrow loads some modules (and pandas, if installed) at first use, which must not happen in a training step
        assemble([])
        if self._settings.output_dir is not None:
            self._writer = RunWriter(self._settings.output_dir.absolute(), self.job.run_name(), self.job.rank)
            self._write_manifest(StepLog())

    def _defer(self, cycle: EndedCycle, deferral: Deferral) -> bool:
        with self._faults.guard("output", "set aside", cycle=cycle.window.cycle) as outcome:
            deferral.put(cycle)
        return not outcome.failed

    def _finish_deferred(self, number: int, folder: Path) -> None:
        with self._faults.guard("output", "read what was set aside", cycle=number):
            if is_pending(folder):
                self._finish(load(folder), folder)
            elif self._writer is not None:  # already finished, by a process that could not see our lock
                self._publish(read_parquet(self._writer.cycle_file(number)))

    def _finish(self, cycle: EndedCycle, workdir: Path | None) -> None:
        kept_in = workdir
        if self._deferral is not None and self._writer is not None:
            kept_in = self._writer.native_folder(cycle.window.cycle)
        finished = finish(cycle, self._backends.__getitem__, self._faults, kept_in=kept_in)
        written = finished.trace is None or self._publish(finished.trace)
        if workdir is not None and (written or self._deferral is None):  # otherwise a reader of the run retries
            with self._faults.guard("output", "move or remove native files", cycle=cycle.window.cycle):
                remove_cycle_folder(workdir, native=kept_in if finished.keep_native else None)
                if finished.keep_native:
                    self._scratch.keep(workdir)

    def _publish(self, trace: Trace) -> bool:
        """Write a trace if there is a run directory, and call the handlers; return False if writing failed."""
        cycle, failed = trace.info.cycle, False
        self.traces.append(trace)
        if self._writer is not None and trace.file is None:
            with self._faults.guard("output", "write", cycle=cycle) as outcome:
                self.traces[-1] = self._writer.write_trace(trace)
            failed = outcome.failed
        for handler in self._handlers:
            with self._faults.guard("handler", f"call {_name_of(handler)}", cycle=cycle):
                handler(trace)
        return not failed

    def _info(self, window: Window, *, complete: bool) -> TraceInfo:
        """Return the part of a trace's info that does not depend on its events."""
        return TraceInfo(
            run=self._run_name(),
            cycle=window.cycle,
            rank=self.job.rank,
            world_size=self.job.world_size,
            host=socket.gethostname(),
            pid=window.pid,
            complete=complete,
            step_signal=self.step_signal,
            start_ns=window.start_ns,
            end_ns=window.end_ns,
            hints=tuple(self._hints),
        )

    def _run_name(self) -> str:
        return "" if self._writer is None else self._writer.run

    def _write_manifest(self, steps: StepLog) -> None:
        if self._writer is None:
            return
        with self._faults.guard("output", "write"):
            self._writer.steps.append(steps.to_table(self.job.rank, since=self._writer.steps.step_count))
            self._writer.write_manifest(self._manifest(steps))

    def _manifest(self, steps: StepLog) -> Manifest:
        return Manifest(
            profiler_version=__version__,
            run=self._run_name(),
            rank=self.job.rank,
            local_rank=self.job.local_rank,
            world_size=self.job.world_size,
            job=self.job.id,
            host=socket.gethostname(),
            machine=this_machine(),
            pid=os.getpid(),
            python=platform.python_version(),
            platform=platform.platform(),
            processor=processor_name(),
            command=command_line() if self._settings.record_command else (),
            settings=self._settings.recorded(),
            started_ns=self._started_ns,
            ended_ns=self._ended_ns,
            start_up_ns=self.start_up_ns,
            exit_code=self.exit_code,
            step_count=len(steps),
            failures=tuple(self._faults.failures),
            step_signal=self.step_signal,
            hints=tuple(self._hints),
        )


def _name_of(handler: Callable[..., object]) -> str:
    return getattr(handler, "__qualname__", type(handler).__name__)
