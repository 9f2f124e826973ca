from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from unified_profiler.errors import ConfigurationError
from unified_profiler.gating import Gate, Verdict, gate
from unified_profiler.gating.judgment import FEWEST_STEPS
from unified_profiler.gating.junit import junit
from unified_profiler.gating.markdown import markdown
from unified_profiler.gating.records import ContributionKind
from unified_profiler.gating.text import as_text
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.presentation.texts import LANGUAGES, texts
from unified_profiler.testing.builders import TraceBuilder

RunOf = Callable[..., Run]
Recorded = Callable[..., Trace]
MS = 1_000_000
OPS = dict.fromkeys(("aten::mm", "aten::add", "aten::relu", "aten::sum", "aten::conv", "aten::copy"), 200000.0)


def steps(count: int = 100, *, ms: float = 5, seed: int = 0) -> list[float]:
    random = np.random.default_rng(seed)
    return [ms * MS * (1 + 0.01 * noise) for noise in random.exponential(size=count).tolist()]


def only(found: Gate) -> tuple[Verdict, str]:
    (judgment,) = found.judgments
    assert found.verdict is judgment.verdict
    return judgment.verdict, judgment.reason.code


# --- steps ------------------------------------------------------------------------------------------------------------


def test_the_same_steps_are_within_bounds(run_of: RunOf) -> None:
    assert only(gate(run_of(steps()), run_of(steps(seed=1)))) == (Verdict.WITHIN, "within")


def test_slower_steps_are_a_regression(run_of: RunOf) -> None:
    found = gate(run_of(steps()), run_of(steps(ms=6)))
    assert only(found) == (Verdict.REGRESSION, "regression")
    (judgment,) = found.judgments
    assert judgment.ratio == pytest.approx(1.2, abs=0.01)
    assert judgment.ratio_low is not None
    assert judgment.ratio_high is not None
    assert judgment.ratio_low < 1.2 < judgment.ratio_high


def test_faster_steps_are_within_bounds(run_of: RunOf) -> None:
    assert gate(run_of(steps()), run_of(steps(ms=3))).verdict is Verdict.WITHIN


def test_first_steps_do_not_count(run_of: RunOf) -> None:
    slow_start = [50.0 * MS] * 10 + steps()
    assert gate(run_of(steps()), run_of(slow_start)).verdict is Verdict.WITHIN


def test_too_few_steps_say_how_many_are_needed(run_of: RunOf) -> None:
    found = gate(run_of(steps()), run_of(steps(15)))
    assert only(found) == (Verdict.INCONCLUSIVE, "few_steps")
    assert found.judgments[0].needed_step_count == FEWEST_STEPS
    assert str(FEWEST_STEPS) in found.judgments[0].reason.text


def test_noise_says_how_many_steps_would_tell(run_of: RunOf) -> None:
    random = np.random.default_rng(3)
    before, after = (run_of(5 * MS * (1 + 0.2 * random.exponential(size=60))) for _ in range(2))
    (judgment,) = gate(before, after, max_regression=0.1).judgments
    assert judgment.reason.code == "noisy_steps"
    assert judgment.needed_step_count is not None
    assert judgment.needed_step_count > 60


def test_so_many_steps_do_tell(run_of: RunOf) -> None:
    random = np.random.default_rng(3)
    before, after = (run_of(5 * MS * (1 + 0.2 * random.exponential(size=2000))) for _ in range(2))
    assert gate(before, after, max_regression=0.1).verdict is Verdict.WITHIN


def test_a_change_of_less_than_a_microsecond_is_too_small(run_of: RunOf) -> None:
    tiny, larger = ([float(time)] * 100 for time in (1000, 1200))
    assert only(gate(run_of(tiny), run_of(larger))) == (Verdict.WITHIN, "too_small")


def test_unrecorded_steps_are_never_set_against_recorded_ones(run_of: RunOf) -> None:
    found = gate(run_of(steps(), phase="idle"), run_of(steps(), phase="record"))
    assert only(found) == (Verdict.INCONCLUSIVE, "few_steps")


