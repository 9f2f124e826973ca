from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unified_profiler as up
from unified_profiler.comparison.markdown import markdown
from unified_profiler.comparison.page import page
from unified_profiler.comparison.records import DiffRow
from unified_profiler.comparison.text import as_text, verdicts
from unified_profiler.model.records import Manifest
from unified_profiler.model.run import Run, completed
from unified_profiler.model.steps import phase_codes, step_table
from unified_profiler.schedule import Phase

StepsOf = Callable[..., up.Trace]
MILLISECOND = 1_000_000


def timed(trace: up.Trace, *, unrecorded: Sequence[int], recorded: int) -> Run:
    """Return a run of a trace whose steps took these times by the clock, in milliseconds."""
    durations = np.array([900, *unrecorded, *[recorded] * 5], np.int64) * MILLISECOND
    phases = phase_codes([Phase.WARMUP, *[Phase.IDLE] * len(unrecorded), *[Phase.RECORD] * 5])
    ends = np.cumsum(durations)
    steps = step_table(rank=0, first=0, start_ns=ends - durations, end_ns=ends, phase=phases)
    manifest = Manifest(
        profiler_version="1", run="r", rank=0, host="h", pid=1, python="3", platform="x", started_ns=0, ended_ns=1
    )
    return Run(traces=(trace,), manifests={0: completed(manifest, (), steps)}, steps=steps)


def ratios(sentences: Sequence[str]) -> list[float]:
    return [float(re.findall(r"([0-9.]+)\u00d7", sentence)[0]) for sentence in sentences]


@pytest.fixture
def pair(steps_of: StepsOf) -> up.Diff:
    """Operators take 1.4 times as long, recorded steps 1.1 times, unrecorded ones 2.3 times."""
    first = timed(steps_of([("a", 1000)]), unrecorded=[10] * 6, recorded=50)
    second = timed(steps_of([("a", 1400)]), unrecorded=[23] * 7, recorded=55)
    return up.diff(first, second)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_wall_time_without_recording_comes_first_then_with_it_then_operators(pair: up.Diff, language: str) -> None:
    found = verdicts(pair, language=language)
    assert ratios(found) == [2.3, 1.1, 1.4]
    assert as_text(pair, language=language).splitlines()[2:5] == found
    for text in (markdown(pair, language=language), page(pair, language=language)):
        first, second, third = (text.index(sentence[:12]) for sentence in found)
        assert first < second < third


def test_each_time_is_called_what_it_is(pair: up.Diff) -> None:
    without, recorded, operators = verdicts(pair)
    assert without.startswith("Without recording, a step takes 23.000 ms of wall time in B and 10.000 ms in A")
    assert "medians of 7 and 6 unrecorded steps" in without
    assert recorded.startswith("While recording, a step takes 55.000 ms of wall time in B")
    assert "summed over all threads" in operators


@pytest.mark.parametrize(
    ("factor", "english", "chinese"),
    [
        (1 / 48, "0.021X, so B is 48 times as fast.", "0.021X,即 B 的速度是 A 的 48 倍"),
        (0.5, "0.50X, so B is 2.0 times as fast.", "0.50X,即 B 的速度是 A 的 2.0 倍"),
        (3, "3.00X, so B takes longer.", "3.00X,即 B 更慢"),
        (1.1, "1.10X.", "1.10X"),
    ],
)
def test_a_clear_ratio_is_put_into_words(steps_of: StepsOf, factor: float, english: str, chinese: str) -> None:
    found = up.diff(steps_of([("a", 48_000)]), steps_of([("a", round(48_000 * factor))]))
    in_english, in_chinese = (
        verdicts(found, language=language)[-1].replace("\u00d7", "X").replace("\uff0c", ",")
        for language in ("en", "zh")
    )
    assert english in in_english
    assert f"{chinese}\u3002" in in_chinese


def test_a_ratio_within_the_threshold_is_not_put_into_words(steps_of: StepsOf) -> None:
    traces = [timed(steps_of([("a", time)]), unrecorded=[10] * 6, recorded=time // 100) for time in (3000, 1000)]
    _, recorded, operators = verdicts(up.diff(*traces, threshold=0.9))
    assert ratios([recorded, operators]) == [0.33, 0.33]
    assert "times as fast" not in recorded + operators
    assert "within the noise" in operators


def test_few_unrecorded_steps_are_not_relied_on_and_do_not_lead(steps_of: StepsOf) -> None:
    trace = steps_of([("a", 1000)])
    pair = [timed(trace, unrecorded=unrecorded, recorded=50) for unrecorded in ([10], [20] * 9)]
    first, _, last = verdicts(up.diff(*pair))
    assert first.startswith("While recording")
    assert "too few to rely on" in last
    assert "so B" not in last


def test_regions_are_wall_time_already(pair: up.Diff, steps_of: StepsOf) -> None:
    found = up.diff(steps_of([("a", 1000)]), steps_of([("a", 1400)]), by="region")
    (sentence,) = verdicts(found)
    assert "of wall time per recorded step" in sentence


def test_a_row_of_one_side_is_not_called_work_that_the_other_does_not_do(steps_of: StepsOf) -> None:
    attention = {"origin": "Attention", "direction": "forward"}
    found = up.diff(steps_of([("conv", 300)]), steps_of([("conv", 300), ("sdpa", 300, attention)]), by="origin")
    assert "only B has rows called Attention forward" in page(found)
    assert "does this" not in page(found)


def _check_shares(rows: Sequence[DiffRow], share: float | None) -> None:
    assert share == pytest.approx(sum(row.difference_share or 0.0 for row in rows))
    for row in rows:
        if row.kind == "group":
            _check_shares(row.rows, row.difference_share)
        assert all(part.difference_share is None for part in row.rows if part.kind == "part")


SIDE = st.lists(st.lists(st.integers(1, 900), min_size=5, max_size=5), min_size=3, max_size=3)


@given(before=SIDE, after=SIDE, by=st.sampled_from(["origin", "name"]))
def test_shares_add_up(before: list[list[int]], after: list[list[int]], by: str) -> None:
    found = up.diff(*(_steps(side) for side in (before, after)), by=by)
    _check_shares(found.rows, found.total.difference_share)
    rows = [row for group in found.rows for row in group.rows] if by == "origin" else found.rows
    moved = sum(abs(row.difference_share or 0.0) for row in rows)
    assert moved == pytest.approx(1.0) or not any(row.difference_ns for row in rows)
    assert abs(found.total.difference_share or 0.0) <= 1.0 + 1e-9


def _steps(times: list[list[int]]) -> up.Trace:
    """Make a trace of three operators that take these times in five steps."""
    from unified_profiler.testing.builders import TraceBuilder

    builder = TraceBuilder(frameworks={"torch": "1"}, first_step=0, last_step=4)
    for step in range(5):
        builder.step(step, step * 10_000, 10_000)
        for number, origin in enumerate(("Conv", "Gemm", "MatMul")):
            columns = {"origin": origin, "direction": "forward", "framework": "torch"}
            builder.op(f"op{number}", step * 10_000 + number * 1000, times[number][step], **columns)
    return builder.build()


def test_the_share_of_the_total_stays_within_all_differences() -> None:
    """Rows that change in different steps: their medians stay, that of the total does not."""
    before = [[100] * 5, [100] * 5, [100] * 5]
    after = [[900, 900, 101, 100, 100], [100, 100, 900, 900, 101], [101, 100, 100, 101, 900]]
    assert abs(up.diff(_steps(before), _steps(after)).total.difference_share or 0.0) <= 1.0
