"""From the end of a cycle to a Trace that is assembled, written and handed to the handlers."""

from __future__ import annotations

import json
import logging
import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow.compute as pc

from unified_profiler._cycle import Recorded
from unified_profiler._faults import FaultLog
from unified_profiler._version import __version__
from unified_profiler.capture.job import Job, this_job, this_machine
from unified_profiler.capture.steps import StepLog
from unified_profiler.capture.window import Window
from unified_profiler.config import Settings
from unified_profiler.model.assembly import assemble
from unified_profiler.model.records import CycleRecord, Manifest, StepSignal, TraceInfo
from unified_profiler.model.run import Run
from unified_profiler.model.run_writer import RunWriter, check_output_dir
from unified_profiler.model.schema import EventTable
from unified_profiler.model.trace import Trace

logger = logging.getLogger("unified_profiler")


class Handler(Protocol):
    """A function called with each finished trace."""

    def __call__(self, trace: Trace, /) -> object:
        """Do something with a trace; what it raises is kept as a failure."""
        ...


class Delivery:
    """Keeps the traces of one Profiler, and its run directory if it has one."""

    def __init__(self, settings: Settings, faults: FaultLog, *, handlers: Sequence[Handler]) -> None:
        self.traces: list[Trace] = []
        self.job: Job = this_job()
        self.step_signal: StepSignal | None = None
        self._settings = settings
        self._faults = faults
        self._handlers = handlers
        self._hints: list[str] = []
        self._writer: RunWriter | None = None
        self._started_ns = 0
        self._ended_ns: int | None = None
        self._files: list[CycleRecord] = []
        if settings.output_dir is not None and settings.level:
            check_output_dir(settings.output_dir)

    def open(self) -> None:
        """Make the run directory, the first time."""
        self._ended_ns = None
        if self._started_ns:
            return
        self._started_ns = time.time_ns()
        self.job = this_job()  # a trainer that starts the processes itself says it after the Profiler was made
        assemble(
            []
        )  # Arrow loads parts of itself (and pandas, if it is there) at first use: not inside a training step
        if self._settings.output_dir is not None:
            self._writer = RunWriter(self._settings.output_dir.absolute(), self.job.run_name(), self.job.rank)
            self._write_manifest(StepLog())

    def workdir(self, cycle: int) -> Path:
        """Return an empty directory for the native files of a cycle."""
        if self._settings.keep_native and self._writer is not None:
            folder = self._writer.native_folder(cycle)
            folder.mkdir(parents=True)
            return folder
        return Path(tempfile.mkdtemp(prefix="unified-profiler-"))

    def deliver(
        self,
        window: Window,
        recorded: Sequence[Recorded],
        *,
        complete: bool,
        steps: StepLog,
    ) -> None:
        """Assemble a trace, write it, and call the handlers."""
        with self._faults.guard("profiler", "assemble", cycle=window.cycle):
            native = [result.events for result in recorded]
            window = window.without_empty_step(native)
            events = assemble(
                native,
                calls=window.calls,
                waited=window.waited,
                own=window.to_events(),
                counters=window.counters,
                end_ns=window.end_ns,
                cycle=window.cycle,
                rank=self.job.rank,
                host=socket.gethostname(),
            )
            info = self._info(events, window, recorded, complete=complete)
            self._publish(Trace(events, info))
            self._write_manifest(steps)

    def adopt(self, trace: Trace, *, cycle: int) -> None:
        """Take in a trace recorded elsewhere."""
        update: dict[str, Any] = {"cycle": cycle, "step_signal": self.step_signal, "run": self._run_name()}
        self._publish(Trace(trace.events, trace.info.model_copy(update=update)))

    def hint(self, text: str) -> None:
        """Say once what would make the result better."""
        if text not in self._hints:
            self._hints.append(text)
            logger.warning("%s", text)

    def close(self, steps: StepLog) -> None:
        """Write what is known at the end."""
        self._ended_ns = time.time_ns()
        self._write_manifest(steps)

    def run(self, steps: StepLog) -> Run:
        """Return everything so far."""
        manifest = self._manifest(steps)
        return Run(
            path=None if self._writer is None else self._writer.path,
            traces=tuple(self.traces),
            manifests={self.job.rank: manifest},
            steps=steps.to_table(self.job.rank),
        )

    def _publish(self, trace: Trace) -> None:
        cycle = trace.info.cycle
        place = len(self.traces)
        self.traces.append(trace)
        if self._writer is not None:
            with self._faults.guard("output", "write", cycle=cycle):
                self.traces[place] = self._writer.write_trace(trace)
                self._files.append(CycleRecord(file=self._writer.cycle_file(cycle).name, info=trace.info))
        for handler in self._handlers:
            with self._faults.guard("handler", f"call {_name_of(handler)}", cycle=cycle):
                handler(trace)

    def _info(self, events: EventTable, window: Window, recorded: Sequence[Recorded], *, complete: bool) -> TraceInfo:
        steps = pc.min_max(events.column("step"))
        return TraceInfo(
            run=self._run_name(),
            cycle=window.cycle,
            rank=self.job.rank,
            world_size=self.job.world_size,
            host=socket.gethostname(),
            pid=os.getpid(),
            frameworks={
                **window.traced,
                **{r.backend.framework: r.capture.framework_version or "" for r in recorded},
            },
            complete=complete,
            step_signal=self.step_signal,
            start_ns=window.start_ns,
            end_ns=window.end_ns,
            first_step=steps["min"].as_py(),
            last_step=steps["max"].as_py(),
            event_count=len(events),
            hints=tuple(self._hints),
            native={r.backend.name: _native_metadata(r.events) for r in recorded},
        )

    def _run_name(self) -> str:
        return "" if self._writer is None else self._writer.run

    def _write_manifest(self, steps: StepLog) -> None:
        if self._writer is None:
            return
        with self._faults.guard("output", "write"):
            self._writer.write_manifest(self._manifest(steps))
            self._writer.write_steps(steps.to_table(self.job.rank))

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
            command=tuple(sys.argv),
            settings=json.loads(self._settings.model_dump_json(fallback=repr)),
            started_ns=self._started_ns,
            ended_ns=self._ended_ns,
            step_count=len(steps),
            cycles=tuple(self._files),
            failures=tuple(self._faults.failures),
            overhead=steps.overhead(),
            step_signal=self.step_signal,
            hints=tuple(self._hints),
        )


def _native_metadata(events: EventTable) -> dict[str, Any]:
    text = (events.schema.metadata or {}).get(b"native")
    return {} if text is None else dict(json.loads(text))


def _name_of(handler: Callable[..., object]) -> str:
    return getattr(handler, "__qualname__", type(handler).__name__)
