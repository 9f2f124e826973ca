"""The report as a notebook shows it, in a frame, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.integrations import ipython
from unified_profiler.report.page import page

pytestmark = pytest.mark.browser

NCCL = Path(__file__).parents[1] / "golden" / "kineto" / "nccl_rank.json.gz"
TITLE = "A notebook"


@pytest.fixture(scope="module")
def notebook(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page with a report in the frame of the magic."""
    file = tmp_path_factory.mktemp("notebook") / "notebook.html"
    frame = ipython._FRAME.format(escape(page(up.read(NCCL))))
    file.write_text(f'<!DOCTYPE html><meta charset="utf-8"><title>{TITLE}</title><p>Above</p>{frame}', encoding="utf-8")
    context = browser.new_context(locale="en-GB", viewport={"width": 1000, "height": 900})
    shown = context.new_page()
    complaints: list[str] = []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.goto(file.as_uri())
    yield shown
    assert complaints == []
    context.close()


@pytest.fixture
def report(notebook: Any) -> Any:
    """The document in the frame."""
    (frame,) = notebook.main_frame.child_frames
    frame.wait_for_selector("html[data-ready=complete]")
    return frame


def test_a_report_works_in_the_frame_of_a_notebook(report: Any) -> None:
    assert report.is_visible("#operators-table tbody tr:not(.space)")
    assert report.is_hidden("#trouble")


@pytest.mark.parametrize("section", ["operators", "timeline", "devices", "overview"])
def test_links_to_sections_stay_in_the_frame(report: Any, notebook: Any, section: str, eventually: Any) -> None:
    report.click(f"nav a[href='#{section}']")
    assert report.evaluate("location.href") == f"about:srcdoc#{section}"
    top = f"document.getElementById('{section}').getBoundingClientRect().top"
    assert eventually(notebook, lambda: 0 <= report.evaluate(top) < 300)
    assert notebook.title() == TITLE


def test_a_frame_has_no_access_to_its_notebook(report: Any) -> None:
    script = "() => { try { return parent.document.title } catch (error) { return error.name } }"
    assert report.evaluate(script) == "SecurityError"


def test_the_theme_can_be_chosen_without_storage(report: Any) -> None:
    report.select_option("#theme", "dark")
    assert report.get_attribute("html", "data-theme") == "dark"
