"""The page about devices in a real browser: what `device_table` and the tables of devices say, on a page of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.analysis import DeviceTable
from unified_profiler.testing import TraceBuilder

pytestmark = pytest.mark.browser

NCCL = Path(__file__).parents[1] / "golden" / "kineto" / "nccl_rank.json.gz"
HOSTILE = "<img src=x onerror='window.hurt = 1'>"
EPOCH_NS = 1_700_000_000_000_000_000


def gpu_trace(rank: int) -> up.Trace:
    """Make a rank whose device computes for 100 us and waits for the host for 300 us, in a kernel of an evil name."""
    builder = TraceBuilder(rank=rank, world_size=2, host="host").step(0, EPOCH_NS, 600_000)
    for number, (name, start) in enumerate([(HOSTILE, 10_000), ("relu", 350_000)]):
        launch = {"layer": "runtime", "kind": "runtime", "device": "cpu:0", "correlation_id": number}
        builder.op("cudaLaunchKernel", EPOCH_NS + start - 5000, 4000, **launch)
        kernel = {"layer": "runtime", "kind": "kernel", "device": f"cuda:{rank}", "stream": 7, "tid": 7, "step": 0}
        builder.op(name, EPOCH_NS + start, 50_000, correlation_id=number, **kernel)
    return builder.build()


@pytest.fixture(scope="module")
def run() -> up.Run:
    return up.read(NCCL)


@pytest.fixture(scope="module")
def table(run: up.Run) -> DeviceTable:
    return up.device_table(run)


@pytest.fixture(scope="module")
def report(run: up.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return up.write(run, tmp_path_factory.mktemp("devices") / "report.html")


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = up.Run(traces=(gpu_trace(0), gpu_trace(1)))
    return up.write(run, tmp_path_factory.mktemp("devices") / "two.html")


def opened(browser: Any, file: Path, anchor: str, **options: Any) -> Iterator[Any]:
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **{"locale": "en-GB", **options})
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{file.as_uri()}#{anchor}")
    page.wait_for_selector("html[data-ready=complete]")
    yield page
    assert complaints == []
    context.close()


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    """The page about devices, by its address."""
    yield from opened(browser, report, "devices")


@pytest.fixture
def two_rank_page(browser: Any, two_ranks: Path) -> Iterator[Any]:
    yield from opened(browser, two_ranks, "devices")


def column(page: Any, name: str, key: str) -> list[str]:
    position = 1 + page.locator(f"#devices-{name}-table thead button").evaluate_all(
        "(buttons, key) => buttons.findIndex(button => button.dataset.column === key)", key
    )
    cells = page.locator(f"#devices-{name}-table tbody tr:not(.space) > :nth-child({position})")
    texts: list[str] = cells.all_inner_texts()
    return texts


def test_the_address_names_a_page_of_its_own(page: Any) -> None:
    assert page.is_visible("#devices")
    assert not page.is_visible("#overview")
    assert page.get_attribute("nav a[href='#devices']", "aria-current") == "page"
    page.click("nav a[href='#overview']")
    page.wait_for_selector("#devices", state="hidden")
    page.click("#to-devices a")
    page.wait_for_selector("#devices", state="visible")
    assert page.evaluate("document.activeElement.id") == "devices"


def test_it_begins_with_the_verdict(page: Any, table: DeviceTable) -> None:
    assert page.inner_text("#devices-verdict .headline") == "cuda:0 was idle 76.2% of 660.551 ms."
    assert page.locator("#devices-verdict li").count() == len(table.verdict) - 1
    (device,) = table.devices.rows
    share = f"{device.compute_ns / device.span_ns:.1%}"
    assert share in page.inner_text("#devices-figures [data-figure=device_compute]")


def test_the_overview_says_the_same_first(page: Any) -> None:
    page.click("nav a[href='#overview']")
    page.wait_for_selector("#overview", state="visible")
    assert page.locator("#findings li").first.inner_text() == "cuda:0 was idle 76.2% of 660.551 ms."
    assert "idle: host late 75.9%" in page.get_attribute("#overview-devices", "aria-label")
    assert "on the host" in page.inner_text("#parts-lead")


def test_each_step_has_a_bar_whose_parts_are_those_of_the_table(page: Any, table: DeviceTable) -> None:
    drawn = page.evaluate("document.querySelector('#devices-steps .plot').data.map(({name, x}) => [name, [...x]])")
    bars = dict(drawn)
    for name, key in (("computing", "compute_ns"), ("idle: host late", "host_late_ns")):
        assert bars[name] == pytest.approx([getattr(row, key) / 1e6 for row in table.rows])
    assert [sum(values) for values in zip(*bars.values(), strict=True)] == pytest.approx(
        [row.span_ns / 1e6 for row in table.rows]
    )


def test_tables_have_the_rows_of_the_analyses(page: Any, run: up.Run) -> None:
    launches = up.launch_table(run, row_limit=5).rows
    assert column(page, "launches", "operator")[:5] == [row.operator for row in launches]
    gaps = up.gap_table(run, row_limit=3).rows
    assert column(page, "gaps", "duration_ns")[:3] == [f"{row.duration_ns / 1e6:.3f} ms" for row in gaps]
    assert column(page, "gaps", "host_activity")[:3] == [row.host_activity for row in gaps]
    assert column(page, "queues", "stream") == ["7", "40"]
    assert column(page, "collectives", "bus_bandwidth")[0] == "8.693"


def test_a_click_on_a_step_shows_its_streams(page: Any) -> None:
    page.evaluate("document.querySelector('#devices-steps .plot').scrollIntoView()")
    clicked = "{points: [{customdata: {rank: 0, step: 6}}]}"
    page.evaluate(f"document.querySelector('#devices-steps .plot').emit('plotly_click', {clicked})")
    assert page.eval_on_selector("#streams-step", "select => select.selectedOptions[0].textContent") == "6"
    assert page.evaluate("document.activeElement.id") == "streams-canvas"


def test_the_streams_can_be_walked_by_keyboard(page: Any, eventually: Any) -> None:
    page.focus("#streams-canvas")
    page.keyboard.press("ArrowRight")
    assert eventually(page, lambda: "Duration" in page.inner_text("#streams-detail"))
    page.keyboard.press("ArrowRight")
    assert "Cause" in page.inner_text("#streams-detail")  # after the first work of the device comes its first gap
    assert "the host launched the next work after the device had become idle" in page.inner_text("#streams-detail")
    page.keyboard.press("ArrowDown")
    assert "Waited after its launch" in page.inner_text("#streams-detail") or "Cause" in page.inner_text(
        "#streams-detail"
    )
    page.keyboard.press("PageDown")
    assert page.eval_on_selector("#streams-step", "select => select.selectedOptions[0].textContent") == "5"


def test_a_search_finds_kernels_on_streams(page: Any, eventually: Any) -> None:
    page.fill("#streams-search", "nccl")
    assert eventually(page, lambda: page.inner_text("#streams-count") == "7 found")


def test_hovering_shows_the_cause_of_a_gap(page: Any, eventually: Any) -> None:
    page.locator("#streams-canvas").scroll_into_view_if_needed()
    box = page.locator("#streams-canvas").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 26 + 24 + 8)  # below the axis and the name of the device
    assert eventually(page, lambda: page.is_visible("#devices .tooltip"))
    assert "idle: host late" in page.inner_text("#devices .tooltip")


def test_the_language_changes_all_of_it(page: Any) -> None:
    page.select_option("#language", "zh")
    assert "处于空闲" in page.inner_text("#devices-verdict")
    assert "下发过晚" in page.inner_text("#streams-legend")
    assert "最长的空闲时间" in page.inner_text("#devices")
    shown = page.inner_text("#devices")
    assert "ui." not in shown
    assert "column." not in shown


def test_it_is_readable_in_the_dark(browser: Any, report: Path) -> None:
    for page in opened(browser, report, "devices", color_scheme="dark"):
        fill = page.evaluate("unifiedProfilerReport.categoryColor('host_late')")
        assert max(int(fill[at : at + 2], 16) for at in (1, 3, 5)) < 160  # pale on a dark page is dark
        assert page.evaluate("unifiedProfilerReport.PARTS.host_late_ns") == fill


def test_several_devices_are_compared_on_both_pages(two_rank_page: Any) -> None:
    page = two_rank_page
    names = "document.querySelector('#devices-bars .plot').layout.yaxis.ticktext"
    assert page.evaluate(names) == ["rank 0 · cuda:0", "rank 1 · cuda:1"]
    page.select_option("#devices-device", label="rank 1 · cuda:1")
    assert "cuda:1" in page.inner_text("#devices-steps h3")
    page.click("nav a[href='#ranks']")
    page.wait_for_selector("#devices", state="hidden")
    page.wait_for_selector("#ranks-devices .plot .main-svg")
    assert "idle: host late" in page.inner_text("#ranks-devices .sentence")


def test_names_of_kernels_are_shown_and_never_interpreted(two_rank_page: Any) -> None:
    page = two_rank_page
    page.focus("#streams-canvas")
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert HOSTILE in page.inner_text("#streams-detail")
    assert page.evaluate("window.hurt") is None


def test_without_a_device_there_is_no_page(browser: Any, tmp_path: Path) -> None:
    report = up.write(TraceBuilder().step(0, EPOCH_NS, 100).op("mm", EPOCH_NS, 50).build(), tmp_path / "cpu.html")
    for page in opened(browser, report, "devices"):
        assert page.locator("#devices").count() == 0
        assert page.locator("nav a[href='#devices']").count() == 0
        assert not page.is_visible("#overview-devices-title")
        assert "on the host" not in page.inner_text("#parts-lead")
