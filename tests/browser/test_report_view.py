"""What a reader does with a report in a real browser: links, keys, touch, selecting, and what the address keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

import unified_profiler as up
from unified_profiler.model.records import Manifest
from unified_profiler.testing import TraceBuilder

pytestmark = pytest.mark.browser

NCCL = Path(__file__).parents[1] / "golden" / "kineto" / "nccl_rank.json.gz"
STEP_NS = 1_000_000
ROW = "#operators-table tbody tr:not(.space)"


def small_run() -> up.Run:
    """Three steps: `outer` calls `inner` twice, and `other` calls it once."""
    builder = TraceBuilder(run="20261119-120000-1", frameworks={"torch": "2"}, first_step=0, last_step=2)
    for step in range(3):
        at = step * STEP_NS
        builder.step(step, at, STEP_NS)
        builder.op("outer", at + 100_000, 300_000, op="Outer", module="net.0")
        builder.op("inner", at + 110_000, 100_000, op="Inner", module="net.0", input_shapes="[[4,4]]")
        builder.op("inner", at + 220_000, 50_000, op="Inner", module="net.0", input_shapes="[[8,8]]")
        builder.op("other", at + 500_000, 200_000, op="Outer", module="net.1")
        builder.op("inner", at + 510_000, 100_000, op="Inner", module="net.1", input_shapes="[[4,4]]")
    return up.Run(traces=(builder.build(),))


def plain_run() -> up.Run:
    """One step of one operator, with nothing beyond its time."""
    return up.Run(traces=(TraceBuilder().step(0, 0, STEP_NS).op("a", 1000, 5000).build(),))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return up.write(small_run(), tmp_path_factory.mktemp("view") / "report.html")


@pytest.fixture(scope="module")
def plain_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return up.write(plain_run(), tmp_path_factory.mktemp("view") / "plain.html")


@pytest.fixture(scope="module")
def gpu_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return up.write(up.read(NCCL), tmp_path_factory.mktemp("view") / "gpu.html")


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a report at an address; afterwards nothing was complained of."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def open_it(file: Path, *, at: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"locale": "en-GB", "viewport": {"width": 1280, "height": 900}, **options})
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri() + at)
        page.wait_for_selector("html[data-ready=complete]")
        contexts.append(context)
        return page

    yield open_it
    assert complaints == []
    for context in contexts:
        context.close()


def address(page: Any) -> dict[str, str]:
    """What the address keeps."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def row_named(page: Any, name: str) -> Any:
    return page.locator(ROW).filter(has=page.locator("th", has_text=re.compile(f"^{name}$")))


def detail_rows(page: Any, number: int) -> list[str]:
    """The rows of the table of callers (0) or callees (1) of the selected operator."""
    rows: list[str] = page.locator("#operators-detail table").nth(number).locator("tbody tr").all_inner_texts()
    return [" ".join(row.split()) for row in rows]


# --- an operator, and where it is ---------------------------------------------------------------------------------


def test_a_selected_operator_shows_its_callers_and_what_it_calls(report: Path, open_page: Any) -> None:
    page = open_page(report)
    row_named(page, "inner").click()
    assert detail_rows(page, 0) == ["outer 450.000 us 6", "other 300.000 us 3"]
    page.click("#operators-detail button:has-text('outer')")
    assert detail_rows(page, 0) == ["step 900.000 us 3"]
    assert detail_rows(page, 1) == ["inner 450.000 us 6"]


def many_operators() -> up.Run:
    """One step with operators whose names differ at their ends, some of which belong to no module."""
    builder = TraceBuilder(first_step=0, last_step=0).step(0, 0, STEP_NS)
    for number in range(40):
        columns = {"module": "net.0"} if number % 2 else {}
        name = f"autograd::engine::evaluate_function: Backward{number:02}"
        builder.op(name, number * 10_000, 9000 - number, input_shapes="[[4,4]]", **columns)
    return up.Run(traces=(builder.build(),))


@pytest.fixture(scope="module")
def long_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return up.write(many_operators(), tmp_path_factory.mktemp("view") / "long.html")


def is_seen(page: Any, selector: str) -> bool:
    """Whether an element is at the top of what is drawn in its middle."""
    found: bool = page.locator(selector).evaluate("""element => {
        const {x, y, width, height} = element.getBoundingClientRect();
        return element.contains(document.elementFromPoint(x + width / 2, y + height / 2));
    }""")
    return found


