"""The processes of a case: trainings, with or without a Profiler and a signal, and readers."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from types import MappingProxyType
from typing import IO, Any

from tests.sweep.cases import FRAMEWORKS, Moment, Span

PROGRAMS = Path(__file__).parent
PATIENCE = 240.0
"""Seconds until a process that should have ended is taken for hanging; far more than any of them needs."""


@dataclass(frozen=True)
class Place:
    """The folder of a case, with all that its processes may leave behind."""

    folder: Path

    @property
    def output(self) -> Path:
        """The `output_dir` of its Profilers."""
        return self.folder / "output"

    @property
    def temporary(self) -> Path:
        """Where they make temporary directories."""
        return self.folder / "tmp"


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a training has reported, and how it ended.

    Attributes:
        progress: The lines that it reported, each with the `seconds` since its start.
        log: What it wrote to the terminal.
        code: Its exit code as `subprocess` has it; None if it has not ended by itself.
    """

    progress: Sequence[Mapping[str, Any]]
    log: Path
    code: int | None = None

    @property
    def last(self) -> str:
        """The last thing that it reported."""
        return str(self.progress[-1]["at"]) if self.progress else "nothing"

    @property
    def losses(self) -> list[str]:
        """The loss of each step, to the last bit."""
        return [line["loss"] for line in self.lines("step")]

    @property
    def profiler_frames(self) -> list[str]:
        """The lines of its tracebacks that are in the profiler's own code."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if line.lstrip().startswith(tuple(f'File "{folder}/' for folder in _packages()))]

    @property
    def runs(self) -> set[str]:
        """The names of the runs that it delivered traces to."""
        return {Path(line["file"]).parts[0] for line in self.lines("delivered")}

    def lines(self, at: str) -> list[Mapping[str, Any]]:
        """Return the lines of one kind."""
        return [line for line in self.progress if line["at"] == at]

    def seconds(self, at: str) -> list[float]:
        """Return when the lines of one kind came."""
        return [line["seconds"] for line in self.lines(at)]

    def in_(self, place: Place) -> Training:
        """Return the part of it that ran in a place."""
        starts = [number for number, line in enumerate(self.progress) if line["at"] == "started"]
        parts = [self.progress[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
        mine = [part for part in parts if part[0]["folder"] == str(place.folder)]
        return replace(self, progress=mine[0] if mine else ())


def _packages() -> list[Path]:
    """Return the folders of the profiler and of its backends, as the trainings import them."""
    names = ("unified_profiler", *(f"unified_profiler_{framework}" for framework in FRAMEWORKS))
    specs = [importlib.util.find_spec(name) for name in names]
    return [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None]


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """A signal and its moment.

    Attributes:
        import_seconds: How long the import of the framework takes.
        stop_cycles: How many cycles `stop()` has to deliver.
    """

    signal: Signals
    moment: Moment
    import_seconds: float = 0.0
    stop_cycles: int = 1

    def begins(self, so_far: Training) -> bool:
        """Say whether the delay begins with the line that was reported last, or with the start."""
        if self.moment.after is None:
            return not so_far.progress
        return so_far.last == self.moment.after and len(so_far.lines(so_far.last)) == self.moment.occurrence + 1

    def delay(self, so_far: Training) -> float:
        """Return how many seconds it takes from then on."""
        ends = so_far.seconds("ended cycle")
        pauses = [end - begin for begin, end in zip(so_far.seconds("ending cycle"), ends, strict=False)]
        span = {
            Span.SECOND: lambda: 1.0,
            Span.IMPORT: lambda: self.import_seconds,
            Span.CYCLE: lambda: ends[-1] - ends[-2],
            Span.PAUSE: lambda: pauses[-1],
            Span.STOP: lambda: pauses[-1] * self.stop_cycles,
        }
        return self.moment.part * span[self.moment.span]()


def train(
    log: Path,
    *,
    framework: str,
    steps: int,
    profiled: Mapping[Place, str] = MappingProxyType({}),
    interruption: Interruption | None = None,
) -> Training:
    """Run the training program to its end.

    Args:
        log: A file for what it writes to the terminal; its folder is the program's.
        framework: What it trains with.
        steps: How many steps it trains.
        profiled: Where it trains under a Profiler, one after the other, and how that delivers; without any it trains
            once without one.
        interruption: What ends it early.
    """
    command = [sys.executable, str(PROGRAMS / "training_program.py"), "--framework", framework, "--steps", str(steps)]
    for place, deliver in profiled.items():
        place.temporary.mkdir(parents=True, exist_ok=True)
        command += ["--profiled", str(place.folder), deliver]
    log.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        output = stack.enter_context(log.open("ab"))
        reading, writing = os.pipe()
        lines = stack.enter_context(os.fdopen(reading, "rb"))
        try:
            process = subprocess.Popen(
                [*command, "--progress", str(writing)],
                cwd=log.parent,
                env=_environment(log.parent),
                stdout=output,
                stderr=output,
                pass_fds=[writing],
            )
        finally:
            os.close(writing)
        return _followed(process, lines, interruption, log)


def read(log: Path, places: Sequence[Place]) -> list[dict[str, Any]]:
    """Read all runs of some places in a process of their own, and return what is in them by their names.

    Raises:
        subprocess.SubprocessError: The reader did not come to its end.
    """
    command = [sys.executable, str(PROGRAMS / "reading_program.py"), *(str(place.output) for place in places)]
    with log.open("ab") as output:
        done = subprocess.run(
            command, check=True, env=_environment(log.parent), stdout=subprocess.PIPE, stderr=output, timeout=PATIENCE
        )
    contents: list[dict[str, Any]] = json.loads(done.stdout)
    return contents


def _environment(folder: Path) -> dict[str, str]:
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(temporary)}


def _followed(
    process: subprocess.Popen[bytes], lines: IO[bytes], interruption: Interruption | None, log: Path
) -> Training:
    """Follow the progress of a training, interrupt it at the given moment, and wait for its end."""
    progress: list[Mapping[str, Any]] = []
    started, so_far = time.monotonic(), Training(progress=progress, log=log)

    def interrupt_if_due() -> None:
        if interruption is not None and interruption.begins(so_far):
            time.sleep(interruption.delay(so_far))
            process.send_signal(interruption.signal)  # does nothing if it has ended

    with _killed_if_it_hangs(process) as hangs:
        interrupt_if_due()
        for line in _reported(lines):
            progress.append({**line, "seconds": time.monotonic() - started})
            interrupt_if_due()
        code = process.wait()
    return Training(progress=progress, log=log, code=None if hangs.is_set() else code)


@contextmanager
def _killed_if_it_hangs(process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Kill a process that does not end, and tell so by the event."""
    hangs = threading.Event()

    def kill() -> None:
        hangs.set()
        process.kill()

    watchdog = threading.Timer(PATIENCE, kill)
    watchdog.start()
    try:
        yield hangs
    finally:
        watchdog.cancel()


def _reported(lines: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the lines of progress until the process ends; one that was cut off by the signal is left out."""
    for line in iter(lines.readline, b""):
        if line.endswith(b"\n"):
            yield json.loads(line)
