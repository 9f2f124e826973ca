"""The HTML report of real runs in a real browser: it says what the analyses say, and asks no network for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import unified_profiler as up
from unified_profiler.presentation.texts import render_hint
from unified_profiler.testing import TraceBuilder

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
NCCL = ROOT / "tests" / "golden" / "kineto" / "nccl_rank.json.gz"
TWO_RANKS = """
import torch
import torch.distributed as dist
import unified_profiler as up
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
with up.Profiler(schedule=up.schedule(wait=1, warmup=1, active=3, repeat=1), output_dir="profile", strict=True) as prof:
    for _ in range(6):
        with prof.region("train"):
            model(torch.randn(8, 64)).sum().backward()
        prof.step()
dist.barrier()
dist.destroy_process_group()
"""
HOSTILE = (
    "<script>window.hurt = 1</script>",
    "<img src=x onerror='window.hurt = 1'>",
    "\"'><b>bold</b>&lt;",
    "=cmd()|'calc'!A0",
    "\x00\x1b[31mred\x07\r\n\u202egnp.exe",
    "</script><script>window.hurt = 1</script>",
    "x" * 10_000,
)


@dataclass
class Page:
    """A report in the browser, and everything that went wrong in it or left it."""

    run: up.Run
    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def cells(self, column: str, table: str = "operators") -> list[str]:
        """Return the cells of a column that are in view."""
        place = 1 + self.page.locator(f"#{table}-table thead button").evaluate_all(
            "(buttons, column) => buttons.findIndex(button => button.dataset.column === column)", column
        )
        texts: list[str] = self.page.locator(
            f"#{table}-table tbody tr:not(.space) > :nth-child({place})"
        ).all_inner_texts()
        return texts

    def sort_by(self, column: str) -> None:
        self.page.click(f"#operators-table button[data-column={column}]")

    def text(self, selector: str) -> str:
        text: str = self.page.inner_text(selector)
        return text


def opened(browser: Any, run: up.Run, file: Path, **options: Any) -> Page:
    up.write(run, file)
    context = browser.new_context(**{"locale": "en-GB", "viewport": {"width": 1280, "height": 900}, **options})
    shown = Page(run, context.new_page())
    shown.page.on("console", lambda message: shown.complaints.append(message.text))
    shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    shown.page.on("request", lambda request: shown.requests.append(request.url))
    shown.page.goto(file.as_uri())
    shown.page.wait_for_selector("html[data-ready=complete]")
    return shown


def record(name: str, folder: Path) -> Path:
    """Record the example of a framework as it stands, or two ranks, in a process and directory of their own."""
    if name == "two ranks":
        (folder / "train.py").write_text(TWO_RANKS)
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    else:
        script = str(ROOT / "examples" / f"train_{name}.py")
        options = ["--no-table", "--record-shapes", "--with-modules", "--api"]
        launch = [sys.executable, "-m", "unified_profiler", "run", *options, script, "--", "--steps", "7"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    result = subprocess.run(launch, capture_output=True, text=True, cwd=folder, env=environment)
    assert result.returncode == 0, result.stderr
    return folder / "profile"


@pytest.fixture(scope="module", params=["torch", "tensorflow", "mindspore", "two ranks", "nccl"])
def report(request: pytest.FixtureRequest, tmp_path_factory: Any, browser: Any) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    run = up.read(NCCL if request.param == "nccl" else record(request.param, folder))
    shown = opened(browser, run, folder / "report.html")
    yield shown
    assert shown.complaints == []
    assert {url.partition(":")[0] for url in shown.requests} <= {"file", "data", "blob"}
    shown.page.context.close()


@pytest.fixture(scope="module")
def sections() -> tuple[str, ...]:
    return ("overview", "steps", "parts", "operators", "flame", "timeline")


def test_every_question_has_its_section(report: Page, sections: tuple[str, ...]) -> None:
    assert all(report.page.is_visible(f"#{section}") for section in sections)
    assert report.page.is_visible("nav a[href='#ranks']") == (len(report.run.ranks) > 1)
    assert report.page.is_visible("#api") == bool(up.summarize(report.run).api_calls)


def test_the_first_screen_says_what_was_found(report: Page) -> None:
    summary = up.summarize(report.run)
    shown = report.text("#overview")
    assert len(summary.findings) >= 3
    (named,) = [finding for finding in summary.findings if finding.code.startswith("operator")]
    assert str(named.values["name"]) in shown
    assert all(framework in shown for framework in summary.frameworks)


def test_sorting_puts_the_largest_first_and_then_the_smallest(report: Page) -> None:
    counts = [row.call_count for row in up.op_table(report.run)]
    report.sort_by("call_count")
    assert report.cells("call_count")[0] == f"{max(counts):,}"
    report.sort_by("call_count")
    assert report.cells("call_count")[0] == f"{min(counts):,}"
    assert (
        report.page.get_attribute("#operators-table th:has(button[data-column=call_count])", "aria-sort") == "ascending"
    )


def test_searching_leaves_what_was_searched_for(report: Page) -> None:
    from playwright.sync_api import expect

    names = [row.name for row in up.op_table(report.run)]
    matching = [name for name in names if names[0].lower() in name.lower()]
    count = report.page.locator("#operators-count")
    report.page.fill("#operators-search", names[0].upper())
    expect(count).to_have_text(re.compile(rf"^{len(matching):,} of {len(names):,}\b"))
    assert sorted(report.cells("name")) == sorted(matching)
    report.page.fill("#operators-search", "no such operator")
    expect(count).to_have_text(re.compile("^0 of"))
    assert report.cells("name") == []
    report.page.fill("#operators-search", "")
    expect(count).to_have_text(re.compile(f"^{len(names):,} of"))


def test_grouping_by_operator_shows_that_table(report: Page) -> None:
    report.page.check("#operators-grouping input[value=op]")
    operators = {row.op or "no canonical operator" for row in up.op_table(report.run, by="op")}
    assert set(report.cells("op")) <= operators
    report.page.check("#operators-grouping input[value=name]")


def test_another_step_can_be_chosen(report: Page) -> None:
    steps = report.page.locator("#timeline-step option").all()
    assert len(steps) >= 2
    before = report.text("#timeline-status") + str(report.page.get_attribute("#timeline-canvas", "aria-label"))
    picture = report.page.locator("#timeline-canvas").screenshot()
    report.page.click("#timeline-next")
    after = report.text("#timeline-status") + str(report.page.get_attribute("#timeline-canvas", "aria-label"))
    assert (before, picture) != (after, report.page.locator("#timeline-canvas").screenshot())
    report.page.select_option("#timeline-step", index=0)


def test_the_timeline_can_be_zoomed_and_walked_by_keyboard(report: Page, eventually: Any) -> None:
    canvas = report.page.locator("#timeline-canvas")
    whole = canvas.screenshot()
    canvas.focus()
    for key in ("w", "w", "d"):
        report.page.keyboard.press(key)
    assert eventually(report.page, lambda: canvas.screenshot() != whole)
    report.page.keyboard.press("0")


def test_the_language_is_switched_at_once_and_everywhere(report: Page) -> None:
    report.page.select_option("#language", "zh")
    assert report.page.get_attribute("html", "lang").startswith("zh")
    for selector in ("#overview", "#steps", "#parts", "#operators", "#flame", "#timeline", "footer"):
        assert any("\u4e00" <= character <= "\u9fff" for character in report.text(selector)), selector
    report.page.select_option("#language", "en")
    assert report.page.get_attribute("html", "lang").startswith("en")


def test_there_is_no_text_that_was_not_translated(report: Page) -> None:
    for language in ("zh", "en"):
        report.page.select_option("#language", language)
        assert not [line for line in report.text("body").splitlines() if "undefined" in line or line.startswith("ui.")]


# --- runs of other sorts -----------------------------------------------------------------------------------------


@pytest.fixture
def open_report(browser: Any, tmp_path: Path) -> Iterator[Any]:
    pages: list[Page] = []

    def open_it(run: up.Run, **options: Any) -> Page:
        pages.append(opened(browser, run, tmp_path / f"{len(pages)}.html", **options))
        return pages[-1]

    yield open_it
    for shown in pages:
        assert shown.complaints == []
        assert {url.partition(":")[0] for url in shown.requests} <= {"file", "data", "blob"}
        shown.page.context.close()


def hostile_run() -> up.Run:
    builder = TraceBuilder(run="<script>window.hurt = 1</script>", frameworks={"<b>": "<i>1</i>"})
    for step in range(2):
        builder.step(step, step * 10_000, 9000)
        for place, name in enumerate(HOSTILE):
            columns = {"module": name, "input_shapes": f'["{name[:20]}"]', "op": name, "thread": name[:50]}
            builder.op(name, step * 10_000 + place * 1000, 900, **columns)
            builder.region(name, step * 10_000 + place * 1000, 950)
            builder.op(name, step * 10_000 + place * 1000, 0, layer="hardware", kind="counter", value=1.0)
    return up.Run(traces=(builder.build(),))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_hostile_names_are_only_shown(open_report: Any, language: str) -> None:
    shown = open_report(hostile_run())
    shown.page.select_option("#language", language)
    for _ in range(2):
        shown.page.click("#timeline-next", force=True)
    shown.page.hover("#flame-canvas", position={"x": 60, "y": 60})
    shown.page.mouse.wheel(0, 20_000)
    assert shown.page.evaluate("window.hurt") is None
    assert not shown.page.evaluate(
        "[...document.images].length + document.querySelectorAll('b:has(> b), svg a').length"
    )
    assert any("<script>" in name for name in shown.cells("name"))
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_a_page_fits_the_window(open_report: Any, scheme: str, width: int) -> None:
    shown = open_report(up.read(NCCL), color_scheme=scheme, viewport={"width": width, "height": 800})
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    background = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) == (scheme == "dark")


def test_a_run_that_recorded_nothing_says_so(open_report: Any) -> None:
    shown = open_report(up.Run(traces=()))
    assert "contains no trace" in shown.text("#notices")


def test_a_killed_process_leaves_a_report_that_says_so(open_report: Any, tmp_path: Path) -> None:
    script = (
        "import os, signal, torch\nimport unified_profiler as up\n"
        "prof = up.Profiler(output_dir='profile', schedule=up.schedule(wait=0, warmup=0, active=2)); prof.start()\n"
        "for i in range(5):\n    torch.ones(4) + 1\n    prof.step()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True).returncode == -9
    shown = open_report(up.read(tmp_path / "profile"))
    assert "did not end" in shown.text("#notices")
    assert "aten::add" in shown.text("#operators")


def test_failures_are_on_the_first_screen(open_report: Any, tmp_path: Path) -> None:
    def broken(trace: up.Trace) -> None:
        msg = "the disk of the colleague is full"
        raise OSError(msg)

    with up.Profiler(output_dir=tmp_path / "profile", level=1, on_trace_ready=broken) as prof:
        prof.step()
    shown = open_report(up.read(tmp_path / "profile"))
    assert "the disk of the colleague is full" in shown.text("#notices")


def test_hints_are_in_the_language_of_the_page(open_report: Any) -> None:
    hint = (
        "It was cut off after {10} s without the end of a step: later work is missing. Give a larger --opening-limit."
    )
    trace = TraceBuilder().build()
    shown = open_report(up.Trace(trace.events, trace.info.model_copy(update={"hints": (hint, "{other} hint")})))
    assert hint in shown.text("#notices")
    shown.page.select_option("#language", "zh")
    assert render_hint(hint, language="zh") in shown.text("#notices")
    assert "{other} hint" in shown.text("#notices")


@pytest.mark.parametrize("section", ["steps", "parts", "operators", "flame", "timeline", "hardware"])
def test_an_address_with_a_section_shows_that_section(browser: Any, report: Page, section: str) -> None:
    address = report.page.url.partition("#")[0]
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{address}#{section}")
    page.wait_for_selector("html[data-ready=complete]")
    if page.query_selector(f"#{section}"):
        place = f"() => [document.querySelector('#{section}').getBoundingClientRect().top, innerHeight]"
        at_end = "() => scrollY + innerHeight >= document.documentElement.scrollHeight - 2"
        top, height = page.evaluate(place)
        assert 0 <= top < 150 or (page.evaluate(at_end) and top < height)
    context.close()


def test_without_scripts_the_findings_are_there(browser: Any, tmp_path: Path) -> None:
    up.write(up.read(NCCL), tmp_path / "report.html")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert "A recorded step takes" in page.inner_text("#findings")
    context.close()
