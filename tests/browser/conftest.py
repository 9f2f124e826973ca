"""The Perfetto UI behind the server of `unified-profiler view`, in a real headless Chromium."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unified_profiler.export import write
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace
from unified_profiler.viewer import TimelineServer, find_ui

SECONDS = 600
"""The longest that a page may take; far more than it does, since the machine may be busy."""
FLAGS = [
    "--no-sandbox",  # containers run tests as root
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # nothing leaves this machine
]


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        reason = "no Chromium here, so nothing is known of reports and of traces in Perfetto: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")  # not longer: while it is open, an event loop runs in this thread
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=SECONDS * 1000)
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as patch:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=SECONDS * 1000)
        for name in ("new_context", "new_page"):
            patch.setattr(browser, name, patient(getattr(browser, name)))
        yield browser
        browser.close()


def patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """Have the contexts or pages that are made wait longer than the 30 seconds which the browser driver waits."""

    def made(**options: Any) -> Any:
        found = make(**options)
        found.set_default_timeout(SECONDS * 1000)
        return found

    return made


@pytest.fixture(scope="session")
def eventually() -> Callable[[Any, Callable[[], bool]], bool]:
    """Say whether something comes to hold of a page, which draws when it comes to it."""
    return comes_to_hold


def comes_to_hold(page: Any, condition: Callable[[], bool]) -> bool:
    for _ in range(SECONDS * 20):
        if condition():
            return True
        page.wait_for_timeout(50)
    return False


@pytest.fixture(scope="session")
def served_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def server() -> Iterator[TimelineServer]:
    with TimelineServer(find_ui()) as running:
        yield running


class Perfetto:
    """The UI with one trace at a time in it. Loading a second one is faster than a second page, which takes 6 s."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        page.goto(address)
        self.wait_until("() => Boolean(window.app)")

    def wait_until(self, condition: str, argument: Any = None) -> None:
        """Ask until it holds. What the browser driver has for that is `eval`, which the page does not allow."""
        if not comes_to_hold(self.page, lambda: bool(self.page.evaluate(condition, argument))):
            shown = self.page.evaluate("() => document.querySelector('.pf-modal-dialog')?.innerText")
            pytest.fail(f"not in {SECONDS} seconds: {condition}; the page says {shown!r}")

    def wait_for_trace(self, title: str) -> None:
        loaded = "name => Boolean(!app.isLoadingTrace && app.trace?.traceInfo.traceTitle.startsWith(name + ' '))"
        self.wait_until(loaded, title)

    @property
    def info(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(
            "({type: app.trace.traceInfo.traceType, errors: Number(app.trace.traceInfo.importErrors)})"
        )
        return found

    @property
    def window(self) -> tuple[int, int]:
        """From when until when is seen, in nanoseconds of the trace."""
        span = "app.trace.timeline.visibleWindow.toTimeSpan()"
        start, end = self.page.evaluate(f"[{span}.start, {span}.end].map(Number)")
        return int(start), int(end)

    def query(self, sql: str) -> list[list[Any]]:
        """Run SQL in the trace processor; whole numbers come back as int."""
        script = """async (sql) => {
            const result = await app.trace.engine.query(sql);
            const columns = result.columns(), rows = [];
            for (const it = result.iter({}); it.valid(); it.next())
                rows.push(columns.map(c => { const v = it.get(c); return typeof v === 'bigint' ? Number(v) : v }));
            return rows;
        }"""
        rows: list[list[Any]] = self.page.evaluate(script, sql)
        return rows

    def value(self, sql: str) -> Any:
        return self.query(sql)[0][0]

    @property
    def complaints(self) -> dict[str, int]:
        """What the trace processor found wrong with the file."""
        rows = self.query("select name, sum(value) from stats where severity != 'info' group by name having sum(value)")
        return {name: int(count) for name, count in rows}


class Exhibition(Perfetto):
    """Shows traces of a test one after another."""

    def __init__(self, page: Any, server: TimelineServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.names = (f"trace-{number}" for number in itertools.count())
        super().__init__(page, f"{server.address}/?testing=1")

    def show(self, trace: Trace | Run, suffix: str = ".json") -> Path:
        """Export and load; returns the file."""
        return self.load(write(trace, self.folder / f"{next(self.names)}{suffix}"))

    def load(self, file: Path) -> Path:
        """Load a file; returns it."""
        self.page.evaluate("url => { location.hash = '#!/?url=' + url }", self.server.add_trace(file))
        self.wait_for_trace(file.name)
        return file


@pytest.fixture(scope="session")
def perfetto_at() -> type[Perfetto]:
    """What drives the UI in a page, at an address."""
    return Perfetto


@pytest.fixture(scope="module")
def perfetto(browser: Any, server: TimelineServer, served_folder: Path) -> Iterator[Exhibition]:
    page = browser.new_page()
    yield Exhibition(page, server, served_folder)
    page.close()
