"""The page of a diff in a real browser: it opens alone, folds, is searched, filtered and sorted, in both languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.comparison.page import page as page_of
from unified_profiler.presentation.texts import LANGUAGES, texts
from unified_profiler.testing import TraceBuilder

pytestmark = pytest.mark.browser

STEP_NS = 1_000_000
HOSTILE = (
    "<script>window.hurt = 1</script>",
    "</script><img src=x onerror='window.hurt = 1'>",
    "\"'><b onclick='window.hurt = 1'>bold</b>",
    "\x00\x1b[31mred\x07\r\n\u202egnp.exe",
    "x" * 10_000,
)
TORCH = (
    ("aten::conv2d", "Conv", 30_000),
    ("aten::bias", "Conv", 6000),
    ("aten::mm", "MatMul", 40_000),
    ("aten::relu", "Relu", 5000),
    ("aten::add", "Add", 3000),
)
KERAS = (("Conv2D", "Conv", 90_000), ("MatMul", "MatMul", 40_100), ("Relu", "Relu", 5010), ("Sub", "Sub", 9000))
NAMES = ".diff-table tbody tr:not([hidden]) bdi"


def trace_of(
    framework: str, ops: tuple[tuple[str, str, int], ...], run: str = "run", scales: tuple[int, ...] = (1,)
) -> up.Trace:
    """Repeat operators in five steps, in which they take some times as long."""
    builder = TraceBuilder(run=run, frameworks={framework: "1"}, first_step=0, last_step=4)
    for step in range(5):
        at = step * STEP_NS
        builder.step(step, at, STEP_NS)
        for name, origin, took in ops:
            columns = {"op": origin, "origin": origin, "direction": "forward", "input_shapes": origin}
            duration = took * scales[step % len(scales)]
            builder.op(name, at, duration, framework=framework, **columns)
            at += duration
    return builder.build()


def runs() -> up.Diff:
    return up.diff(trace_of("torch", TORCH), trace_of("tensorflow", KERAS))


ADDRESS = "http://diff.test/"
"""Nothing is there: the test answers."""


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open diffs; afterwards nothing was complained of, and nothing asked for but the file.

    With `served` a page comes from a server, since Chromium may lose what a page of a file stores when it is reloaded.
    `address` is the end of its address, `before` a script that runs first, and a page that is `broken` may complain.
    """
    pages: list[Any] = []
    complaints: list[str] = []
    requests: list[str] = []

    def open_it(
        found: up.Diff | None = None,
        *,
        language: str = "en",
        served: bool = False,
        address: str = "",
        before: str = "",
        broken: bool = False,
        **options: Any,
    ) -> Any:
        file = tmp_path / f"{len(pages)}.html"
        file.write_text(page_of(found or runs(), language=language), encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        page = context.new_page()
        page.add_init_script(before)
        if not broken:
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        if served:
            page.route(f"{ADDRESS}**", lambda route: route.fulfill(path=file))
        page.goto(ADDRESS if served else file.as_uri() + address)
        pages.append(page)
        return page

    yield open_it
    assert complaints == []
    assert {url.partition(":")[0] for url in requests if not url.startswith(ADDRESS)} <= {"file", "data"}
    for page in pages:
        page.context.close()


def names(page: Any) -> list[str]:
    found: list[str] = page.locator(NAMES).all_inner_texts()
    return found


def row(page: Any, name: str) -> Any:
    return page.locator("#tree-rows tr", has=page.locator(f"bdi:text-is('{name}')"))


def test_it_begins_with_the_rows_of_groups_that_differ(opened: Callable[..., Any]) -> None:
    page = opened()
    page.wait_for_selector("html[data-ready=complete]")
    assert names(page) == [
        "Total",
        "convolution",
        "Conv forward",
        "elementwise",
        "Sub forward",
        "Add forward",
        "matrix multiplication",
        "activation",
    ]


def test_a_click_on_a_name_folds_and_unfolds(opened: Callable[..., Any]) -> None:
    page = opened()
    before = names(page)
    button = row(page, "Conv forward").locator("button")
    assert button.get_attribute("aria-expanded") == "false"
    row(page, "Conv forward").locator("bdi").click()
    assert button.get_attribute("aria-expanded") == "true"
    assert [name for name in names(page) if name not in before] == ["Conv2D", "aten::conv2d", "aten::bias"]
    row(page, "convolution").locator("button").click()
    assert not {"Conv forward", "Conv2D"} & set(names(page))
    row(page, "convolution").locator("button").click()
    assert {"Conv forward", "Conv2D"} <= set(names(page))


def test_rows_fold_by_keyboard(opened: Callable[..., Any]) -> None:
    page = opened()
    button = row(page, "activation").locator("button")
    button.focus()
    page.keyboard.press("Enter")
    assert "Relu forward" in names(page)
    assert page.get_by_role("button", name="activation", expanded=True).count() == 1
    page.keyboard.press("Space")
    assert "Relu forward" not in names(page)


def test_all_rows_fold_at_once(opened: Callable[..., Any]) -> None:
    page = opened()
    page.click("#unfold")
    assert page.locator("#tree-rows tr[hidden]").count() == 0
    page.click("#fold")
    assert page.locator("#tree-rows tr:not([hidden])").count() == page.locator("#tree-rows tr[data-level='0']").count()


def test_searching_opens_what_is_around_and_afterwards_closes_it(opened: Callable[..., Any]) -> None:
    page = opened()
    before = names(page)
    everything = page.locator("#tree-rows tr").count()
    page.fill("#search", "CONV2D")
    assert names(page) == ["Total", "convolution", "Conv forward", "Conv2D", "aten::conv2d"]
    assert page.inner_text("#count") == f"4 of {everything} rows, including those inside others"
    page.fill("#search", "")
    assert names(page) == before


def test_a_search_without_a_match_is_cleared_by_a_button(opened: Callable[..., Any]) -> None:
    page = opened()
    before = names(page)
    page.fill("#search", "no such operator")
    assert names(page) == ["Total"]
    assert page.inner_text("#no-match").startswith("Nothing contains “no such operator”.")
    page.click("#no-match button")
    assert names(page) == before
    assert page.input_value("#search") == ""
    assert page.inner_text("#no-match") == ""


def test_only_what_differs_can_be_shown(opened: Callable[..., Any]) -> None:
    page = opened()
    page.click("#unfold")
    everything = names(page)
    page.check("#only-differs")
    assert names(page) == [
        *("Total", "convolution", "Conv forward", "Conv2D", "aten::conv2d", "aten::bias"),
        *("elementwise", "Sub forward", "Sub", "Add forward", "aten::add"),
    ]
    assert page.inner_text("#count") == f"10 of {len(everything) - 1} rows, including those inside others"
    page.uncheck("#only-differs")
    assert names(page) == everything


def test_a_row_of_which_only_parts_differ_is_shown_with_them(opened: Callable[..., Any]) -> None:
    before = (("mm", "small", 5000), ("mm", "large", 10_000), ("add", "small", 9000))
    after = (("mm", "small", 8000), ("mm", "large", 7000), ("add", "small", 9000))
    page = opened(up.diff(trace_of("torch", before), trace_of("torch", after)))
    page.click("#unfold")
    page.check("#only-differs")
    assert sorted(names(page)) == ["Total", "large", "mm", "small"]


def test_sorting_is_within_each_level_and_keeps_parts_with_their_rows(opened: Callable[..., Any]) -> None:
    page = opened()
    page.click("#unfold")
    page.click("[data-column=candidate_ns]")
    heading = page.locator("th:has([data-column=candidate_ns])")
    assert heading.get_attribute("aria-sort") == "descending"
    assert names(page) == [
        *("Total", "convolution", "Conv forward", "Conv2D", "aten::conv2d", "aten::bias"),
        *("matrix multiplication", "MatMul forward", "MatMul", "aten::mm"),
        *("elementwise", "Sub forward", "Sub", "Add forward", "aten::add"),
        *("activation", "Relu forward", "Relu", "aten::relu"),
    ]
    page.click("[data-column=candidate_ns]")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert names(page)[1] == "activation"
    page.click("[data-column=name]")
    assert heading.get_attribute("aria-sort") is None
    groups = page.locator("#tree-rows tr[data-level='0'] bdi").all_inner_texts()
    assert groups == sorted(groups)


def test_hostile_names_are_only_shown(opened: Callable[..., Any]) -> None:
    sides = [
        trace_of(
            "torch", tuple((name, name, scale * (place + 1)) for place, name in enumerate(HOSTILE)), run=HOSTILE[1]
        )
        for scale in (1000, 3000)
    ]
    for by in ("op", "name"):
        page = opened(up.diff(*sides, by=by), viewport={"width": 400, "height": 800})
        page.click("#unfold")
        page.fill("#search", "<script>")
        assert any(name.startswith(HOSTILE[0]) for name in names(page))
        page.fill("#search", "")
        page.click("[data-column=name]")
        assert page.evaluate("window.hurt") is None
        assert page.evaluate("document.images.length + document.querySelectorAll('b').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_a_page_fits_the_window_and_has_its_colors(opened: Callable[..., Any], scheme: str, width: int) -> None:
    page = opened(served=True, color_scheme=scheme, viewport={"width": width, "height": 800})
    for language in LANGUAGES:
        page.select_option("#language", language)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), language
    assert is_dark(page) == (scheme == "dark")
    page.select_option("#theme", "light" if scheme == "dark" else "dark")
    assert is_dark(page) == (scheme == "light")
    page.reload()
    assert is_dark(page) == (scheme == "light")


CUT = "[...document.querySelectorAll('td')].filter(td => td.scrollWidth > td.clientWidth).map(td => td.innerText)"


@pytest.mark.parametrize("width", [390, 1280, 1600])
@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_of_very_different_times_are_whole(opened: Callable[..., Any], width: int, language: str) -> None:
    ops = tuple((f"a_rather_long_name_of_an_operator_{number}", "MatMul", 328_926_111) for number in range(2))
    fast = tuple((name, op, time // 100_000) for name, op, time in ops)
    page = opened(
        up.diff(trace_of("torch", ops), trace_of("torch", fast)),
        language=language,
        viewport={"width": width, "height": 800},
    )
    assert "−328.920 ms" in page.inner_text(".total .difference")  # noqa: RUF001  a minus
    assert page.evaluate(CUT) == []


def test_on_a_phone_the_difference_is_beside_the_name(opened: Callable[..., Any]) -> None:
    page = opened(viewport={"width": 390, "height": 800})
    for cell in (row(page, "Conv forward").locator(".difference"), page.locator("[data-column=difference_ns]")):
        box = cell.bounding_box()
        assert box["x"] + box["width"] <= 390


def test_a_table_with_more_to_the_right_has_a_shadow_there(opened: Callable[..., Any]) -> None:
    from playwright.sync_api import expect

    page = opened(viewport={"width": 390, "height": 800})
    table = page.locator(".diff-table")
    expect(table).to_have_attribute("data-cut", "")
    page.locator(".table-window").evaluate("window => { window.scrollLeft = window.scrollWidth }")
    expect(table).not_to_have_attribute("data-cut", "")


def test_a_spread_of_many_times_the_median_is_not_a_number(opened: Callable[..., Any]) -> None:
    scales = (1, 1, 1, 400, 400)
    page = opened(up.diff(trace_of("torch", TORCH[:1], scales=scales), trace_of("torch", TORCH[:1])))
    assert "±>1000%" in page.inner_text(".total")


@pytest.mark.parametrize("width", [390, 1280])
def test_no_number_is_cut(opened: Callable[..., Any], width: int) -> None:
    ops = (("mm", "MatMul", 100_888), ("add", "Add", 88_888))
    sides = [
        trace_of(framework, ops, scales=scales) for framework, scales in (("torch", (1, 1, 4)), ("jax", (4, 1, 1)))
    ]
    page = opened(up.diff(*sides), viewport={"width": width, "height": 800})
    assert "±150%" in page.inner_text(".total")
    assert page.evaluate(CUT) == []


def is_dark(page: Any) -> bool:
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", background))) < 200


SNAPSHOT = """() => {
    const attributes = ['title', 'aria-label', 'placeholder'];
    const named = [...document.body.querySelectorAll(attributes.map(name => `[${name}]`))];
    return [
        document.title, document.documentElement.lang, document.body.innerText,
        ...named.map(each => attributes.map(name => each.getAttribute(name))),
    ];
}"""
"""All that a reader sees or hears of a page."""


def test_a_page_in_another_language_is_as_if_written_in_it(opened: Callable[..., Any]) -> None:
    written = {language: opened(language=language).evaluate(SNAPSHOT) for language in LANGUAGES}
    assert written["en"] != written["zh"]
    page = opened(language="en")
    page.select_option("#language", "zh")
    assert page.evaluate(SNAPSHOT) == written["zh"]
    page.select_option("#language", "en")
    assert page.evaluate(SNAPSHOT) == written["en"]


def test_a_link_has_the_language(opened: Callable[..., Any]) -> None:
    page = opened(address="#rows")
    page.select_option("#language", "zh")
    assert page.url.endswith("?language=zh#rows")
    page.goto(page.url.replace("#rows", ""))
    assert page.input_value("#language") == "zh"
    assert page.inner_text("#chart-title") == texts("zh")["ui.diff.sections.chart"]


@pytest.mark.parametrize("query", ["?language=fr", "?language=", "?language=%3Cb%3E&sort=nothing&order=x&rows=x"])
def test_an_address_that_means_nothing_shows_the_page_as_written(opened: Callable[..., Any], query: str) -> None:
    expected = opened(language="zh").evaluate(SNAPSHOT)
    assert opened(language="zh", address=query).evaluate(SNAPSHOT) == expected


SEEN = """new MutationObserver(() => {
    const title = document.querySelector('#chart-title');
    if (title) (window.seen ??= []).push([getComputedStyle(title).visibility, title.textContent]);
}).observe(document, {childList: true, subtree: true, attributes: true});"""


def test_no_other_language_is_seen_while_the_page_opens(opened: Callable[..., Any]) -> None:
    page = opened(address="?language=zh", before=SEEN)
    english, chinese = (texts(language)["ui.diff.sections.chart"] for language in LANGUAGES)
    seen = page.evaluate("seen")
    assert ["hidden", english] in seen, "it is parsed before it is translated"
    assert {text for visibility, text in seen if visibility == "visible"} == {chinese}


def test_a_page_that_its_scripts_cannot_translate_is_shown_as_written(opened: Callable[..., Any]) -> None:
    page = opened(address="?language=zh", before="JSON.parse = undefined", broken=True)
    assert page.is_visible("#chart-title")


def test_a_link_has_the_search_the_choice_of_rows_and_their_order(opened: Callable[..., Any], eventually: Any) -> None:
    page = opened()
    page.fill("#search", "forward")
    page.check("#only-differs")
    page.click("[data-column=baseline_ns]")
    page.click("[data-column=baseline_ns]")
    assert eventually(page, lambda: "search=forward" in page.url)
    assert {"rows=different", "sort=baseline_ns", "order=ascending"} <= set(page.url.partition("?")[2].split("&"))
    shown = names(page)
    assert shown == ["Total", "elementwise", "Add forward", "Sub forward", "convolution", "Conv forward"]
    page.goto("about:blank")
    page.go_back()
    assert names(page) == shown
    assert page.input_value("#search") == "forward"
    assert page.is_checked("#only-differs")
    assert page.get_attribute("th:has([data-column=baseline_ns])", "aria-sort") == "ascending"


def test_what_is_no_longer_chosen_leaves_the_address(opened: Callable[..., Any], eventually: Any) -> None:
    page = opened(address="?search=conv&rows=different")
    page.fill("#search", "")
    page.uncheck("#only-differs")
    assert eventually(page, lambda: page.url.endswith(".html"))


def test_a_browser_that_refuses_to_change_the_address_only_loses_the_link(opened: Callable[..., Any]) -> None:
    page = opened(before="history.replaceState = () => { throw new DOMException('insecure', 'SecurityError') }")
    page.select_option("#language", "zh")
    page.check("#only-differs")
    assert page.url.endswith(".html")
    assert page.inner_text("#chart-title") == texts("zh")["ui.diff.sections.chart"]


def test_rows_are_sought_and_sorted_by_their_names_in_the_language(opened: Callable[..., Any]) -> None:
    page = opened(address="?search=forward&sort=name&order=ascending")
    assert names(page)[1] == "activation"
    page.select_option("#language", "zh")
    assert names(page) == [texts("zh")["diff.total"]]
    page.fill("#search", texts("zh")["diff.direction.forward"])
    groups = page.locator("#tree-rows tr[data-level='0'] bdi").all_inner_texts()
    assert groups == sorted(groups)
    assert len(names(page)) > len(groups)


def test_a_slash_goes_to_the_search(opened: Callable[..., Any]) -> None:
    page = opened(address="?search=conv")
    page.focus("#only-differs")
    page.keyboard.press("/")
    page.keyboard.type("a/b?")
    assert page.input_value("#search") == "a/b?"
    assert not page.is_visible("#keys")


def test_a_question_mark_shows_all_keys(opened: Callable[..., Any]) -> None:
    page = opened()
    page.keyboard.press("?")
    for language in LANGUAGES:
        page.locator("#language").evaluate(
            "(select, to) => { select.value = to; select.dispatchEvent(new Event('change')) }", language
        )
        known = texts(language)
        assert page.get_by_role("dialog", name=known["ui.keys.title"]).is_visible()
        listed = page.locator("#keys dd").all_inner_texts()
        assert listed == [known[f"ui.keys.{name}"] for name in ("search", "fold", "overview", "close")]
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    assert not page.is_visible("#keys")
    assert page.input_value("#search") == ""


def test_the_overview_of_keys_opens_and_closes_by_mouse(opened: Callable[..., Any]) -> None:
    page = opened()
    for close in ({"selector": "#keys button"}, {"selector": "body", "position": {"x": 5, "y": 300}}):
        page.click("#keys-button")
        assert page.is_visible("#keys")
        page.click(**close, force=True)
        assert not page.is_visible("#keys")


@pytest.mark.parametrize("key", ["Control+/", "Alt+/", "Meta+?", "Control+?"])
def test_keys_of_the_browser_stay_its_own(opened: Callable[..., Any], key: str) -> None:
    page = opened()
    page.keyboard.press(key)
    assert not page.is_visible("#keys")
    assert page.evaluate("document.activeElement.id") != "search"


def test_without_scripts_everything_can_be_read(opened: Callable[..., Any]) -> None:
    found = runs()
    page = opened(found, java_script_enabled=False)
    assert "a step takes" in page.inner_text("#verdict")
    assert {part.name for group in found.rows for each in group.rows for part in each.rows} <= set(names(page))
    assert not page.is_visible("#search")
    assert not page.is_visible("button.fold >> nth=0")


def test_a_chinese_page_is_chinese(opened: Callable[..., Any]) -> None:
    page = opened(language="zh")
    for selector in ("#overview", "#chart", "#rows", "footer", "#count"):
        assert re.search(r"[\u4e00-\u9fff]", page.inner_text(selector)), selector