def test_recorded_steps_are_taken_where_there_are_too_few_others(run_of: RunOf) -> None:
    found = gate(run_of(steps(), phase="record"), run_of(steps(seed=1), phase="record"))
    assert found.judgments[0].steps == "recorded"
    assert found.verdict is Verdict.WITHIN


# --- several runs -----------------------------------------------------------------------------------------------------


def in_turn(run_of: RunOf, *, ms: float, speeds: list[float], first: int) -> list[Run]:
    return [
        run_of(steps(20, ms=ms * speed, seed=first + place), started=(2 * place + first) * 1000 * MS)
        for place, speed in enumerate(speeds)
    ]


def test_runs_in_turn_are_compared_with_their_neighbors(run_of: RunOf) -> None:
    speeds = [1, 2, 1.5, 3, 1.2, 1]
    before = in_turn(run_of, ms=5, speeds=speeds, first=0)
    assert gate(before, in_turn(run_of, ms=5, speeds=speeds, first=1)).verdict is Verdict.WITHIN
    found = gate(before, in_turn(run_of, ms=5.5, speeds=speeds, first=1))
    assert found.verdict is Verdict.REGRESSION
    assert found.judgments[0].paired


def test_runs_not_in_turn_are_no_pairs_and_that_is_said(run_of: RunOf) -> None:
    speeds = [1, 2, 1.5, 3, 1.2, 1]
    before = in_turn(run_of, ms=5, speeds=speeds, first=0)
    after = in_turn(run_of, ms=5.5, speeds=speeds, first=1000)
    found = gate(before, after)
    assert not found.judgments[0].paired
    assert found.verdict is Verdict.INCONCLUSIVE
    assert [notice.code for notice in found.notices] == ["not_in_turn"]


def test_few_noisy_runs_in_turn_say_how_many_are_needed(run_of: RunOf) -> None:
    before = in_turn(run_of, ms=5, speeds=[1, 1, 1, 1, 1], first=0)
    after = in_turn(run_of, ms=5, speeds=[0.95, 1.1, 0.9, 1.0, 1.08], first=1)
    (judgment,) = gate(before, after).judgments
    assert judgment.reason.code == "noisy_runs"
    assert judgment.needed_run_count is not None
    assert judgment.needed_run_count > 5


# --- ranks ------------------------------------------------------------------------------------------------------------


def test_the_slowest_rank_of_each_step_counts_and_is_named(run_of: RunOf) -> None:
    before = run_of(steps(), steps(ms=4))
    assert gate(before, run_of(steps(), steps(ms=4.9))).verdict is Verdict.WITHIN
    found = gate(before, run_of(steps(), steps(ms=7)))
    assert found.verdict is Verdict.REGRESSION
    assert [(each.kind, each.name) for each in found.judgments[0].contributions] == [("rank", "1")]


def test_one_rank_can_be_judged(run_of: RunOf) -> None:
    before, after = run_of(steps(), steps()), run_of(steps(), steps(ms=7))
    assert gate(before, after, rank=0).verdict is Verdict.WITHIN
    assert gate(before, after, rank=1).verdict is Verdict.REGRESSION
    with pytest.raises(ConfigurationError, match="has no trace of rank 2"):
        gate(before, after, rank=2)


def test_jobs_of_different_sizes_are_refused(run_of: RunOf) -> None:
    with pytest.raises(ConfigurationError, match="different numbers of ranks: 1, 2"):
        gate(run_of(steps()), run_of(steps(), steps()))


def test_a_missing_rank_is_refused_by_its_number(run_of: RunOf) -> None:
    broken = run_of(steps(), world_size=2)
    with pytest.raises(ConfigurationError, match=r"candidate .* lacks rank 1 of 2"):
        gate(run_of(steps(), steps()), broken)
    assert gate(run_of(steps(), steps()), broken, rank=0).verdict is Verdict.WITHIN


