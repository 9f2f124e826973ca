"""Runs one case from its training to its verdict, and the trainings without a Profiler that it is compared with."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from typing import Any

from tests.sweep import checks
from tests.sweep.cases import STEPS, Case, Moment
from tests.sweep.processes import Ended, Place, read, train

_ENDLESS = 10**6


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a case.

    Attributes:
        landed: The last thing that the training had reported when the signal reached it.
        faults: What was wrong, as sentences.
    """

    case: Case
    landed: str
    seconds: float
    faults: tuple[str, ...]

    def __str__(self) -> str:
        line = f"{'FAILED' if self.faults else 'ok':6} {self.case}, landed after '{self.landed}', {self.seconds:.1f} s"
        return "\n".join([line, *(f"    {fault}" for fault in self.faults)])


@dataclass(frozen=True)
class Controls:
    """Trainings without a Profiler, by framework and signal."""

    trainings: Mapping[tuple[str, Signals], Ended]

    @classmethod
    def of(cls, cases: Iterable[Case], folder: Path, pool: Executor) -> Controls:
        """Run those that the cases are compared with."""
        wanted = dict.fromkeys((case.framework, _signal_of_control(case)) for case in cases)
        futures = {key: pool.submit(_control, folder / f"control-{key[0]}-{key[1].name}", *key) for key in wanted}
        return cls({key: future.result() for key, future in futures.items()})

    def for_(self, case: Case) -> Ended:
        """Return the one for a case."""
        return self.trainings[case.framework, _signal_of_control(case)]


def _signal_of_control(case: Case) -> Signals:
    """Nothing can be different after SIGKILL, but the losses of such a training are compared, too."""
    return Signals.SIGTERM if case.signal is Signals.SIGKILL else case.signal


def _control(folder: Path, framework: str, signal: Signals) -> Ended:
    moment = Moment(after="step", occurrence=STEPS)
    return train(Place(folder), name="control", framework=framework, steps=_ENDLESS, signal=signal, moment=moment)


def run(case: Case, controls: Controls, folder: Path) -> Outcome:
    """Run a case."""
    started, place, control = time.monotonic(), Place(folder), controls.for_(case)
    moment = case.moment
    if moment.after is None:
        moment = replace(moment, delay=moment.delay * (control.import_seconds or 0.0))
    ended = train(
        place,
        name="interrupted",
        framework=case.framework,
        steps=STEPS,
        deliver=case.deliver,
        signal=case.signal,
        moment=moment,
    )
    faults = _faults(case, place, ended, control)
    return Outcome(case=case, landed=ended.last, seconds=time.monotonic() - started, faults=tuple(faults))


def _faults(case: Case, place: Place, ended: Ended, control: Ended) -> list[str]:
    left = checks.files_of(place)
    faults = [
        *checks.ended_as_without_a_profiler(case, ended, control),
        *checks.everything_reported_is_there(ended, left),
    ]
    try:
        first = _read(case, place, left, ended, faults) if case.read_first else None
        following = train(place, name="next", framework=case.framework, steps=checks.NEXT_STEPS, deliver=case.deliver)
        faults += checks.no_leftovers(place)
        runs = read(place, name="read after the next run")
        own = {run: runs.pop(run) for run in list(runs) if run in following.runs}
        faults += checks.next_run_is_complete(following, control, own)
        faults += checks.readable(left, runs, ended, framework=case.framework)
        faults += checks.nothing_pending(place)
        faults += checks.nothing_finished_is_lost(left, checks.files_of(place))
    except subprocess.SubprocessError as error:
        return [*faults, f"a reader failed: {error}"]
    if first is not None and first != runs:
        faults.append(f"reads before and after the next run differ: {first} and {runs}")
    return faults


def _read(case: Case, place: Place, left: checks.Files, ended: Ended, faults: list[str]) -> dict[str, Any]:
    runs = read(place, name="read before the next run")
    faults += checks.readable(left, runs, ended, framework=case.framework)
    faults += checks.nothing_pending(place)
    faults += checks.nothing_finished_is_lost(left, checks.files_of(place))
    return runs
