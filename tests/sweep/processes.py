"""The processes of a case: trainings, with or without a Profiler and a signal, and readers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
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

    def lines(self, at: str) -> list[dict[str, Any]]:
        """Return the lines of one kind."""
        return [line for line in self.progress if line["at"] == at]


@dataclass(frozen=True)
class Place:
    """The folder of a case, with everything that its processes may leave behind."""

    folder: Path

    @property
    def output(self) -> Path:
        """The `output_dir` of its Profilers."""
        return self.folder / "output"

    @property
    def temporary(self) -> Path:
        """The TMPDIR of its processes."""
        return self.folder / "tmp"

    def log(self, name: str) -> IO[bytes]:
        """Open a file for what a process writes to the terminal."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        return (self.folder / f"{name}.log").open("ab")

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes."""
        return {**os.environ, "TMPDIR": str(self.temporary)}


def train(
    place: Place,
    *,
    name: str,
    framework: str,
    steps: int,
    deliver: str | None = None,
    signal: Signals | None = None,
    moment: Moment | None = None,
) -> Ended:
    """Run the training program to its end.

    Args:
        place: Where it runs.
        name: What its log is called.
        framework: What it trains with.
        steps: How many steps it trains.
        deliver: How its Profiler delivers; None for a training without a Profiler.
        signal: What it is sent.
        moment: When it is sent that.
    """
    profiled = [] if deliver is None else ["--output-dir", str(place.output), "--deliver", deliver]
    with ExitStack() as stack:
        log = stack.enter_context(place.log(name))
        reading, writing = os.pipe()
        lines = stack.enter_context(os.fdopen(reading, "rb", buffering=0))
        command = [sys.executable, str(PROGRAMS / "training_program.py"), "--progress", str(writing), *profiled]
        command += ["--framework", framework, "--steps", str(steps)]
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                command, cwd=place.folder, env=place.environment, stdout=log, stderr=log, pass_fds=[writing]
            )
        finally:
            os.close(writing)
        return _followed(process, lines, started, signal, moment or Moment())


def read(place: Place, *, name: str) -> dict[str, Any]:
    """Read all runs of a case in a process of their own.

    Raises:
        subprocess.CalledProcessError: The reader failed with anything but a typed error.
    """
    command = [sys.executable, str(PROGRAMS / "reading_program.py"), str(place.output)]
    with place.log(name) as log:
        done = subprocess.run(
            command, check=True, env=place.environment, stdout=subprocess.PIPE, stderr=log, timeout=PATIENCE
        )
    contents: dict[str, Any] = json.loads(done.stdout)
    return contents


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