def test_a_rank_that_died_is_told(run_of: RunOf) -> None:
    found = gate(run_of(steps()), run_of(steps(), ended=False))
    assert [notice.code for notice in found.notices] == ["not_ended"]


def test_different_schedules_are_told(run_of: RunOf) -> None:
    found = gate(run_of(steps()), run_of(steps(), schedule="other"))
    assert [notice.code for notice in found.notices] == ["other_settings"]


def with_manifests(run: Run, **facts: Any) -> Run:
    manifests = {rank: manifest.model_copy(update=facts) for rank, manifest in run.manifests.items()}
    return replace(run, manifests=manifests)


SURROUNDINGS = {
    "other_hosts": {"host": "another-host"},
    "other_processors": {"processor": "Another CPU"},
    "other_platforms": {"platform": "Linux-another"},
    "other_pythons": {"python": "3.99"},
}


@pytest.mark.parametrize(("code", "facts"), SURROUNDINGS.items())
def test_what_else_differs_between_the_sides_is_told_in_every_form(
    run_of: RunOf, code: str, facts: dict[str, str]
) -> None:
    before = with_manifests(run_of(steps()), processor="One CPU")
    found = gate(before, with_manifests(run_of(steps()), **{"processor": "One CPU", **facts}))
    (value,) = facts.values()
    assert [notice.code for notice in found.notices] == [code]
    assert json.loads(found.model_dump_json())["notices"][0]["values"]["candidate"] == value
    for text in (as_text(found), markdown(found), junit(found), as_text(found, language="zh")):
        assert value in text.replace("\\", "")
    assert gate(before, before).notices == ()


def test_a_processor_that_is_not_known_of_one_side_is_not_compared(run_of: RunOf) -> None:
    assert gate(run_of(steps()), with_manifests(run_of(steps()), processor="One CPU")).notices == ()


def test_different_versions_within_a_side_are_told(recorded: Recorded) -> None:
    before, other = recorded(OPS), recorded(OPS)
    other = Trace(other.events, other.info.model_copy(update={"frameworks": {"torch": "2"}}))
    notices = gate([before, before], [other, before]).notices
    assert [notice.values for notice in notices if notice.code == "other_versions"] == [
        {"baseline": "torch 1", "candidate": "torch 1, torch 2"}
    ]


def test_different_frameworks_are_told(recorded: Recorded) -> None:
    other = recorded(OPS)
    other = Trace(other.events, other.info.model_copy(update={"frameworks": {"mindspore": "1"}}))
    assert [notice.code for notice in gate(recorded(OPS), other).notices] == ["other_frameworks"]


# --- other metrics ----------------------------------------------------------------------------------------------------


def test_an_operator_that_got_slower_is_found_though_the_step_hardly_is(recorded: Recorded) -> None:
    found = gate(recorded(OPS), recorded({**OPS, "aten::mm": 220_000}, seed=1), metric=["op:aten::mm", "step"])
    assert [judgment.verdict for judgment in found.judgments] == [Verdict.REGRESSION, Verdict.WITHIN]
    assert found.judgments[0].contributions[0].name == "aten::mm"


def test_a_step_names_the_operator_that_made_it_slower(recorded: Recorded) -> None:
    (judgment,) = gate(recorded(OPS), recorded({**OPS, "aten::mm": 400_000}, seed=1)).judgments
    assert judgment.verdict is Verdict.REGRESSION
    first = judgment.contributions[0]
    assert (first.kind, first.name, first.differs) == ("operator", "aten::mm", True)
    assert first.share > 0.8


def test_one_run_on_a_slower_machine_is_no_regression(recorded: Recorded) -> None:
    slower = {name: time * 1.3 for name, time in OPS.items()}
    assert only(gate(recorded(OPS), recorded(slower, seed=1))) == (Verdict.INCONCLUSIVE, "machine")


