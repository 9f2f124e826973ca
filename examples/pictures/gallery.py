"""Lists the pictures of the documentation and the run that each shows. A test compares the list with docs/images."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import unified_profiler as up
from examples.pictures import drawings, pages, terminal
from examples.pictures.runs import ROOT, Runs

IMAGES = ROOT / "docs" / "images"
GPU_TRACE = ROOT / "tests" / "golden" / "kineto" / "nccl_rank.json.gz"
"""A recorded trace of a GPU, since the machines that make these pictures have none."""


class Studio(ExitStack):
    """The runs and the browser, each made when the first picture needs it. Used as a context manager."""

    def __init__(self, folder: Path) -> None:
        """Prepare to work in an empty directory."""
        super().__init__()
        self.folder = folder
        self.runs = Runs(folder)

    @cached_property
    def browser(self) -> Any:
        """Chromium, until the end of the context."""
        return self.enter_context(pages.chromium())

    def report(self, run: Path) -> Path:
        """Return the report of a run or trace, written once."""
        page = self.folder / f"{run.name.partition('.')[0]}-report.html"
        return page if page.exists() else up.write(up.read(run), page)

    def section(self, run: Path, section: str, **address: str) -> bytes:
        """Return a picture of a section of a report; the address selects what it shows."""
        return pages.section(pages.opened(self.browser, self.report(run), section, **address), f"#{section}")


def _report(studio: Studio) -> bytes:
    page = pages.opened(studio.browser, studio.report(studio.runs.training), "overview")
    return pages.first_screen(page, height=1190)


def _operators(studio: Studio) -> bytes:
    return studio.section(studio.runs.training, "operators", operator="Optimizer.step#AdamW.step")


def _call_tree(studio: Studio) -> bytes:
    return studio.section(studio.runs.training, "flame", **{"flame-direction": "bottom"})


def _timeline(studio: Studio) -> bytes:
    return studio.section(studio.runs.training, "timeline", operator="aten::bmm")


def _devices(studio: Studio) -> bytes:
    page = pages.opened(studio.browser, studio.report(GPU_TRACE), "devices")
    return pages.first_screen(page, height=1150)


def _ranks(studio: Studio) -> bytes:
    page = pages.opened(studio.browser, studio.report(studio.runs.job), "ranks")
    return pages.first_screen(page, height=1010)


def _diff(studio: Studio) -> bytes:
    return pages.first_screen(pages.opened(studio.browser, studio.runs.framework_diff, ""), height=900)


def _tutorial_report(studio: Studio) -> bytes:
    grouping = {"operators-grouping": "shapes", "operators-search": "200000"}
    return studio.section(studio.runs.tutorial("before"), "operators", **grouping)


def _tutorial_diff(studio: Studio) -> bytes:
    return pages.first_screen(pages.opened(studio.browser, studio.runs.tutorial_diff, ""), height=820)


def _perfetto(studio: Studio) -> bytes:
    return pages.perfetto(studio.browser, up.read(studio.runs.regions).select(cycle=1))


def _terminal(studio: Studio) -> bytes:
    return terminal.picture(["table profile --row-limit 6", "steps profile"], studio.runs.training.parent)


PICTURES: dict[str, Callable[[Studio], bytes]] = {
    "architecture.svg": lambda _: drawings.architecture(),
    "data-flow.svg": lambda _: drawings.data_flow(),
    "schedule.svg": lambda _: drawings.schedule(),
    "terminal.svg": _terminal,
    "report.png": _report,
    "report-operators.png": _operators,
    "report-call-tree.png": _call_tree,
    "report-timeline.png": _timeline,
    "report-devices.png": _devices,
    "report-ranks.png": _ranks,
    "diff.png": _diff,
    "perfetto.png": _perfetto,
    "tutorial-report.png": _tutorial_report,
    "tutorial-diff.png": _tutorial_diff,
}
"""A function for each file in docs/images, which returns its content."""