@pytest.mark.parametrize("size", [(1280, 800), (390, 800)])
def test_a_selected_row_and_its_callers_are_both_in_view(
    size: tuple[int, int], long_report: Path, open_page: Any, eventually: Any
) -> None:
    page = open_page(long_report, viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce")
    page.locator("#operators-table").evaluate("table => table.scrollIntoView({block: 'end'})")
    page.locator(ROW).nth(14).click()
    assert eventually(page, lambda: is_seen(page, f"{ROW}[aria-current] > th"))
    assert is_seen(page, "#operators-detail h3")
    assert page.locator("#operators-detail").bounding_box()["y"] < size[1]


def test_the_panel_of_an_operator_closes_by_its_button_and_by_escape(report: Path, open_page: Any) -> None:
    page = open_page(report)
    for field, key in (("#operators-detail .close", "Enter"), ("#operators-table .table-window", "Escape")):
        row_named(page, "inner").click()
        assert page.is_visible("#operators-detail")
        page.focus(field)
        page.keyboard.press(key)
        assert not page.is_visible("#operators-detail")
        assert "operator" not in address(page)


def test_a_search_that_leaves_out_the_selected_row_closes_its_panel(report: Path, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(report)
    row_named(page, "outer").click()
    page.fill("#operators-search", "out")
    expect(page.locator("#operators-count")).to_have_text("1 of 3 rows")
    assert page.is_visible("#operators-detail")
    page.fill("#operators-search", "inn")
    expect(page.locator("#operators-detail")).to_be_empty()
    assert page.input_value("#timeline-search") == ""


def test_a_caller_that_the_search_leaves_out_is_shown_without_the_search(report: Path, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(report)
    page.fill("#operators-search", "inn")
    expect(page.locator("#operators-count")).to_have_text("1 of 3 rows")
    row_named(page, "inner").click()
    page.click("#operators-detail button:has-text('outer')")
    assert row_named(page, "outer").get_attribute("aria-current") == "true"
    assert page.input_value("#operators-search") == ""


def test_a_search_without_a_match_says_so_and_is_cleared_by_a_button(report: Path, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(report)
    page.fill("#operators-search", "nobody")
    expect(page.locator("#operators-table .no-match")).to_contain_text("Nothing contains “nobody”.")
    page.click("#operators-table .no-match button")
    expect(page.locator(ROW)).to_have_count(3)
    assert page.input_value("#operators-search") == ""


@pytest.mark.parametrize("width", [390, 1280])
def test_names_that_differ_at_their_ends_show_their_ends(width: int, long_report: Path, open_page: Any) -> None:
    page = open_page(long_report, viewport={"width": width, "height": 800})
    assert page.locator(f"{ROW} > th").all_inner_texts()[0] == "autograd::engine::evaluate_function: Backward00"
    beyond = "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth).length"
    assert page.locator(f"{ROW} > th").evaluate_all(beyond) == 0


def test_the_columns_fit_a_window_of_1280_pixels_also_by_input_shapes(long_report: Path, open_page: Any) -> None:
    page = open_page(long_report, at="?operators-grouping=shapes", viewport={"width": 1280, "height": 800})
    calls = page.locator("#operators-table button[data-column=call_count]").bounding_box()
    assert calls["x"] + calls["width"] < 1280
    assert page.locator("#operators-table[data-cut]").count() == 0


@pytest.mark.parametrize("language", ["en", "zh"])
def test_words_of_headings_are_whole(language: str, gpu_report: Path, open_page: Any) -> None:
    page = open_page(gpu_report, at=f"?language={language}#devices")
    beyond = "all => all.filter(each => each.scrollWidth > each.clientWidth).map(each => each.textContent)"
    assert page.locator("#devices thead button").evaluate_all(beyond) == []


def test_the_beginning_of_a_signature_of_a_kernel_is_kept(gpu_report: Path, open_page: Any) -> None:
    page = open_page(gpu_report)
    cells = page.locator(f"{ROW} > th", has_text="void cudnn")
    assert cells.count() > 0
    assert cells.locator(".start").count() == 0


def test_a_category_is_never_cut(open_page: Any, tmp_path: Path) -> None:
    builder = TraceBuilder(first_step=0, last_step=0).step(0, 0, STEP_NS).op("empty", 0, 5000, op="x:Alloc")
    page = open_page(up.write(up.Run(traces=(builder.build(),)), tmp_path / "report.html"))
    cell = page.locator(f"{ROW} td.category")
    assert cell.inner_text() == "framework bookkeeping"
    assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


def test_a_table_with_more_to_the_right_has_a_shadow_there(report: Path, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(report, viewport={"width": 390, "height": 800})
    table = page.locator("#operators-table")
    expect(table).to_have_attribute("data-cut", "")
    table.locator(".table-window").evaluate("window => { window.scrollLeft = window.scrollWidth }")
    expect(table).not_to_have_attribute("data-cut", "")


def test_stripes_reach_over_the_first_column(report: Path, open_page: Any) -> None:
    page = open_page(report)
    color = "cell => getComputedStyle(cell).backgroundColor"
    name, number = (page.locator(f"{ROW}.odd > {cell}").first.evaluate(color) for cell in ("th", "td.number"))
    assert name == number


def test_work_in_no_module_is_named(long_report: Path, open_page: Any) -> None:
    page = open_page(long_report, at="?operators-grouping=module")
    assert sorted(page.locator(f"{ROW} > th").all_inner_texts()) == ["in no module", "net.0"]
    row_named(page, "in no module").click()
    assert page.inner_text("#operators-detail h3") == "in no module"
    assert page.input_value("#timeline-search") == ""


def test_it_is_found_in_the_call_tree_and_in_the_timeline(report: Path, open_page: Any) -> None:
    page = open_page(report)
    row_named(page, "inner").click()
    assert page.inner_text("#flame-count") == "2 found"
    assert page.inner_text("#timeline-count") == "3 found"
    assert page.inner_text("#flame-detail").startswith("inner")
    assert "Input shapes [[4,4]]" in page.inner_text("#timeline-detail")
    page.click("#operators-detail button:has-text('Show in the timeline')")
    assert page.evaluate("document.activeElement.id") == "timeline-canvas"


def test_a_name_in_quotes_is_found_exactly(report: Path, open_page: Any) -> None:
    from playwright.sync_api import expect

    page = open_page(report)
    for text, found in (("o", "2 found"), ('"other" | net.0', "4 found"), ('"othe"', "0 found")):
        page.fill("#timeline-search", text)
        expect(page.locator("#timeline-count")).to_have_text(found)


def test_a_selected_row_is_selected_no_longer_by_another_click(report: Path, open_page: Any) -> None:
    page = open_page(report)
    row_named(page, "outer").click()
    assert row_named(page, "outer").get_attribute("aria-current") == "true"
    row_named(page, "outer").click()
    assert page.inner_text("#operators-detail") == ""
    assert page.inner_text("#flame-count") == ""


def test_rows_are_selected_by_the_arrow_keys(report: Path, open_page: Any) -> None:
    page = open_page(report)
    page.focus("#operators-table .table-window")
    page.keyboard.press("ArrowDown")
    first = page.inner_text("#operators-detail h3")
    page.keyboard.press("ArrowDown")
    second = page.inner_text("#operators-detail h3")
    names = page.locator(f"{ROW} > th").all_inner_texts()
    assert [first, second] == names[:2]


def test_a_canonical_operator_selects_all_its_names(report: Path, open_page: Any) -> None:
    page = open_page(report)
    page.check("#operators-grouping input[value=op]", force=True)
    row_named(page, "Outer").click()
    assert page.input_value("#timeline-search") == '"outer" | "other"'
    assert page.inner_text("#timeline-count") == "2 found"


def test_a_module_is_found_in_the_timeline(report: Path, open_page: Any) -> None:
    page = open_page(report)
    page.check("#operators-grouping input[value=module]", force=True)
    row_named(page, "net.1").click()
    assert page.inner_text("#timeline-count") == "2 found"


def test_a_kernel_has_its_stream_operator_delay_and_grid(gpu_report: Path, open_page: Any) -> None:
    page = open_page(gpu_report, at="#devices")
    page.focus("#streams-canvas")
    for _ in range(2):
        page.keyboard.press("ArrowDown")  # the first of the device, and the one of a stream below it
    for _ in range(400):
        page.keyboard.press("ArrowRight")
        shown = page.inner_text("#streams-detail")
        if "Grid" in shown:
            break
    assert re.search(r"Stream stream \d+, cuda:0", shown)
    assert re.search(r"Operator aten::\w+", shown)
    assert re.search(r"Grid \d+ x \d+ x \d+ of \d+ x \d+ x \d+", shown)


# --- from the bottom up -------------------------------------------------------------------------------------------


def test_the_call_tree_is_turned_upside_down(report: Path, open_page: Any) -> None:
    page = open_page(report)
    page.check("#flame-direction input[value=bottom]", force=True)
    page.focus("#flame-canvas")
    spent = {}
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        name, self_time, calls, *_ = page.inner_text("#flame-detail").split(" · ")
        spent[name] = (self_time, calls)
    assert spent["inner"] == ("Self 750.000 us (25.0%)", "Calls 9")
    assert spent["outer"] == ("Self 450.000 us (15.0%)", "Calls 3")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#flame-lead").startswith("The self time of each name")


def test_below_a_name_are_its_callers(report: Path, open_page: Any) -> None:
    page = open_page(report, at="?flame-direction=bottom&operator=inner")
    page.click("#operators-detail button:has-text('Show in the call tree')")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#flame-detail").startswith("outer · Self time of inner 450.000 us")
    assert page.inner_text("#flame-path").split() == ["inner", "outer"]


# --- what is not recorded -----------------------------------------------------------------------------------------


def test_a_section_without_data_names_the_option_that_records_it(plain_report: Path, open_page: Any) -> None:
    page = open_page(plain_report)
    disabled = page.locator(".top nav a[aria-disabled]")
    assert disabled.all_inner_texts() == ["Memory and hardware", "API calls", "Devices", "Ranks"]
    assert "run --api" in page.get_attribute(".top nav a:has-text('API calls')", "title")
    assert "run --record-shapes" in page.inner_text("#missing [data-missing=shapes]")
    assert page.locator("#api, #hardware").count() == 0
    disabled.nth(1).click(force=True)
    assert page.evaluate("location.hash") == "#missing"


def test_no_disabled_section_is_marked_as_the_one_that_is_read(
    plain_report: Path, open_page: Any, eventually: Any
) -> None:
    page = open_page(plain_report, at="#timeline", viewport={"width": 1280, "height": 500}, reduced_motion="reduce")
    current = page.locator(".top nav a[data-current]")
    assert eventually(page, lambda: current.count() == 1)
    page.click(".top nav a:has-text('Ranks')", force=True)
    assert eventually(
        page, lambda: page.evaluate("document.querySelector('#missing').getBoundingClientRect().top < 75")
    )
    assert eventually(page, lambda: current.count() == 0)


def test_options_that_record_what_is_missing_are_code_in_one_piece(plain_report: Path, open_page: Any) -> None:
    page = open_page(plain_report, viewport={"width": 390, "height": 800})
    for language in ("en", "zh"):
        page.select_option("#language", language)
        codes = page.locator("#missing [data-missing=shapes] code")
        assert codes.all_inner_texts() == ["run --record-shapes", "Profiler(record_shapes=True)"]
        lines = "codes => codes.map(code => code.getClientRects().length)"
        assert set(page.locator("#missing code").evaluate_all(lines)) == {1}


def test_groupings_without_data_cannot_be_chosen(plain_report: Path, open_page: Any) -> None:
    page = open_page(plain_report, at="?operators-grouping=module")
    for name, disabled in (("name", False), ("op", False), ("shapes", True), ("module", True)):
        assert page.is_disabled(f"#operators-grouping input[value={name}]") == disabled
    assert "--with-modules" in page.get_attribute("#operators-grouping label:has([value=module])", "title")
    assert page.is_checked("#operators-grouping input[value=name]")


def test_what_is_recorded_is_not_missing(report: Path, open_page: Any) -> None:
    page = open_page(report)
    assert not {"shapes", "modules", "steps", "timeline"} & set(
        page.locator("#missing [data-missing]").evaluate_all("all => all.map(each => each.dataset.missing)")
    )


@pytest.mark.parametrize(("samples", "drawn"), [(4, False), (5, True)])
def test_hardware_is_drawn_from_five_samples_on(samples: int, drawn: bool, open_page: Any, tmp_path: Path) -> None:
    builder = TraceBuilder().step(0, 0, STEP_NS).op("a", 1000, 5000)
    for number in range(samples):
        counter = {"layer": "hardware", "kind": "counter", "value": float(number)}
        builder.op("process CPU %", number * 1000, 0, **counter)
    page = open_page(up.write(up.Run(traces=(builder.build(),)), tmp_path / "report.html"))
    assert page.is_visible("#hardware") == drawn
    if not drawn:
        assert "--hardware-hz 100" in page.inner_text("#missing [data-missing=hardware]")


# --- devices first ------------------------------------------------------------------------------------------------


def test_where_a_device_worked_its_columns_come_first(gpu_report: Path, open_page: Any) -> None:
    page = open_page(gpu_report)
    columns = page.locator("#operators-table thead button").evaluate_all("all => all.map(each => each.dataset.column)")
    assert columns[:4] == ["name", "category", "self_device_share", "self_device_ns"]
    assert page.get_attribute("#operators-table th:has([data-column=self_device_ns])", "aria-sort") == "descending"


# --- the address --------------------------------------------------------------------------------------------------


def test_the_address_keeps_what_is_shown(report: Path, open_page: Any, eventually: Any) -> None:
    page = open_page(report)
    assert address(page) == {}
    page.select_option("#language", "zh")
    page.click("#timeline-next")
    page.fill("#operators-search", "inn")
    page.click("#operators-table button[data-column=call_count]")
    page.focus("#timeline-canvas")
    page.keyboard.press("w")
    assert eventually(page, lambda: {"operators-search", "timeline"} <= address(page).keys())
    kept = address(page)
    assert {**kept, "timeline": ""} == {
        "language": "zh",
        "step": "1",
        "operators-search": "inn",
        "operators-sort": "-call_count",
        "timeline": "",
    }
    begin, end = map(int, kept["timeline"].split("-"))
    assert 0 < begin < end < STEP_NS
    page.keyboard.press("0")
    assert eventually(page, lambda: "timeline" not in address(page))


def test_an_address_shows_the_same_view(report: Path, open_page: Any) -> None:
    view = {
        "language": "zh",
        "step": "2",
        "timeline": "100000-300000",
        "timeline-search": "inner",
        "operators-grouping": "op",
        "operators-sort": "call_count",
        "operators-search": "inner",
        "operator": "Inner",
        "flame-direction": "bottom",
    }
    page = open_page(report, at=f"?{urlencode(view)}#timeline")
    assert page.get_attribute("html", "lang") == "zh-CN"
    assert page.locator("#timeline-step option:checked").inner_text() == "2"
    assert page.locator(f"{ROW} > th").all_inner_texts() == ["Inner"]
    assert page.get_attribute("#operators-table th:has([data-column=call_count])", "aria-sort") == "ascending"
    assert page.inner_text("#operators-detail h3") == "Inner"
    assert page.is_checked("#flame-direction input[value=bottom]")
    assert {name: address(page)[name] for name in ("timeline", "step", "operator")} == {
        name: view[name] for name in ("timeline", "step", "operator")
    }


def test_an_address_with_nonsense_shows_the_report(report: Path, open_page: Any) -> None:
    nonsense = dict.fromkeys(
        ("language", "step", "rank", "timeline", "operators-grouping", "operators-sort", "operator", "flame-direction"),
        "<b>9-1</b>",
    )
    page = open_page(report, at=f"?{urlencode(nonsense)}#nowhere")
    assert page.is_visible("#overview")
    assert page.locator(ROW).count() == 3


# --- keys ---------------------------------------------------------------------------------------------------------


def test_a_slash_goes_to_the_search_of_what_is_read(report: Path, open_page: Any) -> None:
    page = open_page(report)
    for section in ("operators", "timeline"):
        page.evaluate(f"document.querySelector('#{section}').scrollIntoView({{behavior: 'instant'}})")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == f"{section}-search"
        page.keyboard.type("/")
        assert page.input_value(f"#{section}-search") == "/"
        page.evaluate("document.activeElement.blur()")


def test_a_question_mark_shows_all_keys(report: Path, open_page: Any) -> None:
    page = open_page(report)
    page.keyboard.press("?")
    assert page.is_visible("dialog#keys")
    shown = page.inner_text("dialog#keys")
    assert "Zoom a timeline or call tree in and out" in shown
    page.keyboard.press("Escape")
    assert not page.is_visible("dialog#keys")


# --- words ---------------------------------------------------------------------------------------------------------


def test_steps_have_their_names_in_the_language_of_the_page(report: Path, open_page: Any) -> None:
    page = open_page(report, at="?language=zh&operator=outer")
    assert detail_rows(page, 0) == ["步 900.000 us 3"]
    for section, name in (("timeline", "第 0 步"), ("flame", "步")):
        page.fill(f"#{section}-search", "")
        page.focus(f"#{section}-canvas")
        page.keyboard.press("Escape")
        page.keyboard.press("ArrowRight")
        assert page.inner_text(f"#{section}-detail").startswith(f"{name} · ")
    page.select_option("#language", "en")
    assert page.inner_text("#timeline-detail").startswith("step 0 · ")


DRAWN = """const drawn = window.drawn = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    drawn.push(text);
    fillText.call(this, text, ...place);
};"""
"""Keeps all texts that are drawn on canvases."""


def test_lanes_have_names_in_the_language_of_the_page_unless_a_native_profiler_named_them(
    browser: Any, tmp_path: Path
) -> None:
    builder = TraceBuilder(first_step=0, last_step=0).step(0, 0, STEP_NS).op("a", 0, 5000)
    for number, thread in enumerate(["mindspore operators", "pt_autograd_0"]):
        builder.op("b", 10_000, 5000, thread=thread, tid=100 + number)
    file = up.write(up.Run(traces=(builder.build(),)), tmp_path / "report.html")
    page = browser.new_context().new_page()
    page.add_init_script(DRAWN)
    page.goto(f"{file.as_uri()}?language=zh")
    page.wait_for_selector("html[data-ready=complete]")
    drawn = [text.partition(" (")[0] for text in page.evaluate("drawn")]
    assert {"主线程", "mindspore 算子", "pt_autograd_0"} <= set(drawn)
    assert "main thread" not in drawn
    page.context.close()


def test_groupings_explain_themselves(report: Path, open_page: Any) -> None:
    page = open_page(report)
    titles = {
        name: page.get_attribute(f"#operators-grouping label:has([value={name}])", "title") for name in ("name", "op")
    }
    assert "aten::mm" in titles["name"]
    assert "ONNX" in titles["op"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_guide_has_one_name_in_chinese(language: str, report: Path, open_page: Any) -> None:
    page = open_page(report, at=f"?language={language}")
    names = {
        page.locator(selector).first.text_content()
        for selector in ("nav [href='#reading']", "a.reading", "#reading-title")
    }
    assert (names == {"阅读指南"}) == (language == "zh")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("train.py",), None),
        (("train.py", "--name", "a b"), "train.py --name 'a b'"),
        (("src/train.py",), "src/train.py"),
    ],
)
def test_the_command_line_is_below_the_title_if_it_says_more(
    command: tuple[str, ...], shown: str | None, open_page: Any, tmp_path: Path
) -> None:
    process = Manifest(
        profiler_version="1", run="r", rank=0, host="h", pid=1, python="3", platform="x", started_ns=0, ended_ns=1
    )
    manifest = process.model_copy(update={"command": command})
    run = up.Run(traces=plain_run().traces, manifests={0: manifest})
    page = open_page(up.write(run, tmp_path / "report.html"))
    line = page.locator("#overview-command")
    assert (line.inner_text() if line.is_visible() else None) == shown


def test_cpu_of_the_process_and_of_the_system_have_charts_of_their_own(open_page: Any, tmp_path: Path) -> None:
    builder = TraceBuilder().step(0, 0, STEP_NS).op("a", 1000, 5000)
    for number in range(5):
        for name in ("process CPU %", "system CPU %"):
            builder.op(name, number * 1000, 0, layer="hardware", kind="counter", value=50.0 + number)
    page = open_page(up.write(up.Run(traces=(builder.build(),)), tmp_path / "report.html"))
    assert page.locator("#hardware-charts h3").all_inner_texts() == [
        "CPU of the process (100% is one core)",
        "CPU of the system (100% is all cores)",
    ]


def test_warm_up_steps_are_explained_where_there_are_some(report: Path, open_page: Any, tmp_path: Path) -> None:
    with up.Profiler(output_dir=tmp_path, level=1, schedule=up.schedule(wait=1, warmup=1, active=1)) as prof:
        for _ in range(3):
            prof.step()
    page = open_page(up.write(up.read(tmp_path), tmp_path / "report.html"))
    assert "Warm-up steps are recorded and dropped" in page.inner_text("#steps-chart .sentence")
    assert "Warm-up" not in open_page(report).inner_text("#steps-chart .sentence")


# --- touch --------------------------------------------------------------------------------------------------------


def test_two_fingers_zoom_and_one_moves(report: Path, open_page: Any, eventually: Any) -> None:
    page = open_page(report, has_touch=True, viewport={"width": 390, "height": 800})
    page.locator("#timeline-canvas").scroll_into_view_if_needed()
    box = page.locator("#timeline-canvas").bounding_box()
    middle, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = Touch(page)
    touch.start((middle - 20, y), (middle + 20, y))
    for apart in range(30, 120, 10):
        touch.move((middle - apart, y), (middle + apart, y))
    touch.end()
    assert eventually(page, lambda: "timeline" in address(page))
    first, last = map(int, address(page)["timeline"].split("-"))
    assert last - first < STEP_NS / 3
    assert first < STEP_NS / 2 < last
    touch.start((middle, y))
    for moved in range(10, 60, 10):
        touch.move((middle + moved, y))
    touch.end()
    assert eventually(page, lambda: int(address(page)["timeline"].split("-")[0]) < first)
    assert page.evaluate("visualViewport.scale") == 1


def test_the_help_of_a_timeline_is_about_touch_on_a_touch_screen(report: Path, open_page: Any) -> None:
    options = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 800}}
    on_phone, on_desk = (open_page(report, **more).inner_text("#timeline-help") for more in (options, {}))
    assert on_phone.startswith("Two fingers: zoom")
    assert on_desk.startswith("Wheel or W and S: zoom")


class Touch:
    """Fingers on the screen, as the browser gets them from the system."""

    def __init__(self, page: Any) -> None:
        self.session = page.context.new_cdp_session(page)

    def start(self, *fingers: tuple[float, float]) -> None:
        self._send("touchStart", fingers)

    def move(self, *fingers: tuple[float, float]) -> None:
        self._send("touchMove", fingers)

    def end(self) -> None:
        self._send("touchEnd", ())

    def _send(self, kind: str, fingers: tuple[tuple[float, float], ...]) -> None:
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(fingers)]
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


