from __future__ import annotations

import re
from string import Formatter

import pytest

from unified_profiler.analysis.categories import categories
from unified_profiler.model.statements import Statement
from unified_profiler.presentation.texts import LANGUAGES, format_value, render_statement, render_text, texts
from unified_profiler.report.spans import span_categories


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_every_language_says_the_same_things() -> None:
    assert texts("en").keys() == texts("zh").keys()


def test_every_language_uses_the_same_values() -> None:
    assert {key: placeholders(text) for key, text in texts("en").items()} == {
        key: placeholders(text) for key, text in texts("zh").items()
    }


def test_sentences_in_chinese_are_chinese() -> None:
    sentences = {key: text for key, text in texts("zh").items() if key.startswith(("notice.", "finding."))}
    foreign = {key for key, text in sentences.items() if not re.search(r"[\u4e00-\u9fff]", text)}
    assert foreign == {"notice.hint"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_category_has_a_name(language: str) -> None:
    assert {f"category.{name}" for name in {*categories(), *span_categories()}} <= texts(language).keys()


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("step_ns", 1_500_000, "1.500 ms"),
        ("peak_bytes", 2048, "2.00 KiB"),
        ("self_share", 0.125, "12.5%"),
        ("overhead_ratio", 1.5, "1.50\u00d7"),
        ("call_count", 12345, "12,345"),
        ("rank", 3, "3"),
        ("error", "a\nb", "a\\nb"),
        ("error", None, "\u2013"),
        ("category", "matmul", "matrix multiplication"),
    ],
)
def test_how_a_value_is_shown_follows_from_its_name(name: str, value: float | str | None, shown: str) -> None:
    assert format_value(name, value) == shown


def test_values_of_others_are_cut() -> None:
    assert len(render_text("notice.hint", {"hint": "x" * 10_000})) == 300


@pytest.mark.parametrize(
    ("key", "values", "shown"),
    [
        ("ui.calls", {"call_count": 1}, "1 call"),
        ("ui.calls", {"call_count": 2}, "2 calls"),
        ("ui.calls", {"call_count": 0}, "0 calls"),
        ("ui.calls", {"call_count": 1001}, "1,001 calls"),
        ("ui.calls", {"call_count": None}, "\u2013 calls"),
        ("ui.diff.why.other_calls", {"candidate_calls": "1", "baseline_calls": "1.5"}, "1 call per step instead"),
        ("ui.rows_of", {"shown_count": 1, "all_count": 20}, "1 of 20 rows"),
        ("notice.more_failures", {"more_count": 1}, "1 more failure is in"),
        ("notice.more_failures", {"more_count": 3}, "3 more failures are in"),
        ("ranks.missing", {"missing_count": 1, "ranks": "3", "rank_count": 3, "world_count": 4}, "Rank 3 wrote"),
    ],
)
def test_words_are_singular_where_the_number_before_them_is_one(
    key: str, values: dict[str, int | str | None], shown: str
) -> None:
    assert render_text(key, {"ratio": "2\u00d7", **values}).startswith(shown)


ALWAYS_SEVERAL = {"notice.missing_ranks", "ranks.equal", "devices.idle_of_several"}
"""Sentences about several ranks or devices."""
TWO_NUMBERS = {"diff.verdict.unrecorded", "diff.verdict.unrecorded_few"}
"""Sentences with a plural after two numbers: from 1 and 1 steps."""


def test_no_sentence_in_english_has_a_plural_after_one() -> None:
    counted = {key for key, text in texts("en").items() if any(map(is_number, placeholders(text)))}
    assert len(counted) > 50
    wrong = {key for key in counted if re.search(r"\b1 (\w+ )?(?!is\b|was\b)\w+s\b", with_ones(key))}
    assert wrong == ALWAYS_SEVERAL | TWO_NUMBERS


def is_number(name: str) -> bool:
    return name.endswith(("_count", "_calls"))


def with_ones(key: str) -> str:
    names = placeholders(texts("en")[key]) - {"side"}
    return render_text(key, {"side": "baseline", **{name: 1 if is_number(name) else "x" for name in names}})


def test_braces_in_values_mean_nothing() -> None:
    assert render_text("notice.hint", {"hint": "{rank} {0}"}) == "{rank} {0}"


def test_a_statement_speaks_every_language() -> None:
    statement = Statement(code="missing_ranks", values={"rank_count": 2, "world_count": 4})
    assert render_statement("notice", statement) == "Only 2 of 4 ranks wrote data to this run."
    assert "4 个 rank 中只有 2 个" in render_statement("notice", statement, language="zh")
