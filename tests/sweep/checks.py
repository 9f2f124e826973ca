"""What must hold after a training got a signal. Each check returns the faults it found, as sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Any

from tests.sweep.cases import Case
from tests.sweep.processes import Place, Training

NEXT_STEPS = 7
"""Of the run that follows: one whole cycle, and one that `stop()` finds in the middle of recording."""


@dataclass(frozen=True)
class Files:
    """What is in an output directory: the traces with their digests, and the cycles that are no traces yet."""

    traces: dict[str, str]
    pending: tuple[str, ...]
    manifests: tuple[str, ...]

    def cycles(self, run: str) -> list[int]:
        """Return the cycles of a run that must be there when it is read."""
        names = [Path(name) for name in (*self.traces, *self.pending)]
        return sorted({int(name.stem.removeprefix("cycle-")) for name in names if name.parts[0] == run})


def files_of(place: Place) -> Files:
    """Look into the output directory as it is now."""

    def names(pattern: str) -> list[Path]:
        return sorted(path.relative_to(place.output) for path in place.output.glob(pattern))

    traces = names("*/*/cycle-*.parquet")
    return Files(
        traces={str(name): hashlib.sha256((place.output / name).read_bytes()).hexdigest() for name in traces},
        pending=tuple(str(name.parent) for name in names("*/*/pending/cycle-*/cycle.json")),
        manifests=tuple(name.parts[0] for name in names("*/*/manifest.json")),
    )


def nothing_finished_is_lost(before: Files, after: Files) -> Iterator[str]:
    """Compare two looks into one output directory."""
    for name, digest in before.traces.items():
        if name not in after.traces:
            yield f"{name} was finished and is gone"
        elif after.traces[name] != digest:
            yield f"{name} was finished and has changed"


def everything_reported_is_there(ended: Training, left: Files) -> Iterator[str]:
    """Compare what the program saw in its output directory with what it left."""
    seen = {line["file"]: line["digest"] for line in ended.lines("delivered")}
    yield from nothing_finished_is_lost(Files(traces=seen, pending=(), manifests=()), left)
    for name in {name for line in ended.lines("ended cycle") for name in line["pending"]}:
        run, cycle = Path(name).parts[0], int(Path(name).stem.removeprefix("cycle-"))
        if cycle not in left.cycles(run):
            yield f"{name} was complete and is gone"


def readable(left: Files, runs: dict[str, Any], ended: Training, *, framework: str) -> Iterator[str]:
    """Check what a reader found in the run of a training.

    Args:
        left: What the training left.
        runs: The contents of the run by its name; empty if it was not made yet.
        ended: The training.
        framework: What it trained with.
    """
    finished_steps = 4 * len(ended.lines("ended cycle"))
    for run, contents in runs.items():
        if "error" in contents:
            expected = contents["error"].startswith("TraceFormatError") and run not in left.manifests
            yield from [] if expected else [f"{run} cannot be read: {contents['error']}"]
            continue
        yield from (f"{run}: {text}" for text in (*contents["differences"], *contents["failures"]))
        found = [trace["cycle"] for trace in contents["traces"]]
        if found != left.cycles(run):
            yield f"{run} should have the cycles {left.cycles(run)} and has {found}"
        if finished_steps and (contents["steps"] or 0) < finished_steps:
            yield f"{run} has {contents['steps']} steps; the cycles that ended have {finished_steps}"
        for trace in contents["traces"]:
            yield from (f"{run}: {text}" for text in _wrong_in(trace, framework=framework))


def _wrong_in(trace: dict[str, Any], *, framework: str) -> Iterator[str]:
    cycle, last = trace["cycle"], trace["last_step"]
    if trace["first_step"] != 4 * cycle + 2 or (trace["complete"] and last != 4 * cycle + 3):
        yield f"cycle {cycle} has the steps {trace['first_step']} to {last}"
    if framework not in trace["frameworks"]:
        yield f"cycle {cycle} has no events of {framework}"


def no_leftovers(place: Place) -> Iterator[str]:
    """Check that the next run has removed what a process left that was killed."""
    parts = [path for path in place.folder.rglob("*.part") if path.is_file()]
    folders = list(place.temporary.glob("unified-profiler-*"))
    yield from (f"left behind: {path.relative_to(place.folder)}" for path in (*parts, *folders))


def nothing_pending(place: Place) -> Iterator[str]:
    """Check that there is no folder of pending cycles after all runs were read."""
    yield from (f"pending after a read: {path.relative_to(place.output)}" for path in place.output.glob("*/*/pending"))


def ended_as_without_a_profiler(case: Case, ended: Training, control: Training) -> Iterator[str]:
    """Compare exit code and losses with those of the same training without a Profiler."""
    if ended.code is None:
        yield f"did not end after '{ended.last}'"
    elif case.signal is not Signals.SIGKILL and ended.code not in _codes(case, ended, control):
        yield f"exit code {ended.code} after '{ended.last}', but {control.code} without a Profiler"
    yield from same_losses(ended, control)


def _codes(case: Case, ended: Training, control: Training) -> set[int | None]:
    """Return the exit codes to expect.

    A framework that handles a signal itself, as MindSpore does, begins to do so at some time in the first step; until
    then Python ends by the signal. In the import of a framework anything may become of an interruption, and in the
    first step of TensorFlow, whose check of a type that it has not seen before drops a KeyboardInterrupt or makes an
    AttributeError of it; that is accepted only if the traceback has no frame of the profiler. In its last moments a
    program may have ended before the signal reaches it.
    """
    if ended.last in {"nothing", "begun"}:
        return {ended.code}
    codes: set[int | None] = {control.code, -case.signal, *([0] if ended.last == "stopped" else [])}
    in_first_step = ended.last == "started" and case.framework == "tensorflow" and case.signal is Signals.SIGINT
    return codes | {1} if in_first_step and not ended.profiler_frames else codes


def same_losses(ended: Training, control: Training) -> Iterator[str]:
    """Check that a training did the same as the control for as long as it lasted."""
    if ended.losses != control.losses[: len(ended.losses)]:
        yield f"other losses than without a Profiler: {ended.losses}, not {control.losses[: len(ended.losses)]}"


def next_run_is_complete(ended: Training, control: Training, runs: dict[str, Any]) -> Iterator[str]:
    """Check the run that followed."""
    if ended.code != 0 or len(ended.losses) != NEXT_STEPS:
        yield f"the next run ended with {ended.code} after '{ended.last}'"
    yield from same_losses(ended, control)
    if not runs:
        yield "the next run delivered nothing"
    for contents in runs.values():
        complete = [trace["complete"] for trace in contents.get("traces", ())]
        if complete != [True, False] or contents["steps"] != NEXT_STEPS or contents["failures"]:
            yield f"the next run holds {contents}"
