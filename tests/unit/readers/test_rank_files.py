"""A directory of native traces, one or several per rank, is a run."""

from __future__ import annotations

import gzip
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from unified_profiler.analysis import rank_table
from unified_profiler.errors import TraceFormatError
from unified_profiler.export import write
from unified_profiler.model.run import Run
from unified_profiler.readers import read

GOLDEN = Path(__file__).parents[2] / "golden"


def trace(path: Path, *, start: float = 1.0, **header: Any) -> None:
    """Write a Kineto trace with one operator."""
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": start, "dur": 2.0, "args": {}}
    text = json.dumps({"schemaVersion": 1, **header, "traceEvents": [event]}).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def files(run: Run) -> dict[tuple[int, int], str]:
    """Return the file of each rank and cycle."""
    return {(t.info.rank, t.info.cycle): Path(t.info.source or "").name for t in run.traces}


def rank(number: int, size: int) -> dict[str, Any]:
    return {"distributedInfo": {"rank": number, "world_size": size}}


def test_two_ranks_of_one_job_are_a_run(tmp_path: Path) -> None:
    for number in (0, 1):
        shutil.copy(GOLDEN / "kineto" / f"filter_rank{number}.json.gz", tmp_path)
    run = read(tmp_path)
    assert files(run) == {(0, 0): "filter_rank0.json.gz", (1, 0): "filter_rank1.json.gz"}
    assert {t.info.world_size for t in run.traces} == {128}
    for number, part in enumerate(run.traces):
        (alone,) = read(tmp_path / f"filter_rank{number}.json.gz").traces
        assert part.events.equals(alone.events)


def test_ranks_of_other_programs_can_be_compared(tmp_path: Path) -> None:
    for number in (0, 1):
        shutil.copy(GOLDEN / "kineto" / f"filter_rank{number}.json.gz", tmp_path)
    assert set(rank_table(read(tmp_path)).table.column("rank").to_pylist()) == {0, 1}


def test_the_recorded_rank_counts_before_that_in_the_name(tmp_path: Path) -> None:
    trace(tmp_path / "rank0.json", **rank(1, 2))
    trace(tmp_path / "rank1.json", **rank(0, 2))
    assert files(read(tmp_path)) == {(0, 0): "rank1.json", (1, 0): "rank0.json"}


@pytest.mark.parametrize(
    "pattern", ["rank{}.json.gz", "trace_rank_{}.json", "Rank-{:05d}.json", "job.rank{}.pt.trace.json"]
)
def test_the_rank_in_the_name_counts_where_none_is_recorded(pattern: str, tmp_path: Path) -> None:
    names = {number: pattern.format(number) for number in (2, 10, 0)}
    for name in names.values():
        trace(tmp_path / name)
    run = read(tmp_path)
    assert files(run) == {(number, 0): name for number, name in names.items()}
    assert {t.info.world_size for t in run.traces} == {11}
    assert {n for t in run.traces for n in t.events.column("rank").to_pylist()} == set(names)


def test_names_without_a_rank_are_numbered_in_their_order_with_numbers_by_value(tmp_path: Path) -> None:
    for name in ("worker10.json", "worker9.json", "frank3.json"):
        trace(tmp_path / name)
    assert files(read(tmp_path)) == {(0, 0): "frank3.json", (1, 0): "worker9.json", (2, 0): "worker10.json"}


def test_names_without_a_rank_get_the_numbers_that_are_left(tmp_path: Path) -> None:
    trace(tmp_path / "a.json")
    trace(tmp_path / "b.json", **rank(0, 3))
    trace(tmp_path / "c.json")
    assert files(read(tmp_path)) == {(0, 0): "b.json", (1, 0): "a.json", (2, 0): "c.json"}


def test_files_of_one_rank_are_its_cycles_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    trace(tmp_path / "a.json", start=30.0, **rank(1, 2))
    trace(tmp_path / "b.json", start=10.0, **rank(1, 2))
    trace(tmp_path / "c.json", start=20.0, **rank(0, 2))
    run = read(tmp_path)
    assert files(run) == {(0, 0): "c.json", (1, 0): "b.json", (1, 1): "a.json"}
    assert [set(t.events.column("cycle").to_pylist()) for t in run.traces] == [{0}, {0}, {1}]


def test_the_cycles_that_torch_writes_for_a_process_are_of_one_rank(tmp_path: Path) -> None:
    trace(tmp_path / "host_17.1700000000000000002.pt.trace.json", start=2.0)
    trace(tmp_path / "host_17.1700000000000000001.pt.trace.json", start=1.0)
    trace(tmp_path / "host_9.1700000000000000003.pt.trace.json.gz", start=3.0)
    assert files(read(tmp_path)) == {
        (0, 0): "host_9.1700000000000000003.pt.trace.json.gz",
        (1, 0): "host_17.1700000000000000001.pt.trace.json",
        (1, 1): "host_17.1700000000000000002.pt.trace.json",
    }


def test_what_is_no_trace_is_ignored_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trace(tmp_path / "rank0.json")
    (tmp_path / "notes.txt").write_text("lr 0.1", encoding="ascii")
    (tmp_path / "config.json").write_text('{"lr": 0.1}', encoding="ascii")
    (tmp_path / "checkpoints").mkdir()
    with caplog.at_level(logging.WARNING, logger="unified_profiler"):
        assert files(read(tmp_path)) == {(0, 0): "rank0.json"}
    assert "ignored checkpoints, config.json, notes.txt" in caplog.text


def test_a_damaged_trace_among_them_is_named(tmp_path: Path) -> None:
    trace(tmp_path / "rank0.json")
    trace(tmp_path / "rank1.json")
    (tmp_path / "rank1.json").write_bytes((tmp_path / "rank1.json").read_bytes()[:-10])
    with pytest.raises(TraceFormatError, match=r"rank1\.json"):
        read(tmp_path)


def test_traces_of_different_jobs_are_refused(tmp_path: Path) -> None:
    trace(tmp_path / "a.json", **rank(0, 2))
    trace(tmp_path / "b.json", **rank(1, 4))
    with pytest.raises(TraceFormatError, match=r"different jobs: 2 ranks in a\.json; 4 ranks in b\.json"):
        read(tmp_path)


def test_files_of_this_package_are_not_taken_for_native_ones(tmp_path: Path) -> None:
    trace(tmp_path / "rank0.json")
    write(read(tmp_path / "rank0.json").traces[0], tmp_path / "exported.json")
    with pytest.raises(TraceFormatError, match=r"holds no run; it holds exported\.json, rank0\.json"):
        read(tmp_path)


def test_directories_of_native_profilers_are_ranks_too(tmp_path: Path) -> None:
    for number, name in ((0, "graph_ascend_ms"), (2, "made_up_ascend_ms")):
        shutil.copytree(GOLDEN / "mindspore" / name, tmp_path / f"{3 - number}_ascend_ms")
    assert files(read(tmp_path)) == {(0, 0): "3_ascend_ms", (2, 0): "1_ascend_ms"}
