"""The processes of a case: trainings, with or without a Profiler and a signal, and readers."""

from __future__ import annotations

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

from tests.sweep.cases import Moment

PROGRAMS = Path(__file__).parent
PATIENCE = 180.0
"""Seconds until a process that should have ended is taken for hanging; far more than any of them needs."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a training left when it ended.

    Attributes:
        code: Its exit code as `subprocess` has it; None if it did not end by itself.
        progress: The lines that it reported.
        import_seconds: How long it took until it had imported its framework; None if it never did.
    """

    code: int | None
    progress: tuple[dict[str, Any], ...]
    import_seconds: float | None

    @property
    def last(self) -> str:
        """The last thing that it reported."""
        return str(self.progress[-1]["at"]) if self.progress else "nothing"

    @property
    def losses(self) -> list[str]:
        """The loss of each step, to the last bit."""
        return [line["loss"] for line in self.lines("step")]

    @property
    def runs(self) -> set[str]:
        """The names of the runs that it delivered traces to."""
        return {Path(line["file"]).parts[0] for line in self.lines("delivered")}

    def in_(self, place: Place) -> Ended:
        """Return the part of it that ran in a place."""
        starts = [number for number, line in enumerate(self.progress) if line["at"] == "started"]
        parts = [self.progress[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
        mine = [part for part in parts if part[0]["folder"] == str(place.folder)]
        return replace(self, progress=mine[0] if mine else ())

    def lines(self, at: str) -> list[dict[str, Any]]:
        """Return the lines of one kind."""
        return [line for line in self.progress if line["at"] == at]


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


def train(
    log: Path,
    *,
    framework: str,
    steps: int,
    profiled: Mapping[Place, str] = MappingProxyType({}),
    signal: Signals | None = None,
    moment: Moment | None = None,
) -> Ended:
    """Run the training program to its end.

    Args:
        log: A file for what it writes to the terminal; its folder is the program's.
        framework: What it trains with.
        steps: How many steps it trains.
        profiled: Where it trains under a Profiler, one after the other, and how that delivers; without any it trains
            once without one.
        signal: What it is sent.
        moment: When it is sent that.
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
        started = time.monotonic()
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
        return _followed(process, lines, started, signal, moment or Moment())


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
    process: subprocess.Popen[bytes], lines: IO[bytes], started: float, signal: Signals | None, moment: Moment
) -> Ended:
    """Follow the progress of a training, send the signal at its moment, and wait for the end."""
    progress: list[dict[str, Any]] = []
    imported: float | None = None
    awaited = None if signal is None else moment.after
    with _killed_if_it_hangs(process) as hangs:
        if signal is not None and awaited is None:
            _send(process, signal, moment.delay)
        for line in _reported(lines):
            progress.append(line)
            if line["at"] == "imported":
                imported = time.monotonic() - started
            if signal is not None and line["at"] == awaited and _count(progress, awaited) > moment.occurrence:
                awaited = None
                _send(process, signal, moment.delay)
        code = process.wait()
    return Ended(code=None if hangs.is_set() else code, progress=tuple(progress), import_seconds=imported)


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


def _count(progress: list[dict[str, Any]], at: str) -> int:
    return sum(line["at"] == at for line in progress)


def _reported(lines: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the lines of progress until the process ends; one that was cut off by the signal is left out."""
    for line in iter(lines.readline, b""):
        if line.endswith(b"\n"):
            yield json.loads(line)


def _send(process: subprocess.Popen[bytes], signal: Signals, delay: float) -> None:
    time.sleep(delay)
    process.send_signal(signal)  # does nothing if it has ended
