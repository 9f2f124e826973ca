from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import unified_profiler as up
from unified_profiler.comparison.markdown import markdown
from unified_profiler.comparison.records import DiffRow
from unified_profiler.comparison.text import as_text, headlines, label, remarks, table_of
from unified_profiler.presentation.texts import texts

StepsOf = Callable[..., up.Trace]


@pytest.fixture
def found(steps_of: StepsOf) -> up.Diff:
    conv = {"op": "Conv", "origin": "Conv", "direction": "forward", "flops": 1000}
    before = steps_of([("aten::conv2d", 300, conv), ("strange", 40)])
    after = steps_of([(f"Kernel{i}", 200 + i, conv) for i in range(6)], framework="tensorflow")
    return up.diff(before, after)


def test_every_row_is_printed_with_times_calls_ratio_and_share(found: up.Diff) -> None:
    text = str(found)
    row = next(line for line in text.splitlines() if "Conv forward" in line)
    assert re.search(r"\*\s+0\.300 us\s+1\.215 us\s+0\.915 us\s+4\.05\u00d7\s+1\s+6\s+\u2260\s", row)
    assert text.startswith("A, the baseline: ")
    assert "(no name)" in text
    assert "computed from the input shapes" in text


def test_a_row_that_differs_shows_its_largest_parts_and_sums_up_the_others(found: up.Diff) -> None:
    names = [name.strip() for name in table_of(found).table.column("name").to_pylist()]
    assert names[:6] == ["Total", "convolution", "Conv forward", "aten::conv2d", "Kernel5", "Kernel4"]
    assert "(4 more)" in names
    everything = [name.strip() for name in table_of(found, parts=None).table.column("name").to_pylist()]
    assert {f"Kernel{i}" for i in range(6)} <= set(everything)


def test_the_table_keeps_its_sums(found: up.Diff) -> None:
    rows = table_of(found).table.to_pylist()
    parts = [row for row in rows if row["name"].startswith("    ")]
    conv = next(row for row in rows if row["name"].strip() == "Conv forward")
    assert sum(row["candidate_ns"] or 0 for row in parts) == pytest.approx(conv["candidate_ns"])


def test_markdown_is_one_table_with_what_to_know_above(found: up.Diff) -> None:
    text = markdown(found)
    assert text.startswith("# Comparison\n")
    assert "| \u203a Conv forward |" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_hostile_names_break_neither_lines_nor_tables(steps_of: StepsOf) -> None:
    trace = steps_of([("a|b\n<script>\x1b[31m", 300)])
    found = up.diff(trace, steps_of([("x", 900)]))
    assert "\x1b" not in as_text(found)
    assert "<script>" not in markdown(found)
    widths = {line.count("|") for line in markdown(found).splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_a_side_of_one_step_and_one_thread_has_no_plural(steps_of: StepsOf) -> None:
    one, two = steps_of([("conv", 300)], steps=1), steps_of([("conv", 300)], steps=2)
    first, second = headlines(up.diff(one, two))
    assert " 1 recorded step of " in first
    assert " 1 thread;" in first
    assert " 2 recorded steps of " in second


def test_it_speaks_chinese(found: up.Diff) -> None:
    assert headlines(found, language="zh")[0].startswith("A\uff08基线\uff09")
    assert "前向" in as_text(found, language="zh")


def test_both_languages_have_all_sentences() -> None:
    keys = [{key for key in texts(language) if key.startswith("diff.")} for language in ("en", "zh")]
    assert keys[0] == keys[1]


def test_notebooks_get_a_table(found: up.Diff) -> None:
    assert "<table" in found._repr_html_()


def test_only_groups_have_the_words_of_categories() -> None:
    known = texts("zh")
    assert label(DiffRow(name="copy", kind="group", difference_ns=0), known) == known["category.copy"]
    assert label(DiffRow(name="copy", difference_ns=0), known) == "copy"
    assert label(DiffRow(name="python", difference_ns=0), known) == "python"


def test_a_direction_that_nobody_knows_is_shown_as_it_is() -> None:
    assert label(DiffRow(name="Conv", direction="sideways", difference_ns=0), texts("en")) == "Conv sideways"


def test_notices_call_the_sides_in_their_language(steps_of: StepsOf) -> None:
    named = {"op": "Conv", "origin": "Conv", "direction": "forward"}
    found = up.diff(steps_of([("a", 900, named), ("b", 100)]), steps_of([("a", 900, named)], framework="tensorflow"))
    (said,) = [notice for notice in found.notices if notice.code == "unnamed_part"]
    assert "10.0% of the baseline's time" in said.text
    assert any("\uff1a基线有 10.0%" in line for line in remarks(found, language="zh"))
