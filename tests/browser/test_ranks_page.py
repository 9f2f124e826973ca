"""The page about ranks in a real browser: what `rank_table` says, on a page of its own within the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.analysis.rank_table import RankTable, rank_table
from unified_profiler.testing.fleets import Fleet, HostClock, Straggler

pytestmark = pytest.mark.browser

SLOW = Straggler(rank=3, since=20, extra_ns=4_000_000, operator="layer_1")
RIGHT_END_OF_THE_MAP = "document.querySelector('#ranks-map .main-svg').getBoundingClientRect().right"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    clocks = {5: HostClock(offset_ns=70_000_000)}
    return Fleet(ranks=6, steps=40, outer_ops=2, stragglers=[SLOW], clocks=clocks).write(folder)


@pytest.fixture(scope="module")
def table(fleet: Path) -> RankTable:
    return rank_table(up.read(fleet))


@pytest.fixture(scope="module")
def report(fleet: Path) -> Path:
    up.write(up.read(fleet), fleet.parent / "report.html")
    return fleet.parent / "report.html"


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    """The page about ranks, by its address."""
    complaints: list[str] = []
    context = browser.new_context(locale="en-GB", viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{report.as_uri()}#ranks")
    page.wait_for_selector("html[data-ready=complete]")
    yield page
    assert complaints == []
    context.close()


def cells(page: Any, column: str) -> list[str]:
    place = 1 + page.locator("#ranks-table thead button").evaluate_all(
        "(buttons, column) => buttons.findIndex(button => button.dataset.column === column)", column
    )
    found: list[str] = page.locator(f"#ranks-table tbody tr:not(.space) > :nth-child({place})").all_inner_texts()
    return found


def test_the_address_names_a_page_of_its_own(page: Any) -> None:
    assert page.is_visible("#ranks")
    assert not page.is_visible("#overview")
    assert page.get_attribute("nav a[href='#ranks']", "aria-current") == "page"
    page.click("nav a[href='#operators']")
    page.wait_for_selector("#overview", state="visible")
    assert not page.is_visible("#ranks")
    assert page.get_attribute("nav a[href='#ranks']", "aria-current") is None
    page.wait_for_selector("#steps-chart .plot .main-svg")
    assert page.evaluate("document.activeElement.id") == "operators"
    page.go_back()
    page.wait_for_selector("#ranks", state="visible")
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.is_visible("#ranks")


def test_the_first_screen_leads_to_it(page: Any) -> None:
    page.click("nav a[href='#overview']")
    page.wait_for_selector("#overview", state="visible")
    assert "Rank 3 is slow since step" in page.inner_text("#findings")
    page.click("#to-ranks a")
    page.wait_for_selector("#ranks", state="visible")
    page.wait_for_selector("#ranks-map .plot .main-svg")


def test_it_says_what_the_rank_table_says(page: Any, table: RankTable) -> None:
    verdict = page.inner_text("#ranks-verdict")
    (straggler,) = table.stragglers
    assert f"Rank 3 is slow since step {straggler.since}" in verdict
    assert page.locator("#ranks-verdict li").count() == len(table.verdict) - 1
    assert page.locator("#ranks-notices li").count() == len(table.notices)
    assert cells(page, "rank") == [
        str(row.rank) for row in sorted(table.ranks.rows, key=lambda row: row.skew_ns, reverse=True)
    ]
    assert cells(page, "slow")[0] == f"▲ since step {straggler.since}"
    page.click("#ranks-table button[data-column=waiting_ns]")
    assert cells(page, "rank")[-1] == "3"
    assert table.clocks is not None
    assert f"{table.clocks.ranks[5].ahead_ns / 1e6:.3f} ms" in page.inner_text("#clocks-table")


def test_the_map_shows_ranks_steps_and_since_when(page: Any, table: RankTable) -> None:
    drawn = page.evaluate(
        "(({data, layout}) => ({y: data[0].y, x: data[0].x, z: data[0].z, layout}))("
        "document.querySelector('#ranks-map .plot'))"
    )
    since = table.stragglers[0].since
    assert (drawn["y"], drawn["x"]) == ([str(rank) for rank in range(6)], [str(step) for step in range(40)])
    highest = [max(range(6), key=lambda rank: drawn["z"][rank][step]) for step in range(since + 1, 40)]
    assert set(highest) == {3}
    outline = drawn["layout"]["shapes"][0]
    assert (outline["x0"], outline["y0"]) == (since - 0.5, 2.5)
    assert str(since) in drawn["layout"]["annotations"][0]["text"]


def test_the_map_can_show_something_else_by_keyboard(page: Any, eventually: Any) -> None:
    before = page.locator("#ranks-map .plot").screenshot()
    page.focus("#ranks-measure input:checked")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#ranks-map h3") == "Own time"
    assert eventually(page, lambda: page.locator("#ranks-map .plot").screenshot() != before)


def test_it_speaks_both_languages_and_fits_a_phone(page: Any, eventually: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    for language, theme in (("zh", "dark"), ("en", "light")):
        page.select_option("#theme", theme)
        page.select_option("#language", language)
        text = page.inner_text("#ranks")
        assert "undefined" not in text
        assert "ui." not in text
        assert ("偏慢" in page.inner_text("#ranks-verdict")) == (language == "zh")
        assert eventually(page, lambda: 200 < page.evaluate(RIGHT_END_OF_THE_MAP) <= 360)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