# --- how to read this ---------------------------------------------------------------------------------------------


def test_each_section_leads_to_its_explanation(gpu_report: Path, open_page: Any) -> None:
    page = open_page(gpu_report)
    links = page.locator("a.reading").evaluate_all("all => all.map(each => each.hash)")
    assert {"#reading-overview", "#reading-operators", "#reading-timeline", "#reading-devices"} <= set(links)
    page.click("#timeline a.reading")
    page.wait_for_selector("#reading", state="visible")
    assert not page.is_visible("#operators")
    top = page.evaluate("document.querySelector('#reading-timeline').getBoundingClientRect().top")
    assert 0 <= top < 900
    page.go_back()
    page.wait_for_selector("#operators", state="visible")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("part", ["", "#devices", "#reading"])
def test_a_page_is_no_wider_than_the_window(
    gpu_report: Path, open_page: Any, language: str, width: int, part: str
) -> None:
    page = open_page(gpu_report, at=f"?language={language}{part}", viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not [line for line in page.inner_text("body").splitlines() if "undefined" in line or line.startswith("ui.")]


def test_chinese_is_drawn_with_a_chinese_font(report: Path, open_page: Any) -> None:
    page = open_page(report, at="?language=zh")
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    node = session.send("DOM.querySelector", {"nodeId": root, "selector": "#operators-title"})["nodeId"]
    fonts = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
    assert any(re.search("CJK|WenQuanYi|Zen Hei|Hei|Song", font["familyName"]) for font in fonts), fonts


def test_steps_are_whole_numbers_on_the_axis(report: Path, open_page: Any, eventually: Any) -> None:
    page = open_page(report)
    ticks = page.locator("#steps-chart .xtick text")
    assert eventually(page, lambda: ticks.count() > 0)
    assert ticks.all_text_contents() == ["0", "1", "2"]


def test_the_title_has_the_run_beside_it(report: Path, open_page: Any) -> None:
    assert open_page(report).inner_text("#overview-title") == "20261119-120000-1"