def test_more_than_a_slower_machine_explains_is_a_regression_with_a_note(recorded: Recorded) -> None:
    slower = {name: time * 1.8 for name, time in OPS.items()}
    found = gate(recorded(OPS), recorded(slower, seed=1))
    assert only(found) == (Verdict.REGRESSION, "regression_of_most")
    assert "if the machine was busy, record both sides again" in found.judgments[0].reason.text


def test_a_change_that_no_busy_machine_explains_is_not_blamed_on_one(recorded: Recorded) -> None:
    slower = {name: time * 50 for name, time in OPS.items()}
    found = gate(recorded(OPS), recorded(slower, seed=1))
    assert only(found) == (Verdict.REGRESSION, "regression")
    assert "busy" not in found.judgments[0].reason.text


def test_what_no_operator_covers_is_named(recorded: Recorded) -> None:
    (judgment,) = gate(recorded(OPS), recorded(OPS, seed=1, outside_ns=300_000)).judgments
    assert judgment.verdict is Verdict.REGRESSION
    assert [(each.kind, each.name) for each in judgment.contributions][:1] == [("uncovered", "uncovered")]


def test_every_kind_of_contribution_has_a_word_in_every_language() -> None:
    kinds = get_args(ContributionKind)
    assert all(f"gate.kind.{kind}" in texts(language) for kind in kinds for language in LANGUAGES)


def test_recorded_steps_must_confirm_what_one_run_shows(run_of: RunOf, recorded: Recorded) -> None:
    before, after = steps(60, ms=1.2) + steps(60, ms=1.2), steps(60, ms=2) + steps(60, ms=1.2)
    phases = ["idle"] * 60 + ["record"] * 60
    runs = [
        run_of(times, phase=phases, traces=[recorded(OPS, seed=seed)]) for seed, times in enumerate((before, after))
    ]
    found = gate(*runs)
    assert only(found) == (Verdict.INCONCLUSIVE, "unconfirmed")
    text = found.judgments[0].reason.text
    assert re.search(r"changed by \+6\d\.\d% in unrecorded steps, but by [+-]\d\.\d% in recorded ones", text)


def test_much_slower_recorded_steps_confirm_though_most_operators_are_slower_too(
    run_of: RunOf, recorded: Recorded
) -> None:
    phases = ["idle"] * 60 + ["record"] * 60
    before = run_of(steps(60, ms=1.2) * 2, phase=phases, traces=[recorded(OPS)])
    slower = {name: time * 2.8 for name, time in OPS.items()}
    after = run_of(steps(60, ms=5) + steps(60, ms=3.4), phase=phases, traces=[recorded(slower, seed=1)])
    assert only(gate(before, after)) == (Verdict.REGRESSION, "regression_of_most")


def test_texts_in_chinese_name_the_metric_and_write_changes_as_the_table_does(run_of: RunOf) -> None:
    found = gate(run_of(steps()), run_of(steps(ms=5.05, seed=1)))
    lines = as_text(found, language="zh").splitlines()
    (interval,) = re.findall(r"[+-]\d\.\d% \u2026 [+-]\d\.\d%", "\n".join(lines))
    (reason,) = [line for line in lines if interval.replace("\u2026", "至") in line]
    assert reason.startswith("单步耗时")
    assert "step" not in " ".join(lines)


def test_a_run_without_steps_that_count_is_not_counted(run_of: RunOf) -> None:
    (judgment,) = gate([run_of(steps()), run_of(steps(1))], run_of(steps(seed=1))).judgments
    assert judgment.verdict is Verdict.WITHIN
    assert judgment.baseline.run_count == 1


@pytest.mark.parametrize("metric", ["op:MatMul", "region:forward"])
def test_canonical_operators_and_regions_are_metrics(recorded: Recorded, metric: str) -> None:
    before = recorded(OPS, regions=True)
    assert gate(before, recorded(OPS, regions=True, seed=1), metric=metric).verdict is Verdict.WITHIN
    slower = recorded({**OPS, "aten::mm": 400_000}, regions=True, seed=1)
    assert gate(before, slower, metric=metric).verdict is Verdict.REGRESSION


