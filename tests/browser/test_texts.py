"""The texts of reports in a real browser: JavaScript inserts values as Python does."""

from __future__ import annotations

from collections.abc import Iterator
from string import Formatter
from typing import Any

import pytest

from unified_profiler.presentation.texts import LANGUAGES, Value, render_text, texts
from unified_profiler.report.page import asset

pytestmark = pytest.mark.browser

RENDER = """([all, language, cases]) => {
    const up = window.unifiedProfilerReport;
    up.useTexts(all, language);
    return cases.map(([key, values]) => up.text(key, values));
}"""
WORDS: dict[str, Value] = {"category": "matmul", "side": None}
"""Values that are words of fixed lists; the scripts have no word for the sides of a diff."""


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    page = browser.new_page()
    page.add_script_tag(content=asset("texts.js"))
    yield page
    page.close()


def values_of(text: str, number: float) -> dict[str, Value]:
    """Return a value for each placeholder."""
    names = {name for _, name, _, _ in Formatter().parse(text) if name}
    numeric = ("_count", "_share", "_ratio", "_ns", "_bytes")
    return {name: WORDS.get(name, number if name.endswith(numeric) else f"<{name}> {{rank}}") for name in names}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("number", [0, 1, 2, 1234, 17_550_000, 192_345_678_901, 12**15])
def test_every_text_reads_as_python_writes_it(page: Any, language: str, number: int) -> None:
    cases = {key: values_of(text, number) for key, text in texts(language).items()}
    all_texts = {name: texts(name) for name in LANGUAGES}
    shown = page.evaluate(RENDER, [all_texts, language, list(cases.items())])
    written = {key: render_text(key, values, language=language) for key, values in cases.items()}
    assert dict(zip(cases, shown, strict=True)) == written
