"""What the page about ranks holds: the numbers of `rank_table`, bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unified_profiler as up
from unified_profiler.analysis.rank_table import RankTable, rank_table
from unified_profiler.report import rank_view
from unified_profiler.report.document import document
from unified_profiler.report.markdown import markdown
from unified_profiler.testing import TraceBuilder
from unified_profiler.testing.fleets import Fleet, HostClock, Straggler

MS = 1_000_000
SLOW = Straggler(rank=2, since=20, extra_ns=3 * MS, operator="layer_1")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> up.Run:
    folder = tmp_path_factory.mktemp("fleet")
    clocks = {3: HostClock(offset_ns=50 * MS)}
    run: up.Run = up.read(Fleet(ranks=4, steps=40, outer_ops=2, stragglers=[SLOW], clocks=clocks).write(folder))
    return run


@pytest.fixture(scope="module")
def table(fleet: up.Run) -> RankTable:
    return rank_table(fleet)


def cells(view: dict[str, Any], measure: str) -> dict[tuple[int, int], int]:
    """Return the values of a map by rank and step, in nanoseconds."""
    shown = view["maps"][measure]
    return {
        (rank, step): value * shown["unit_ns"]
        for rank, line in zip(view["ranks"], shown["lines"], strict=True)
        for step, value in zip(view["steps"], line, strict=True)
        if value is not None
    }


def test_the_page_holds_the_rank_table(fleet: up.Run, table: RankTable) -> None:
    content = document(fleet)
    shown = content["ranks"]["table"]
    assert shown["columns"] == list(table.ranks.columns)
    assert shown["rows"] == [list(row) for row in table.ranks.rows]
    verdict = [statement.model_dump(mode="json") for statement in table.verdict]
    assert content["summary"]["ranks_verdict"] == verdict
    assert content["ranks"]["notices"] == [notice.model_dump(mode="json") for notice in table.notices]


@pytest.mark.parametrize("measure", rank_view.MEASURES)
def test_the_map_has_each_step_of_each_rank(table: RankTable, measure: str) -> None:
    found = cells(rank_view.rank_view(table), measure)
    expected = {(row.rank, row.step): getattr(row, measure) for row in table.rows}
    assert found.keys() == expected.keys()
    assert len(found) == 4 * 40
    largest = max(map(abs, expected.values()))
    assert all(abs(found[cell] - value) <= largest / 10_000 for cell, value in expected.items())


def test_what_the_verdict_names_is_marked(table: RankTable) -> None:
    view = rank_view.rank_view(table)
    (straggler,) = table.stragglers
    assert straggler.rank == SLOW.rank
    assert view["slow"] == [
        {"rank": 2, "since": straggler.since, "changed": True, "extra_ns": straggler.extra_ns},
    ]


def test_parts_are_medians_of_the_steps_since_which_a_rank_is_slow(table: RankTable) -> None:
    parts = rank_view.rank_view(table)["parts"]
    since = table.stragglers[0].since
    assert parts["since"] == since
    compute = parts["columns"].index("compute_ns")
    for row in parts["rows"]:
        of_rank = [found.compute_ns for found in table.rows if found.rank == row[0] and found.step >= since]
        assert row[compute] == int(np.median(of_rank))


def test_clocks_are_told_where_machines_differ(table: RankTable) -> None:
    clocks = rank_view.rank_view(table)["clocks"]
    assert clocks["method"] == "collectives"
    ahead = {row[0]: row[1] for row in clocks["rows"]}
    assert ahead[3] == pytest.approx(50 * MS, abs=MS / 10)


def test_of_many_steps_those_in_which_ranks_differ_most_stay(table: RankTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_view, "MOST_CELLS", 4 * 8)
    view = rank_view.rank_view(table)
    since = table.stragglers[0].since
    worst = max(table.rows, key=lambda row: row.skew_ns)
    assert {since, worst.step} <= set(view["steps"])
    assert len(view["steps"]) in {8, 9}
    assert view["steps_left_out"] == 40 - len(view["steps"])
    assert view["steps"] == sorted(view["steps"])


def test_of_many_ranks_the_slowest_stay(table: RankTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_view, "MOST_RANKS", 2)
    view = rank_view.rank_view(table)
    assert SLOW.rank in view["ranks"]
    assert (len(view["ranks"]), view["ranks_left_out"]) == (2, 2)
    assert all(len(shown["lines"]) == 2 for shown in view["maps"].values())


def test_a_step_that_a_rank_lacks_stays_empty(make_trace: Any) -> None:
    run = up.Run(traces=(make_trace(steps=range(3)), make_trace(rank=1, steps=range(1, 4))))
    view = document(run)["ranks"]
    assert view["steps"] == [0, 1, 2, 3]
    known = [[value is not None for value in line] for line in view["maps"]["own_ns"]["lines"]]
    assert known == [[True, True, True, False], [False, True, True, True]]


def test_ranks_without_a_step_in_common_have_a_page_all_the_same(make_trace: Any) -> None:
    run = up.Run(traces=(make_trace(steps=range(6)), make_trace(rank=1, steps=range(6, 12))))
    assert len(document(run)["ranks"]["steps"]) == 12


def test_ranks_without_steps_have_a_page_without_a_map() -> None:
    run = up.Run(traces=tuple(TraceBuilder(rank=rank).op("mul", 0, 5).build() for rank in range(2)))
    content = document(run)["ranks"]
    assert (content["steps"], content["table"]["rows"], content["parts"]["rows"]) == ([], [], [])


def test_a_single_rank_has_no_such_page(trace: up.Trace) -> None:
    assert document(trace)["ranks"] is None


@pytest.mark.parametrize(("language", "words"), [("en", "Rank 2 is slow since step"), ("zh", "rank 2 从第")])
def test_the_markdown_says_the_verdict(fleet: up.Run, language: str, words: str) -> None:
    assert words in markdown(up.summarize(fleet), language=language)


def test_of_many_slow_ranks_the_slowest_are_told_and_the_others_counted(fleet: up.Run) -> None:
    summary = up.summarize(fleet)
    said = markdown(summary.model_copy(update={"ranks_verdict": summary.ranks_verdict * 5}))
    assert said.count("is slow since step") == 3
    assert "2 more ranks are slow." in said
