"""Options of the Profiler crossed: whatever is recorded together, the numbers hold.

Every two values of every two options meet in one of eight sets, for a training in each way that the frameworks have.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pytest

import unified_profiler as up
from tests.crossed.recording_program import TRAININGS
from unified_profiler.model.borders import largest_move_ns

VALUES: dict[str, tuple[Any, ...]] = {
    "record_shapes": (False, True),
    "profile_memory": (False, True),
    "with_stack": (False, True),
    "with_flops": (False, True),
    "with_modules": (False, True),
    "api": (False, True),
    "deliver": ("immediate", "deferred"),
    "repeat": (1, 2),
    "kept": ("in memory", "with native files", "on disk"),
}
PREPARES_DATA = frozenset({"GatherV2", "_Arg", "_Retval"})
"""What the input pipeline of Keras on TensorFlow runs, ahead of the step that takes the data."""


def covering_sets() -> list[dict[str, Any]]:
    """Return sets of options in which every two values of every two options meet (Kleitman and Spencer 1973).

    The first set has the first value of each option. In the next five each option has its second value in three, and
    no two options in the same three: so any two options share a set, and each is alone in another. The third value of
    one of them meets the first values of the others in one more set, and their second values in another.
    """
    chosen = dict(zip(VALUES, combinations(range(1, 6), 3), strict=False))
    sets = [{name: VALUES[name][number in chosen[name]] for name in VALUES} for number in range(6)]
    third = [{name: values[number] for name, values in VALUES.items()} for number in range(2)]
    return [*sets, *({**options, "kept": "on disk"} for options in third)]


SETS = covering_sets()


def test_every_two_values_of_every_two_options_meet() -> None:
    for one, other in combinations(VALUES, 2):
        assert {(options[one], options[other]) for options in SETS} == {
            (a, b) for a in VALUES[one] for b in VALUES[other]
        }


@dataclass(frozen=True)
class Recorded:
    """What a training under one set of options left."""

    options: dict[str, Any]
    run: up.Run
    failures: list[dict[str, Any]]
    folder: Path

    def __str__(self) -> str:
        changed = [name for name, value in self.options.items() if value != VALUES[name][0]]
        return " ".join(changed) or "no option"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in up.query(self.run, sql).rows]


@pytest.fixture(scope="module", params=TRAININGS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Recorded]:
    """A training recorded under each set of options, in a process of its own."""
    folder = tmp_path_factory.mktemp("crossed")
    program = Path(__file__).with_name("recording_program.py")
    environment = {"KERAS_BACKEND": request.param.partition("-on-")[2] or "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        [sys.executable, str(program), request.param, str(folder), json.dumps(SETS)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [_read(folder / str(number), options) for number, options in enumerate(SETS)]


def _read(folder: Path, options: dict[str, Any]) -> Recorded:
    traces = [up.read(file).traces[0] for file in sorted(folder.glob("*.parquet"))]
    run = up.Run(traces=tuple(traces), steps=feather.read_table(folder / "steps.feather"))
    return Recorded(options, run, json.loads((folder / "failures.json").read_text()), folder)


def each(recorded: Sequence[Recorded]) -> Iterator[tuple[str, Recorded]]:
    yield from ((str(each), each) for each in recorded)


def test_every_cycle_is_recorded_without_a_failure(recorded: list[Recorded]) -> None:
    for label, case in each(recorded):
        unexpected = [failure for failure in case.failures if "UnsupportedCapabilityError" not in failure["error"]]
        assert not unexpected, label
        assert [trace.info.complete for trace in case.run.traces] == [True] * case.options["repeat"], label


def test_every_step_has_the_same_operators(recorded: list[Recorded]) -> None:
    for label, case in each(recorded):
        by_step: dict[Any, Counter[str]] = {}
        for step, name, count in case.rows("""
            select step, name, count(*) from events where kind = 'op' and step is not null group by all
        """):
            if name not in PREPARES_DATA:
                by_step.setdefault(step, Counter())[name] = count
        expected = [2, 3, 6, 7][: 2 * case.options["repeat"]]
        assert sorted(by_step) == expected, label
        first, *others = by_step.values()
        assert first, label
        assert all(other == first for other in others), (label, [other - first for other in others])


def test_no_border_of_a_step_moves(recorded: list[Recorded]) -> None:
    for label, case in each(recorded):
        rows = case.rows("""
            select s.step, s.end_ns - s.start_ns, abs(e.start_ns + e.duration_ns - s.end_ns)
            from events e join steps s on e.step = s.step where e.kind = 'step' order by s.step
        """)
        assert len(rows) == 2 * case.options["repeat"], label
        durations = {step: duration for step, duration, _ in rows}
        for step, duration, moved in rows:
            shorter = min(duration, durations.get(step + 1, duration))
            assert moved <= largest_move_ns(shorter), (label, step, duration, moved)


def test_what_is_in_a_step_lies_within_it(recorded: list[Recorded]) -> None:
    for label, case in each(recorded):
        outside = case.rows("""
            select m.kind, m.name, m.step, m.start_ns - s.start_ns, m.duration_ns, s.duration_ns
            from events m join events s on m.step = s.step and m.cycle = s.cycle and s.kind = 'step'
            where (m.kind in ('module', 'api_call') or (m.kind = 'region' and m.framework is null))
                and (m.start_ns < s.start_ns or m.start_ns + m.duration_ns > s.start_ns + s.duration_ns)
        """)
        assert not outside, label


def test_directions_add_up(recorded: list[Recorded]) -> None:
    for label, case in each(recorded):
        by_direction = up.op_table(case.run, by="direction").to_arrow()
        whole = up.op_table(case.run).to_arrow()
        assert pc.sum(by_direction["self_cpu_ns"]) == pc.sum(whole["self_cpu_ns"]), label
        assert {"forward", "backward"} <= set(by_direction["direction"].to_pylist()), label


def test_shares_add_up(recorded: list[Recorded]) -> None:
    for label, case in each(recorded):
        shares = up.op_table(case.run).to_arrow()["self_cpu_share"]
        assert pc.sum(shares).as_py() == pytest.approx(1), label
        for row in up.step_breakdown(case.run).rows:
            assert 0 <= row.uncovered_ns <= row.wall_ns, label
            parts = ("data", "op", "collective", "copy", "compile", "uncovered")
            assert sum(getattr(row, f"{part}_ns") for part in parts) == row.wall_ns, label


def test_one_cycle_is_the_whole_cut_down(recorded: list[Recorded]) -> None:
    for label, case in each(recorded):
        whole = pa.concat_tables(trace.events for trace in case.run.traces)
        for trace in case.run.traces:
            part = case.run.select(rank=0, cycle=trace.info.cycle)
            cut = whole.filter(pc.equal(whole["cycle"], trace.info.cycle))
            assert pa.concat_tables(each.events for each in part.traces).equals(cut), label
            assert part.steps is not None
            assert set(part.steps["step"].to_pylist()) >= {trace.info.first_step, trace.info.last_step}


def test_what_is_on_disk_is_what_was_recorded(recorded: list[Recorded]) -> None:
    for label, case in each(recorded):
        if case.options["kept"] == "in memory":
            continue
        stored = up.read(case.folder / "output")
        assert [trace.events for trace in stored.traces] == [trace.events for trace in case.run.traces], label
        native = list((case.folder / "output").glob("*/rank-00000/native/*/*"))
        assert len(native) == case.options["repeat"] * (case.options["kept"] == "with native files"), (label, native)
