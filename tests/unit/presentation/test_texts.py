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


def test_braces_in_values_mean_nothing() -> None:
    assert render_text("notice.hint", {"hint": "{rank} {0}"}) == "{rank} {0}"


def test_a_statement_speaks_every_language() -> None:
    statement = Statement(code="missing_ranks", values={"rank_count": 2, "world_count": 4})
    assert render_statement("notice", statement) == "Only 2 of 4 ranks wrote data to this run."
    assert "4 个 rank 中只有 2 个" in render_statement("notice", statement, language="zh")
