from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest
from typer.testing import CliRunner

import unified_profiler as up
from unified_profiler.cli.app import app
from unified_profiler.errors import ConfigurationError
from unified_profiler.model.records import Failure
from unified_profiler.model.run import Run
from unified_profiler.report.step_times import step_times
from unified_profiler.testing import FakeBackend

WAIT, ACTIVE, CYCLES, AFTER = 6, 2, 2, 3
STEP_NS = {0: 1_000_000, 1: 5_000_000}
"""Duration of a step of each rank in the first cycle; in the second it is twice as long, afterwards three times."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of two ranks, two cycles each, and steps after the last cycle."""
    for rank in STEP_NS:
        for name, value in {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "TORCHELASTIC_RUN_ID": "a"}.items():
            monkeypatch.setenv(name, str(value))
        _record(tmp_path, rank)
    return up.read(tmp_path)


def _record(folder: Path, rank: int) -> None:
    backend = FakeBackend()
    plan = up.schedule(wait=WAIT, warmup=0, active=ACTIVE, repeat=CYCLES)
    options = {"backend": backend, "clock": backend.clock, "schedule": plan, "output_dir": folder, "hardware_hz": 0}
    with up.Profiler(**options) as prof:  # type: ignore[arg-type]
        for number in range(CYCLES * (WAIT + ACTIVE) + AFTER):
            backend.op("fake::op")
            backend.clock.advance(STEP_NS[rank] * (1 + number // (WAIT + ACTIVE)))
            prof.step()


def _close_to(nanoseconds: int | None, expected: int) -> bool:
    return nanoseconds is not None and expected <= nanoseconds < 1.1 * expected


@pytest.mark.parametrize("rank", [0, 1])
def test_the_step_times_of_a_rank_are_its_own(job: Run, rank: int) -> None:
    summary = up.summarize(job.select(rank=rank))
    assert [each.rank for each in summary.ranks] == [rank]
    assert summary.steps.count == CYCLES * (WAIT + ACTIVE) + AFTER
    assert _close_to(summary.steps.fastest_ns, STEP_NS[rank])
    assert _close_to(summary.steps.slowest_ns, 2 * STEP_NS[rank])
    assert summary.steps.recorded_step_ns == int(median(step_times(job)[rank].recorded.tolist()))


@pytest.mark.parametrize("cycle", [0, 1])
def test_the_steps_of_a_cycle_are_those_it_recorded_and_those_that_led_up_to_them(job: Run, cycle: int) -> None:
    part = job.select(cycle=cycle)
    summary = up.summarize(part)
    assert (summary.steps.count, summary.steps.recorded_count) == (WAIT + ACTIVE, ACTIVE)
    assert [each.cycle_count for each in summary.ranks] == [1, 1]
    first = cycle * (WAIT + ACTIVE)
    for times in step_times(part):
        assert times.step.tolist() == list(range(first, first + WAIT + ACTIVE))
        assert all(_close_to(each, STEP_NS[times.rank] * (1 + cycle)) for each in times.duration_ns.tolist())


def test_the_manifest_of_a_cycle_is_about_that_cycle(job: Run) -> None:
    failures = tuple(Failure(source="fake", action="stop", error="E", cycle=cycle) for cycle in (None, 0, 1))
    manifests = {rank: each.model_copy(update={"failures": failures}) for rank, each in job.manifests.items()}
    part = Run(traces=job.traces, manifests=manifests, steps=job.steps).select(rank=1, cycle=1)
    (manifest,) = part.manifests.values()
    assert [record.info.cycle for record in manifest.cycles] == [1]
    assert [failure.cycle for failure in manifest.failures] == [None, 1]
    assert manifest.step_count == WAIT + ACTIVE
    assert _close_to(manifest.overhead.unrecorded_step_ns, 2 * STEP_NS[1])
    duration = up.summarize(part).duration_ns
    assert (WAIT + ACTIVE) * 2 * STEP_NS[1] <= duration < (WAIT + ACTIVE) * 2.2 * STEP_NS[1]


def test_selections_of_all_ranks_and_cycles_make_up_the_run(job: Run) -> None:
    parts = [job.select(rank=rank, cycle=cycle) for rank in (0, 1) for cycle in (0, 1)]
    assert [trace for part in parts for trace in part.traces] == list(job.traces)
    assert sum(up.summarize(part).event_count for part in parts) == up.summarize(job).event_count
    assert job.select() is job
    assert job.select(rank=1).select(cycle=0).steps == job.select(cycle=0).select(rank=1).steps


def test_a_rank_without_a_trace_has_its_manifest(job: Run) -> None:
    killed = Run(traces=[t for t in job.traces if t.info.rank == 0], manifests=job.manifests, steps=job.steps)
    part = killed.select(rank=1)
    assert (part.ranks, len(part.traces)) == ([1], 0)
    assert [notice.code for notice in up.summarize(part).notices] == ["empty_run"]


@pytest.mark.parametrize(("wanted", "named"), [({"rank": 7}, "rank 7"), ({"rank": 0, "cycle": 9}, "rank 0 cycle 9")])
def test_a_part_that_is_missing_is_refused(job: Run, wanted: dict[str, int], named: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"has no trace of {named}\. It holds: rank 0 cycle 0, rank 0 cycle"):
        job.select(**wanted)


@pytest.mark.parametrize("wanted", [{"rank": 1}, {"cycle": 1}, {"rank": 1, "cycle": 0}])
def test_summary_and_report_are_of_the_selection(job: Run, wanted: dict[str, int], tmp_path: Path) -> None:
    expected = up.summarize(job.select(**wanted)).model_dump(mode="json")
    options = [text for name, number in wanted.items() for text in (f"--{name}", str(number))]
    shown = CliRunner().invoke(app, ["summary", str(job.path), *options, "--json"])
    assert json.loads(shown.stdout) == expected
    file = tmp_path / "report.json"
    CliRunner().invoke(app, ["report", str(job.path), *options, "-o", str(file)])
    assert json.loads(file.read_text()) == expected
    assert expected["steps"]["recorded_count"] == len(wanted.keys() & {"cycle"} or "12") * ACTIVE


def test_the_summary_of_one_rank_does_not_count_others(job: Run) -> None:
    shown = CliRunner().invoke(app, ["summary", str(job.path), "--rank", "0"])
    assert "Ranks" not in shown.stdout