def test_an_operator_of_every_other_step_is_judged_by_its_mean() -> None:
    def seldom(time: int) -> Trace:
        builder = TraceBuilder(first_step=0, last_step=99)
        for step in range(100):
            builder.step(step, step * MS, MS)
            if step % 2:
                builder.op("now_and_then", step * MS, time + step)
        return builder.build()

    assert gate(seldom(100_000), seldom(100_000), metric="op:now_and_then").verdict is Verdict.WITHIN
    assert gate(seldom(100_000), seldom(150_000), metric="op:now_and_then").verdict is Verdict.REGRESSION


def test_more_memory_is_a_regression() -> None:
    def allocating(amount: int) -> Trace:
        builder = TraceBuilder(first_step=0, last_step=59)
        for step in range(60):
            builder.step(step, step * MS, MS)
            for at, size in ((100, amount), (900, -amount)):
                builder.op("[memory]", step * MS + at * 1000, 0, kind="memory", bytes=size, device="cpu")
        return builder.build()

    mega = 2**20
    before = allocating(100 * mega)
    assert gate(before, allocating(100 * mega), metric="memory").verdict is Verdict.WITHIN
    found = gate(before, allocating(120 * mega), metric="memory")
    assert found.verdict is Verdict.REGRESSION
    assert found.judgments[0].unit == "bytes"
    assert "120.00 MiB" in found.judgments[0].reason.text


def test_the_gravest_verdict_is_that_of_the_gate(recorded: Recorded) -> None:
    found = gate(recorded(OPS), recorded({**OPS, "aten::mm": 400_000}, seed=1), metric=["op:aten::add", "op:aten::mm"])
    assert [judgment.verdict for judgment in found.judgments] == [Verdict.WITHIN, Verdict.REGRESSION]
    assert found.verdict is Verdict.REGRESSION


# --- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("op:aten::nm", "Similar names: 'aten::mm'"),
        ("op:", "must be one of"),
        ("stepp", "Did you mean 'step'"),
        ("region:x", "Mark it with"),
        ("api:torch.mm", "api=True"),
        ("memory", "profile_memory=True"),
        ([], "found none"),
    ],
)
def test_an_unknown_metric_is_refused_with_what_is_near(recorded: Recorded, metric: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        gate(recorded(OPS), recorded(OPS), metric=metric)


def test_an_operator_of_one_side_only_is_refused(recorded: Recorded) -> None:
    with pytest.raises(ConfigurationError, match="The baseline has no operator 'aten::new'"):
        gate(recorded(OPS), recorded({**OPS, "aten::new": 1000}), metric="op:aten::new")


@pytest.mark.parametrize("bound", [5, "5", -0.1, "-5%", float("nan"), "nan", "much", "", 1])
def test_a_bound_that_is_no_part_is_refused(run_of: RunOf, bound: float | str) -> None:
    with pytest.raises(ConfigurationError, match="`max_regression` must be a part of 1"):
        gate(run_of(steps()), run_of(steps()), max_regression=bound)


@pytest.mark.parametrize("bound", [0.05, "5%", "0.05", " 5 % ", 0])
def test_a_bound_is_a_part_or_a_percentage(run_of: RunOf, bound: float | str) -> None:
    assert gate(run_of(steps()), run_of(steps()), max_regression=bound).max_regression in {0.05, 0}


def test_runs_without_steps_are_refused() -> None:
    trace = TraceBuilder().op("aten::mm", 0, 10).build()
    with pytest.raises(ConfigurationError, match="has no steps"):
        gate(trace, trace)


def test_no_run_at_all_is_refused(run_of: RunOf) -> None:
    with pytest.raises(ConfigurationError, match="The candidate must be a run"):
        gate(run_of(steps()), [])
