"""Takes pictures of pages in Chromium: reports, comparisons, and the Perfetto UI."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from PIL import Image, ImageOps
from playwright.sync_api import sync_playwright

import unified_profiler as up
from unified_profiler.viewer import showing

WIDTH = 1280
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
COLORS = 256
"""Colors of a PNG file: enough for charts, and a third of the size."""
_DRAWN_MS = 1500
"""Time in which charts and zooms come to rest."""
_WAIT_MS = 250


@contextmanager
def chromium() -> Iterator[Any]:
    """Run a browser in the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


def opened(browser: Any, file: Path, anchor: str, **address: str) -> Any:
    """Return a page of this package, drawn, at a section and with choices in its address."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 1400}, color_scheme="light", locale="en-US")
    query = f"?{urlencode(address)}" if address else ""
    page.goto(f"{file.as_uri()}{query}#{anchor}")
    page.wait_for_timeout(_DRAWN_MS)
    return page


def first_screen(page: Any, *, height: int) -> bytes:
    """Return the top of a page, and close it."""
    content = page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
    page.close()
    return _small(content)


def section(page: Any, selector: str) -> bytes:
    """Return a picture of one section, and close the page."""
    page.add_style_tag(content="header.top { display: none }")  # it covers what is scrolled below it
    content = page.locator(selector).screenshot()
    page.close()
    return _small(content, margin=16)


def perfetto(browser: Any, run: up.Run) -> bytes:
    """Return the timeline of a run in the Perfetto UI, as `unified-profiler view` shows it."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 560}, color_scheme="light")
    with showing(run, title="profile") as timeline:
        page.goto(timeline.address)
        while not page.evaluate("Boolean(window.app?.trace && !app.isLoadingTrace)"):
            page.wait_for_timeout(_WAIT_MS)
        page.wait_for_timeout(4 * _DRAWN_MS)
        content = page.screenshot()
        page.close()
    return _small(content)


def _small(content: bytes, *, margin: int = 0) -> bytes:
    """Reduce the colors of a PNG file, and add a margin in the color of its corner."""
    image, output = Image.open(io.BytesIO(content)).convert("RGB"), io.BytesIO()
    corner = cast("tuple[int, ...]", image.getpixel((0, 0)))
    framed = ImageOps.expand(image, border=margin, fill=corner)
    framed.quantize(COLORS).save(output, "PNG", optimize=True)
    return output.getvalue()
