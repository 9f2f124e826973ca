"""Reading a case, using what came of it, and judging whether that went as it must."""

from __future__ import annotations

import logging
import resource
import shutil
import socket
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import pyarrow as pa

import unified_profiler as up
from tests.fuzz.cases import Case, make
from tests.fuzz.own_seeds import HOST
from tests.fuzz.seeds import seeds
from tests.fuzz.trees import write
from unified_profiler import registry
from unified_profiler.errors import TraceFormatError, UnifiedProfilerError
from unified_profiler.model.schema import EVENT_SCHEMA

OK, TYPED = "ok", "typed"
CPU_SECONDS = 20
MEMORY_BYTES = 1 << 29
"""More than this for a case of a few kilobytes is a finding."""
_ROOM_BYTES = 3 << 30
_USED_IN_FULL = 16
"""Every so many cases are also analyzed and exported, which takes longer than reading them."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case."""

    kind: str
    """`OK`, `TYPED`, or what sort of finding it is."""
    text: str = ""
    """One line by which findings are told apart."""
    details: str = ""
    seconds: float = 0.0
    """What the processor worked for it."""


class Room:
    """A directory in which cases are read, one after the other.

    Args:
        folder: An empty directory.
    """

    def __init__(self, folder: Path) -> None:
        self._case, self._outside, self._out = folder / "case", folder / "outside", folder / "out"
        self._lay_out()

    def _lay_out(self) -> None:
        shutil.rmtree(self._outside, ignore_errors=True)
        (self._outside / "folder").mkdir(parents=True)
        (self._outside / "secret").write_bytes(b'{"traceEvents": []}')
        (self._outside / "folder" / "cycle-00000.parquet").write_bytes(b"PAR1")
        self._untouched = self._seen_outside()

    def judge(self, name: str, number: int) -> Outcome:
        """Make a case and read it."""
        begun = time.process_time()
        return replace(self._judged(name, number), seconds=time.process_time() - begun)

    def _judged(self, name: str, number: int) -> Outcome:
        case = make(name, number)
        shutil.rmtree(self._out, ignore_errors=True)
        shutil.rmtree(self._case, ignore_errors=True)
        self._case.mkdir()
        write(case.tree, self._case)
        finished = self._finished()
        cpu, memory = time.process_time(), _peak_bytes()
        outcome = self._outcome(case, name, number)
        cpu, memory = time.process_time() - cpu, _peak_bytes() - memory
        if self._seen_outside() != self._untouched:
            self._lay_out()  # the next case is judged by itself
            return Outcome("changed what lies outside", details=f"{outcome.text}\n{outcome.details}")
        if not finished.items() <= self._finished().items():
            return Outcome("changed a finished cycle", details=f"{outcome.text}\n{outcome.details}")
        if cpu > CPU_SECONDS or memory > MEMORY_BYTES:
            return Outcome("slow or large", f"{cpu:.0f} s, {memory >> 20} MB", outcome.details)
        return outcome

    def _outcome(self, case: Case, name: str, number: int) -> Outcome:
        with warnings.catch_warnings(record=True) as noticed:
            warnings.simplefilter("always")
            outcome = self._used(case, name, number)
        if noticed:
            said = noticed[0]
            place = f"{said.category.__name__} at {Path(said.filename).name}:{said.lineno}"
            return Outcome("warning", place, str(said.message))
        return outcome

    def _used(self, case: Case, name: str, number: int) -> Outcome:
        is_seed = number < len(seeds(name))
        try:
            run = up.read(self._case / case.read)
            for trace in run.traces:
                trace.events.validate(full=True)
                if not trace.events.schema.equals(EVENT_SCHEMA) or len(trace) < 0:
                    return Outcome("another schema")
            if number % _USED_IN_FULL == 0 or is_seed:
                self._use_in_full(run)
        except UnifiedProfilerError as error:
            return Outcome("typed error for a seed", str(error)) if is_seed else self._judge_error(error, case)
        except Exception as error:  # noqa: BLE001  that is what is looked for
            return Outcome("untyped error", _place(error), _trace_of(error))
        return Outcome(OK)

    def _use_in_full(self, run: up.Run) -> None:
        up.op_table(run)
        up.step_breakdown(run)
        self._out.mkdir()
        up.write(run, self._out / "again.json")

    def _judge_error(self, error: UnifiedProfilerError, case: Case) -> Outcome:
        causes = list(_causes(error))
        if any(isinstance(cause, MemoryError) for cause in causes):
            return Outcome("memory", _place(causes[-1]), _trace_of(error))
        names = {Path(path).name for path in case.tree} | {str(self._case)}
        if isinstance(error, TraceFormatError) and not any(name in str(error) for name in names):
            return Outcome("error that names no file", str(error)[:200])
        return Outcome(TYPED, type(error).__name__, _trace_of(error))

    def _seen_outside(self) -> dict[str, object]:
        room = self._case.parent
        beside = [path for folder in (room, room.parent) for path in folder.iterdir()]
        paths = [*(path for path in beside if path not in (self._case, self._out)), *self._outside.rglob("*")]
        return {str(path): (path.stat().st_mode, path.is_file() and path.read_bytes()) for path in paths}

    def _finished(self) -> dict[str, bytes]:
        """Return the finished cycles; what has such a name below `pending` or `native` is none."""
        finished = (file for folder in ("rank-*", "*/rank-*") for file in self._case.glob(f"{folder}/cycle-*.parquet"))
        return {str(file): file.read_bytes() for file in finished if file.is_file() and not file.is_symlink()}


def prepare_process() -> None:
    """Bound this process, and take out what makes reading slow or different from machine to machine."""
    mock.patch.object(registry, "entry_points", return_value=()).start()  # it looks at every installed package
    mock.patch.object(socket, "gethostname", return_value=HOST).start()
    logging.getLogger("unified_profiler").setLevel(logging.CRITICAL + 1)
    pa.set_cpu_count(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM_BYTES, resource.RLIM_INFINITY))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _place(error: BaseException) -> str:
    """Return type and place of an error: the innermost line of this repository."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "unified_profiler" in frame.filename] or frames
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
    return f"{type(error).__name__} at {where}"


def _trace_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-4000:]
