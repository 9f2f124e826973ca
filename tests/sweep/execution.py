"""Runs cases from their trainings to their verdicts, and the trainings without a Profiler to compare them with."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any

from tests.sweep import checks
from tests.sweep.cases import STEPS, Case, Moment
from tests.sweep.processes import Interruption, Place, Training, read, train

_ENDLESS = 10**6


@dataclass(frozen=True)
class Controls:
    """Trainings without a Profiler, by framework and signal."""

    trainings: Mapping[tuple[str, Signals], Training]

    @classmethod
    def of(cls, cases: Iterable[Case], folder: Path, pool: Executor) -> Controls:
        """Run those that the cases are compared with."""
        keys = dict.fromkeys((case.framework, _signal_of_control(case)) for case in cases)
        futures = {key: pool.submit(_control, folder / f"control-{key[0]}-{key[1].name}", *key) for key in keys}
        return cls({key: future.result() for key, future in futures.items()})

    def for_(self, case: Case) -> Training:
        """Return the one for a case."""
        return self.trainings[case.framework, _signal_of_control(case)]


def _signal_of_control(case: Case) -> Signals:
    """There is no way to end differently by SIGKILL, but the losses of such a training are compared, too."""
    return Signals.SIGTERM if case.signal is Signals.SIGKILL else case.signal


def _control(folder: Path, framework: str, signal: Signals) -> Training:
    interruption = Interruption(signal=signal, moment=Moment(after="step", occurrence=STEPS))
    return train(folder / "training.log", framework=framework, steps=_ENDLESS, interruption=interruption)


@dataclass
class Outcome:
    """What came of a case.

    Attributes:
        faults: What was wrong, as sentences.
    """

    case: Case
    place: Place
    ended: Training
    control: Training
    left: checks.Files
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        line = f"{'FAILED' if self.faults else 'ok':7}{self.case}, landed after '{self.ended.last}'"
        return "\n".join([line, *(f"       {fault}" for fault in self.faults)])

    def judge_reading(self, runs: dict[str, Any]) -> None:
        """Check what a reader found in the run of the training that got the signal."""
        self.faults += checks.readable(self.left, runs, self.ended, framework=self.case.framework)
        self.faults += checks.nothing_pending(self.place)
        self.faults += checks.nothing_finished_is_lost(self.left, checks.files_of(self.place))


def run(batch: Sequence[Case], controls: Controls, folder: Path) -> list[Outcome]:
    """Interrupt the trainings of a batch one by one, then let the same program run to its end where each of them was.

    Some of the runs are read before that, all of them after it.
    """
    outcomes = [_interrupted(case, controls.for_(case), folder) for case in batch]
    try:
        _judge(outcomes, folder / f"next-to-{batch[0].number:03d}")
    except subprocess.SubprocessError as error:
        for outcome in outcomes:
            outcome.faults.append(f"a reader failed, here or in another case of the batch: {error}")
    return outcomes


def _interrupted(case: Case, control: Training, folder: Path) -> Outcome:
    place = Place(folder / f"case-{case.number:03d}")
    interruption = Interruption(
        signal=case.signal,
        moment=case.moment,
        import_seconds=control.seconds("imported")[0],
        stop_cycles=1 if case.deliver == "immediate" else STEPS // 4 + 1,
    )
    ended = train(
        place.folder / "training.log",
        framework=case.framework,
        steps=STEPS,
        profiled={place: case.deliver},
        interruption=interruption,
    )
    left = checks.files_of(place)
    faults = [
        *checks.ended_as_without_a_profiler(case, ended, control),
        *checks.everything_reported_is_there(ended, left),
    ]
    return Outcome(case, place, ended, control, left, faults)


def _judge(outcomes: Sequence[Outcome], folder: Path) -> None:
    early = [outcome for outcome in outcomes if outcome.case.read_first]
    folder.mkdir()
    first = dict(zip((o.case.number for o in early), read(folder / "read.log", [o.place for o in early]), strict=True))
    for outcome in early:
        outcome.judge_reading(first[outcome.case.number])
    following = train(
        folder / "training.log",
        framework=outcomes[0].case.framework,
        steps=checks.NEXT_STEPS,
        profiled={outcome.place: outcome.case.deliver for outcome in outcomes},
    )
    for outcome in outcomes:
        outcome.faults += checks.no_leftovers(outcome.place)
    for outcome, runs in zip(outcomes, read(folder / "read.log", [o.place for o in outcomes]), strict=True):
        after = following.in_(outcome.place)
        own = {name: runs.pop(name) for name in list(runs) if name in after.runs}
        outcome.faults += checks.next_run_is_complete(after, outcome.control, own)
        outcome.judge_reading(runs)
        if first.get(outcome.case.number, runs) != runs:
            outcome.faults.append("the run was read differently before and after the next one")
