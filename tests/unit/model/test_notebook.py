from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from unified_profiler.model.records import Failure, Manifest, TraceInfo
from unified_profiler.model.run import Run, read_run
from unified_profiler.model.storage import write_parquet
from unified_profiler.model.trace import Trace
from unified_profiler.testing.builders import TraceBuilder

HOSTILE = ["<script>alert(1)</script>", "</td></table>", "a\"b'c&amp;", "\x1b[31m", "\u202e", "x" * 10_000]
HARMLESS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


class Document(HTMLParser):
    """The tags and cells of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        self.texts[-1] += data


def unread(**info: Any) -> Trace:
    """A trace whose events must not be read."""

    def load() -> Any:
        pytest.fail("the events were read")

    return Trace(load, TraceInfo(**info))


def shown(thing: Trace | Run) -> Document:
    return Document(thing._repr_html_())


def manifest(*failures: Failure, rank: int = 0) -> Manifest:
    told = {"profiler_version": "1", "run": "r", "host": "h", "pid": 1, "python": "3", "platform": "p", "started_ns": 1}
    return Manifest(rank=rank, failures=failures, **told)  # type: ignore[arg-type]


def test_a_trace_says_what_it_is_without_reading_its_events() -> None:
    trace = unread(
        rank=3,
        cycle=1,
        first_step=5,
        last_step=7,
        frameworks={"torch": "2.13.0", "mindspore": ""},
        event_count=17,
        start_ns=1,
        end_ns=2_000_001,
        complete=False,
    )
    assert shown(trace).texts[-7:] == ["3", "1", "5-7", "mindspore, torch 2.13.0", "17", "2.000 ms", "incomplete"]


def test_what_is_not_known_is_left_open() -> None:
    assert shown(unread()).texts[-7:] == ["0", "0", "--", "--", "0", "--", "complete"]


def test_a_run_has_a_row_for_each_trace() -> None:
    html = shown(Run(traces=(unread(), unread(rank=1)), path=Path("profile/x")))
    assert html.texts.count("complete") == 2
    assert "Run profile/x: 2 traces of 2 ranks" in html.texts


def test_a_run_says_what_failed() -> None:
    failure = Failure(source="torch", action="stop", error="RuntimeError: no")
    html = shown(Run(traces=(), manifests={2: manifest(failure, rank=2)}))
    assert html.texts[-1] == "Failure of rank 2: torch failed to stop: RuntimeError: no"


def test_long_runs_are_cut_and_say_so() -> None:
    failures = [Failure(source="torch", action="stop", error=str(number)) for number in range(30)]
    html = shown(Run(traces=[unread(cycle=cycle) for cycle in range(80)], manifests={0: manifest(*failures)}))
    assert html.texts.count("complete") == 50
    assert {"... and 30 more traces", "... and 20 more failures"} <= set(html.texts)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_text(name: str) -> None:
    failure = Failure(source=name, action=name, error=name)
    run = Run(traces=[unread(frameworks={name: name})], path=Path(name), manifests={0: manifest(failure)})
    for thing in (run, run.traces[0]):
        html = shown(thing)
        assert html.tags <= HARMLESS
        assert all(text.isprintable() for text in html.texts)
        assert max(map(len, html.texts)) <= 1000


def test_a_run_on_disk_is_shown_without_heavy_modules(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "rank-00000"
    folder.mkdir(parents=True)
    write_parquet(TraceBuilder().op("a", 0, 1).build(), folder / "cycle-00000.parquet")
    assert "1 trace of 1 rank" in read_run(tmp_path / "run")._repr_html_()
    code = (
        "import sys; import unified_profiler as up; from pathlib import Path\n"
        "up.read(Path('run'))._repr_html_()\n"
        "assert not {'duckdb', 'rich', 'typer', 'pandas', 'jinja2'} & sys.modules.keys()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
