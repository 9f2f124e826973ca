"""What `rank_table` makes of runs in which something is missing or wrong."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import unified_profiler as up
from unified_profiler.analysis import RankTable
from unified_profiler.errors import TraceFormatError
from unified_profiler.testing.fleets import Fleet, Straggler

SLOW = Straggler(rank=1, since=20, extra_ns=4_000_000, operator="layer_3")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    return Fleet(ranks=4, steps=40, outer_ops=20, stragglers=[SLOW]).write(tmp_path)


def changed_manifest(fleet: Path, rank: int, **values: Any) -> None:
    file = fleet / f"rank-{rank:05d}" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def with_steps(trace: up.Trace, first: int, last: int) -> up.Trace:
    step = trace.events.column("step")
    events = trace.events.filter(pc.and_(pc.greater_equal(step, first), pc.less_equal(step, last)))
    return up.Trace(events, trace.info.model_copy(update={"first_step": first, "last_step": last}))


def told(table: RankTable) -> dict[str, dict[str, Any]]:
    return {statement.code: dict(statement.values) for statement in table.notices}


def assert_slow_rank_is_found(table: RankTable) -> None:
    (slow,) = table.stragglers
    assert (slow.rank, slow.since, slow.cause) == (1, 20, "compute")
    assert slow.names[0][0] == "layer_3"


def test_missing_ranks_are_named_and_the_others_compared(fleet: Path) -> None:
    shutil.rmtree(fleet / "rank-00000")
    shutil.rmtree(fleet / "rank-00003")
    table = up.rank_table(up.read(fleet))
    counts = {"missing_count": 2, "rank_count": 2, "world_count": 4}
    assert told(table)["missing"] == {"ranks": "0, 3", **counts}
    assert_slow_rank_is_found(table)


def test_one_rank_of_many_is_shown_but_not_judged(fleet: Path) -> None:
    for rank in (0, 2, 3):
        shutil.rmtree(fleet / f"rank-{rank:05d}")
    table = up.rank_table(up.read(fleet))
    assert [statement.code for statement in table.verdict] == ["single"]
    assert told(table)["missing"]["rank_count"] == 1
    assert set(table.table.column("skew_ns").to_pylist()) == {None}


def test_ranks_with_different_schedules_are_compared_where_they_overlap(fleet: Path) -> None:
    run = up.read(fleet)
    spans = [(0, 39), (10, 39), (0, 34), (0, 39)]
    traces = [with_steps(trace, *span) for trace, span in zip(run.traces, spans, strict=True)]
    table = up.rank_table(replace(run, traces=tuple(traces)))
    assert told(table)["different_steps"] == {"common_count": 25, "step_count": 40}
    assert_slow_rank_is_found(table)


def test_schedules_without_a_common_step_give_no_verdict(fleet: Path) -> None:
    run = up.read(fleet)
    traces = [with_steps(trace, 10 * number, 10 * number + 9) for number, trace in enumerate(run.traces)]
    table = up.rank_table(replace(run, traces=tuple(traces)))
    assert [statement.code for statement in table.verdict] == ["too_few"]
    assert told(table)["different_steps"]["common_count"] == 0
    assert len(table.table) == 40


def test_a_rank_that_died_is_named_with_its_last_step(fleet: Path) -> None:
    changed_manifest(fleet, 2, ended_ns=None, step_count=30)
    run = up.read(fleet)
    traces = [with_steps(trace, 0, 29 if trace.info.rank == 2 else 39) for trace in run.traces]
    table = up.rank_table(replace(run, traces=tuple(traces)))
    assert told(table)["died"] == {"rank": 2, "last": 29}
    assert told(table)["different_steps"]["common_count"] == 30
    assert_slow_rank_is_found(table)


def test_a_rank_that_died_before_its_first_step_has_no_last_one(fleet: Path) -> None:
    changed_manifest(fleet, 2, ended_ns=None, step_count=0)
    (fleet / "rank-00002" / "cycle-00000.parquet").unlink()
    table = up.rank_table(up.read(fleet))
    assert told(table)["died_early"] == {"rank": 2}
    assert "step -1" not in " ".join(table.footer)
    assert_slow_rank_is_found(table)


def test_two_traces_of_one_rank_are_refused_with_their_files(fleet: Path) -> None:
    shutil.copytree(fleet / "rank-00001", fleet / "rank-00007")
    with pytest.raises(TraceFormatError, match="2 traces are of cycle 0 of rank 1") as caught:
        up.rank_table(up.read(fleet))
    assert "rank-00001" in str(caught.value)
    assert "rank-00007" in str(caught.value)


def test_ranks_that_disagree_how_many_they_are(fleet: Path) -> None:
    changed_manifest(fleet, 3, world_size=8)
    table = up.rank_table(up.read(fleet))
    assert told(table)["world_sizes"] == {"sizes": "4, 8"}
    assert told(table)["missing"]["ranks"] == "4, 5, 6, 7"
    assert_slow_rank_is_found(table)


def test_an_empty_run_says_so() -> None:
    table = up.rank_table(up.Run(traces=()))
    assert [statement.code for statement in table.verdict] == ["no_steps"]
    assert len(table.table) == 0
